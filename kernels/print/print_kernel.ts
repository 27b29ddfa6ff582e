/**
 * `npm run kernel`: the text of a kernel as it is compiled, with the files that its parts come from and
 * the values of its constants. Needs no GPU.
 *
 * @module
 */
import type { PipelineRequest } from "../../src/gpu/pipeline_cache.ts";
import type { KernelCheck } from "../check.ts";
import { type AssembledCase, assembledKernels } from "./assembled_kernels.ts";
import { type KernelFiles, MARK, partsOf, setConstants, withBanners } from "./kernel_parts.ts";
import { type ChosenTuning, chooseTuning, TUNING_NAMES } from "./named_tuning.ts";

const modules = import.meta.glob<{ default: KernelCheck<object> }>("../**/*.check.ts", {
  eager: true,
});
const texts = import.meta.glob<string>("../**/*.wgsl", {
  eager: true,
  query: "?raw",
  import: "default",
});

/** The check of every kernel, by its name. */
export const KERNEL_CHECKS: ReadonlyMap<string, KernelCheck<object>> = new Map(
  Object.values(modules)
    .map(({ default: check }) => [check.name, check] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1)),
);

/** The texts of all kernels and of their parts, by path. */
export const KERNEL_FILES: KernelFiles = Object.fromEntries(
  Object.entries(texts).map(([path, text]) => [path.replace("..", "kernels"), text]),
);

/** Which text of a kernel is wanted. */
export interface KernelQuestion {
  /** As its check has it. */
  readonly name: string;
  /** Index of the check's case. Default 0. */
  readonly case?: string | undefined;
  /** A name of the table of tunings, or the index of one of the check's. Default "0". */
  readonly tuning?: string | undefined;
}

/** What is wrong with a question. */
export class KernelQuestionError extends Error {}

/** The texts that a kernel is compiled to, each with banners. */
export function printedKernels(question: KernelQuestion): readonly string[] {
  const { check, traits, ...assembled } = answerOf(question);
  const requests = assembledKernels(check, assembled, traits);
  const [kernel] = check.name.split(" ");
  const own = requests.filter((request) => request.kernel === kernel);
  const printed = own.length > 0 ? own : requests;
  return printed.map((request, i) => {
    const parts = partsOf(request.code, KERNEL_FILES);
    const place = printed.length > 1 ? `, text ${i + 1} of ${printed.length}` : "";
    const head = [
      `${request.kernel}${place}`,
      `case: ${JSON.stringify(assembled.shape)}`,
      `tuning: ${JSON.stringify(assembled.tuning)}`,
      ...constantLines(request, parts),
    ];
    return `${head.map((line) => `${MARK} ${line}\n`).join("")}${withBanners(parts)}`;
  });
}

function constantLines(
  { constants }: PipelineRequest,
  parts: ReturnType<typeof partsOf>,
): readonly string[] {
  const set = setConstants(parts, KERNEL_FILES, constants);
  if (set.length === 0) return ["constants: as the files have them"];
  return [
    "constants that the wrapper sets:",
    ...set.map(({ name, value, path, valueInFile }) =>
      value === valueInFile
        ? `  ${name} = ${value}, as ${path} has it`
        : `  ${name} = ${value}, in place of ${valueInFile} of ${path}`,
    ),
  ];
}

interface Answer extends AssembledCase, ChosenTuning {
  readonly check: KernelCheck<object>;
}

function answerOf({ name, case: index = "0", tuning }: KernelQuestion): Answer {
  const check = KERNEL_CHECKS.get(name);
  if (check === undefined) {
    const near = nearNames(name);
    const hint = near.length > 0 ? `; near ones are ${near.join(", ")}` : "";
    throw new KernelQuestionError(
      `Cannot print kernel ${name}: no check has this name${hint} (npm run kernel lists all)`,
    );
  }
  const shape = /^\d+$/.test(index) ? check.cases[Number(index)] : undefined;
  if (shape === undefined) {
    throw new KernelQuestionError(
      `Cannot print kernel ${name}: it has cases 0 to ${check.cases.length - 1}, no ${index}`,
    );
  }
  const chosen = chooseTuning(check, shape, tuning);
  if (chosen === undefined) {
    const indices = `0 to ${check.tunings.length - 1}`;
    throw new KernelQuestionError(
      `Cannot print kernel ${name}: there is no tuning ${tuning}, but ${indices} of its check ` +
        `and those of ${TUNING_NAMES.join(", ")}`,
    );
  }
  return { check, shape, ...chosen };
}

const pairsOf = (word: string) =>
  new Set(Array.from({ length: word.length - 1 }, (_, i) => word.slice(i, i + 2)));

/** Names that share the most pairs of neighbouring letters with this one, at least half of them. */
function nearNames(name: string): readonly string[] {
  const wanted = pairsOf(name.toLowerCase());
  const ranked = [...KERNEL_CHECKS.keys()].map((known) => {
    const own = pairsOf(known);
    const shared = [...wanted].filter((pair) => own.has(pair)).length;
    return { known, likeness: (2 * shared) / (wanted.size + own.size) };
  });
  return ranked
    .filter(({ likeness }) => likeness >= 0.5)
    .sort((a, b) => b.likeness - a.likeness)
    .slice(0, 3)
    .map(({ known }) => known);
}

/** Characters of a case in the list. */
const MOST_SHOWN = 160;

/** Every kernel with its cases and its check's tunings. */
export function kernelList(): string {
  const shown = (value: object) => {
    const text = JSON.stringify(value);
    return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}..` : text;
  };
  const kernels = [...KERNEL_CHECKS.values()].map(({ name, cases, tunings }) => {
    const lines = [
      ...cases.map((shape, i) => `  --case ${i}  ${shown(shape)}`),
      ...tunings.map((tuning, i) => `  --tuning ${i}  ${shown(tuning)}`),
    ];
    return `${name}\n${lines.join("\n")}\n`;
  });
  return `${kernels.join("\n")}\n--tuning takes ${TUNING_NAMES.join(", ")} too\n`;
}

/** @param args Those of the command line: a name, which may be of several words, and options. */
export function readQuestion(args: readonly string[]): KernelQuestion | undefined {
  const words: string[] = [];
  const options: { case?: string; tuning?: string } = {};
  for (let i = 0; i < args.length; i++) {
    const [flag, inline] = args[i]!.split("=", 2) as [string, string?];
    if (flag !== "--case" && flag !== "--tuning") {
      if (flag.startsWith("-")) {
        throw new KernelQuestionError(`Cannot print kernels: there is no option ${flag}`);
      }
      words.push(args[i]!);
      continue;
    }
    const value = inline ?? args[++i];
    if (value === undefined) {
      throw new KernelQuestionError(`Cannot print kernels: ${flag} has no value`);
    }
    options[flag === "--case" ? "case" : "tuning"] = value;
  }
  return words.length === 0 ? undefined : { name: words.join(" "), ...options };
}

/** @returns The exit code. */
export function main(args: readonly string[]): number {
  try {
    const question = readQuestion(args);
    const answer = question === undefined ? [kernelList()] : printedKernels(question);
    console.log(answer.join("\n").trimEnd());
    return 0;
  } catch (error) {
    if (!(error instanceof KernelQuestionError)) throw error;
    console.error(error.message);
    return 1;
  }
}
