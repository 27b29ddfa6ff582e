/**
 * The command `wisp tune`: measures which form of the kernels is the fastest on this adapter.
 *
 * @module
 */

import type { MeasuredForm, TunedMatrix, UploadTimes } from "../../../kernels/tune.ts";
import { Checkpoint } from "../../checkpoint/checkpoint.ts";
import type { TuningDemand } from "../../engine/load/tuning_demand.ts";
import { largestOf } from "../../extremes.ts";
import type { AttentionTuning, Tuning } from "../../gpu/tuning.ts";
import { tuningPath } from "../device/tuning_file.ts";
import { openFolder } from "../files.ts";
import { resolveModel } from "../hub/resolve_model.ts";
import {
  formatOptions,
  OptionError,
  type OptionValues,
  parseOptions,
} from "../options/option_parser.ts";
import { TUNE_OPTIONS } from "../options/tune_options.ts";
import { quietReport } from "../serve/start_report.ts";
import type { CommandContext } from "./command_context.ts";

const USAGE = `Usage: wisp tune [options]

Runs the kernels of linear layers and of attention in every form that they can take on this adapter,
checks that all give the same bits, prints the fastest and keeps them: servers on this machine start
with them from then on. Measures too in which order the words and scales of weights are read the
soonest, which neighbouring launches are better one, and whether the host or the GPU puts weights in
their order sooner. Tell it the model that will be served, or the shapes of its matrices. Takes some
minutes, during which nothing else should use the adapter. No answer of a model changes.
`;

const SHAPE = /^([1-9]\d{0,6})x([1-9]\d{0,6})$/;

type TuneValues = OptionValues<typeof TUNE_OPTIONS>;

/**
 * @throws {OptionError} when the command line is wrong.
 * @throws {EngineError} when the model, the adapter or the file for the tuning cannot be used.
 */
export async function tuneCommand(
  args: readonly string[],
  { stdout, stderr }: CommandContext,
): Promise<void> {
  const { values: options, positionals } = parseOptions(TUNE_OPTIONS, args);
  if (options.help) {
    stdout.write(`${USAGE}\n${formatOptions(TUNE_OPTIONS)}\n`);
    return;
  }
  if (positionals.length > 0) {
    throw new OptionError(`Cannot use argument "${positionals[0]}": only options are expected`);
  }
  const demand = await demandOf(options);
  const path = options.output ?? tuningPath();
  const { openDevice } = await import("../device/device.ts");
  const { measureAndStore } = await import("../device/kernel_tuning.ts");
  const { device, adapter } = await openDevice(
    options.adapter === undefined ? {} : { adapter: options.adapter },
  );
  const { progress } = quietReport(stderr);
  const { winners, upload, tuning } = await measureAndStore(device, {
    demand,
    attention: {},
    onProgress: (done, total) => progress({ phase: "tuning", done, total }),
    path,
  });
  const chosen = `${formatWinners(winners)}\n${formatOrder(tuning)}${formatAttention(tuning.attention!)}${formatFusions(tuning)}${formatUpload(upload)}`;
  stdout.write(`Adapter: ${adapter.name}\n\n${chosen}\nKept in ${path}\n`);
}

/** @throws {OptionError} when shapes are told twice, or none at all. */
async function demandOf(options: TuneValues): Promise<Partial<TuningDemand>> {
  const { modelPath, shapes, dtypes, quantization, revision } = options;
  if (modelPath === undefined) {
    for (const [key, value] of Object.entries({ quantization, revision })) {
      if (value !== undefined)
        throw new OptionError(
          `Cannot use option --${key}: it says something of --model, which is missing`,
        );
    }
    return { matrices: matricesOf(shapes, dtypes) };
  }
  if (shapes !== undefined || dtypes !== undefined) {
    const flag = shapes === undefined ? "--dtypes" : "--shapes";
    throw new OptionError(`Cannot use option ${flag} together with --model: the model has its own`);
  }
  const { name, folder } = await resolveModel(modelPath, { revision });
  const { tuningDemand } = await import("../../engine/load/tuning_demand.ts");
  const source = await openFolder(folder, name);
  try {
    return await tuningDemand(await Checkpoint.open(source), quantization);
  } finally {
    await source.close();
  }
}

