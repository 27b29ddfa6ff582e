/**
 * A checkpoint's report as aligned lines for a terminal.
 *
 * @module
 */

import type { CheckpointReport, WeightsReport } from "../../engine/checkpoint_report.ts";
import { megabytes } from "../../engine/load/memory_budget.ts";
import { NODE_DEVICES } from "../../engine/load/sizing.ts";
import { largestOf } from "../../extremes.ts";
import { describeUnshared } from "../serve/describe_sizes.ts";

/** What stands in front of the values. */
const LABEL_WIDTH = 16;
const GAP = "  ";
const GIB = 2 ** 30;

const RULE = `Devices: the fewest that hold the weights and that cache, cut evenly: a power of two that divides
the heads, whole machines of ${NODE_DEVICES} above ${NODE_DEVICES}. "-" does not fit.
`;

/** Every line ends with a line feed. */
export function formatReport(report: CheckpointReport): string {
  const facts = factsOf(report).map(([label, value]) => `${label.padEnd(LABEL_WIDTH)}${value}\n`);
  return `${facts.join("")}\n${formatWeights(report)}\n${RULE}${formatRanks(report)}`;
}

function formatRanks({ ranks }: CheckpointReport): string {
  if (ranks === undefined) return "";
  const { size, gpuBytes, cacheBytes, cacheCopies, attentionGroups, unshared } = ranks;
  const weights =
    gpuBytes === undefined ? "no weights that can be loaded" : `${megabytes(gpuBytes)} of weights`;
  const holds = `${weights} as published, ${megabytes(cacheBytes)} of that cache`;
  const among = attentionGroups > 1 ? `, in ${attentionGroups} attention groups,` : "";
  const same = attentionGroups > 1 ? "ranks of a group" : "ranks";
  const copies =
    cacheCopies > 1 ? `  ${cacheCopies} ${same} hold the same entries of the cache\n` : "";
  const whole = describeUnshared(unshared).map((reason) => `  whole on each: ${reason}\n`);
  return `\nEach of ${size} ranks${among} holds ${holds}\n${copies}${whole.join("")}`;
}

function factsOf(report: CheckpointReport): (readonly [label: string, value: string])[] {
  const { experts, parameters, stored, missing, problem, cacheBytesPerToken: cache } = report;
  const active = experts === undefined ? "" : `, ${billions(parameters.active)} active per token`;
  const state =
    missing.length > 0
      ? ([["Missing", missing.join(", ")]] as const)
      : problem === undefined
        ? []
        : ([["Problem", problem]] as const);
  return [
    ["Model", report.name],
    ["Architecture", report.architecture],
    ["Layers", count(report.layers) + draftLayersOf(report)],
    ["Hidden size", count(report.hiddenSize)],
    ["Attention", attentionOf(report)],
    ["Context", `${count(report.contextLength)} tokens`],
    ["Vocabulary", count(report.vocabularySize) + (report.tiedEmbeddings ? ", tied" : "")],
    ...(experts === undefined ? [] : ([["Experts", expertsOf(experts)]] as const)),
    ["Quantization", quantizationOf(report)],
    ["Parameters", billions(parameters.total) + active],
    ...(stored === undefined ? [] : ([["Files", storedOf(stored)]] as const)),
    [
      "KV cache",
      `${count(cache.bf16)} bytes per token (${count(cache.fp8)} in FP8, ${count(cache.f32)} in f32)`,
    ],
    ...draftOf(report),
    ...visionOf(report),
    ...state,
  ];
}

function draftLayersOf({ draftLayers }: CheckpointReport): string {
  return draftLayers === 0 ? "" : `, and ${draftLayers} that can draft (EAGLE)`;
}

function draftOf({ draft }: CheckpointReport): (readonly [label: string, value: string])[] {
  if (draft === undefined) return [];
  const { name, algorithm, architecture, gpuBytes, cacheBytesPerToken: cache } = draft;
  const sizes = `${megabytes(gpuBytes)} of weights, ${count(cache.bf16)} bytes of cache per token`;
  return [["Draft model", `${name} (${algorithm}, ${architecture}): ${sizes}`]];
}

function visionOf({ vision }: CheckpointReport): (readonly [label: string, value: string])[] {
  if (vision === undefined) return [];
  const { weightBytes, activationBytes } = vision;
  const sizes = `${megabytes(weightBytes)} of the weights, ${megabytes(activationBytes)} for a picture`;
  return [["Vision tower", sizes]];
}

