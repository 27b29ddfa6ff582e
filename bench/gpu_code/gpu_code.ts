/**
 * `npm run gpu-code`: what compilers of real GPUs make of the kernels, on a machine without one.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { captureCode, whatLacks } from "./capture.ts";
import { codeTable } from "./code_table.ts";
import { COMPILED_MODELS } from "./compiled_models.ts";
import { ABSENT_GPUS, absentGpu } from "./gpus.ts";
import { readPipelines } from "./pipeline_code.ts";

const NAMES = ABSENT_GPUS.map(({ name }) => name).join("|");
const HELP = `npm run gpu-code -- --gpu ${NAMES} [--jsonl FILE] [--models NAME,...]
  [--match REGEX] [--tuning JSON] [--isa]

Compiles the kernels of whole models as the GPU's row of the table of tunings has them, and prints a
line for each pipeline. Nothing runs. --jsonl keeps the compiler's own fields, machine code included;
--isa prints the machine code; --tuning replaces fields of the tuning.
Models: ${COMPILED_MODELS.map(({ name }) => name).join(", ")}
`;

const OPTIONS = {
  gpu: { type: "string" },
  jsonl: { type: "string" },
  models: { type: "string" },
  match: { type: "string", default: "" },
  tuning: { type: "string" },
  isa: { type: "boolean", default: false },
  help: { type: "boolean", short: "h", default: false },
} as const;

/** The options, or what is wrong with them. */
function readArguments(args: string[]) {
  const { values } = parseArgs({ args, options: OPTIONS });
  const models = values.models?.split(",");
  const unknown = models?.find((name) => !COMPILED_MODELS.some((model) => model.name === name));
  if (unknown !== undefined)
    throw new Error(`Cannot compile model "${unknown}": it is none of those`);
  const tuning = values.tuning === undefined ? undefined : (JSON.parse(values.tuning) as object);
  return { ...values, models, tuning, match: new RegExp(values.match) };
}

/** Runs the command; the exit code. */
export async function main(args: string[]): Promise<number> {
  let options: ReturnType<typeof readArguments>;
  try {
    options = readArguments(args);
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${HELP}`);
    return 2;
  }
  const gpu = absentGpu(options.gpu ?? "");
  if (options.help || gpu === undefined) {
    (options.help ? process.stdout : process.stderr).write(HELP);
    return options.help ? 0 : 2;
  }
  const lack = whatLacks(gpu);
  if (lack !== undefined) {
    process.stderr.write(`Cannot compile for ${gpu.name}: ${lack}.\n`);
    return 1;
  }
  const { jsonl, models, tuning, match, isa } = options;
  const file = jsonl ?? join(tmpdir(), `wisp-gpu-code-${gpu.name}.jsonl`);
  await captureCode(gpu, { file, models, tuning });
  const written = readFileSync(file, "utf8");
  if (isa) printCode(written, match);
  const pipelines = readPipelines(written).filter(({ model, kernel, constants }) =>
    match.test(`${model} ${kernel} ${JSON.stringify(constants)}`),
  );
  process.stdout.write(codeTable(pipelines));
  return 0;
}

function printCode(jsonl: string, match: RegExp): void {
  for (const line of jsonl.trim().split("\n")) {
    const { label, isa } = JSON.parse(line) as { readonly label: string; readonly isa: string };
    if (match.test(label)) process.stdout.write(`### ${label}\n${isa}\n`);
  }
}