const DEFAULT_SHAPES = ["2048x2048", "4096x4096"] as const;
const DTYPES = ["bf16", "f16", "f32", "fp8", "int8", "int4", "mxfp4"] as const;
const DEFAULT_DTYPES = ["bf16", "fp8", "int8", "int4"] as const;

function matricesOf(
  shapes: readonly string[] = DEFAULT_SHAPES,
  dtypes: readonly string[] = DEFAULT_DTYPES,
): TunedMatrix[] {
  return dtypes.flatMap((name) => {
    const dtype = DTYPES.find((known) => known === name);
    if (dtype === undefined) {
      throw new OptionError(
        `Cannot use option --dtypes ${name}: it is none of ${DTYPES.join(", ")}`,
      );
    }
    return shapes.map((shape) => {
      const [, rows, columns] = SHAPE.exec(shape) ?? [];
      if (rows === undefined || columns === undefined) {
        throw new OptionError(
          `Cannot use option --shapes ${shape}: write outputs x inputs, as 4096x2048`,
        );
      }
      return { dtype, rows: Number(rows), columns: Number(columns) };
    });
  });
}

const HEADER = [
  "weights",
  "rows",
  "lanes",
  "split",
  "workgroup",
  "staged",
  "us",
  "G weights/s",
] as const;

/** Where the words of weights lie. */
export function formatOrder({ rowsPerLane = 1, scaleOrder = "byGroup" }: Tuning): string {
  const rows = rowsPerLane === 1 ? "1 row" : `${rowsPerLane} rows`;
  const scales = scaleOrder === "byGroup" ? "a group of columns" : "a run of rows";
  return `Weights: ${rows} of a lane side by side, the scales of ${scales} together\n`;
}

/** How attention is shared out. */
export function formatAttention(tuning: AttentionTuning): string {
  const { rowHeads, groupHeads, promptHeads, sharesReads, lanes, subgroups } = tuning;
  const way = subgroups ? "subgroups" : `workgroup memory, ${lanes} lanes`;
  const heads = `${rowHeads} for a row, ${groupHeads} for rows that share reads, ${promptHeads} for prompts`;
  const share = sharesReads ? "share reads" : "read for themselves";
  return `Attention: through ${way}; heads of a workgroup at most ${heads}; rows of one sequence ${share}\n`;
}

/** Which launches are one. */
export function formatFusions({ foldsNorms, findsBest }: Tuning): string {
  const word = (joined: boolean | undefined) => (joined ? "one launch" : "two launches");
  return `Projection and the norm behind it: ${word(foldsNorms)}; output head and best token: ${word(findsBest)}\n`;
}

/** How fast weights come to their places each way. */
export function formatUpload({ bytes, host, gpu }: UploadTimes): string {
  const rate = (seconds: number) => `${(bytes / seconds / 1e9).toFixed(2)} GB/s`;
  return `Weights: put in order by the host ${rate(host)}, by the GPU ${rate(gpu)}\n`;
}

/** A line for each form that was chosen. */
export function formatWinners(winners: readonly MeasuredForm[]): string {
  const lines = winners.map(
    ({ dtype, tokens, lanes, split, workgroup, staged, seconds, weights }) => [
      dtype,
      `${tokens}`,
      `${lanes}`,
      `${split}`,
      `${workgroup}`,
      staged ? "yes" : "no",
      (seconds * 1e6).toFixed(0),
      ((tokens * weights) / seconds / 1e9).toFixed(2),
    ],
  );
  const table = [HEADER, ...lines];
  const widths = HEADER.map((_, c) => largestOf(table.map((line) => line[c]!.length)));
  const rows = table.map((line) => line.map((cell, c) => cell.padStart(widths[c]!)).join("  "));
  return `${rows.join("\n")}\n`;
}