function attentionOf({ attention }: CheckpointReport): string {
  if (attention.kind === "gqa") {
    const { heads, kvHeads, headDim } = attention;
    return `GQA, ${heads} heads, ${kvHeads} key heads of ${headDim}`;
  }
  const { heads, queryLatent, latent, nope, rope, value } = attention;
  const query = queryLatent === null ? "" : `, query latent ${queryLatent}`;
  const head = `${heads} heads of ${nope} + ${rope} (values ${value})`;
  return `MLA, ${head}, latent ${latent} + ${rope}${query}`;
}

function expertsOf(experts: NonNullable<CheckpointReport["experts"]>): string {
  const { routed, perToken, shared } = experts;
  return `${routed} routed, ${perToken} active per token, ${shared} shared`;
}

function quantizationOf({ quantization }: CheckpointReport): string {
  if (quantization.method === "none") return "none";
  const { name, method } = quantization;
  const group = "groupSize" in quantization ? `, groups of ${quantization.groupSize}` : "";
  return `${name}${name === method ? "" : ` (${method})`}${group}`;
}

function storedOf({ total, byDtype, unused }: NonNullable<CheckpointReport["stored"]>): string {
  const parts = Object.entries(byDtype)
    .sort(([, a], [, b]) => b - a)
    .map(([dtype, bytes]) => `${dtype} ${megabytes(bytes)}`);
  const rest = unused === 0 ? "" : `; ${megabytes(unused)} of it not used`;
  return `${megabytes(total)}: ${parts.join(", ")}${rest}`;
}

function formatWeights({ weights, demand, draft }: CheckpointReport): string {
  const { contextLength, concurrency, cacheBytes, memFractionStatic } = demand;
  const sequences = concurrency === 1 ? "one sequence" : `${count(concurrency)} sequences`;
  const whose = draft === undefined ? "weights" : "weights, those of the draft model,";
  const tokens = `${sequences} of ${count(contextLength)} tokens (${megabytes(cacheBytes)} of cache)`;
  const memories = weights.find(({ devices }) => devices.length > 0)?.devices ?? [];
  const sizes = memories.map(({ deviceMemory }) => memorySize(deviceMemory));
  const header: Row = { cells: ["Weights", "On the GPU", ...sizes] };
  const rows = weights.map(
    (row): Row => ({
      cells: [
        nameOf(row),
        row.gpuBytes === undefined ? "-" : megabytes(row.gpuBytes),
        ...row.devices.map(({ fit }) => (fit === undefined ? "-" : count(fit.devices))),
      ],
      sentence: row.problem,
    }),
  );
  const title = `Devices for the ${whose} and ${tokens}, ${memFractionStatic} of each one's memory:\n`;
  return `${title}${table([header, ...rows])}`;
}

function nameOf({ form, kind }: WeightsReport): string {
  switch (kind) {
    case "published":
      return "as published";
    case "upload":
      return `--quantization ${form}`;
    case "shape":
      return `if published in ${SHAPE_NAMES.get(form) ?? form}`;
  }
}

const SHAPE_NAMES: ReadonlyMap<string, string> = new Map([
  ["fp8", "FP8"],
  ["bf16", "BF16"],
  ["awq", "AWQ (4 bits)"],
  ["int8", "int8"],
]);

interface Row {
  readonly cells: readonly string[];
  /** Stands behind the cells. */
  readonly sentence?: string | undefined;
}

/** The first column to the left, numbers to the right. */
function table(rows: readonly Row[]): string {
  const widths = rows[0]!.cells.map((_, c) =>
    largestOf(rows.map(({ cells }) => cells[c]?.length ?? 0)),
  );
  const pad = (cell: string, c: number) =>
    c === 0 ? cell.padEnd(widths[c]!) : cell.padStart(widths[c]!);
  const lines = rows.map(({ cells, sentence }) =>
    [...cells.map(pad), ...(sentence === undefined ? [] : [sentence])].join(GAP),
  );
  return lines.map((line) => `${line}\n`).join("");
}

/** Whole gibibytes without decimals: as they were asked for. */
function memorySize(bytes: number): string {
  return bytes % GIB === 0 ? `${bytes / GIB} GiB` : megabytes(bytes);
}

function billions(parameters: number): string {
  if (parameters >= 1e9) return `${(parameters / 1e9).toFixed(2)} billion`;
  return `${(parameters / 1e6).toFixed(2)} million`;
}

function count(value: number): string {
  return value.toLocaleString("en-US");
}
