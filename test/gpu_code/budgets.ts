/**
 * What the code of kernels may cost on GPUs: what a pipeline is over, and which exceptions stand, with
 * the reason.
 *
 * @module
 */
import { nameOf } from "../../bench/gpu_code/code_table.ts";
import type { LoopCode } from "../../bench/gpu_code/loop_counts.ts";
import { hotLoop, type PipelineCode } from "../../bench/gpu_code/pipeline_code.ts";

export interface Budget {
  /** Waves a SIMD at least; Intel has as many threads always. */
  readonly leastWaves: number;
  /** Registers that may be spilled, none of them in a hot loop. */
  readonly mostSpills: number;
  /** What a hot loop of a linear over several rows has at least, of its vector instructions. */
  readonly leastShare: Readonly<Record<"bf16" | "decoded" | "staged" | "stagedHalves", number>>;
  /** Vector loads of the weights or the cache that are in flight when a hot loop waits, at least. */
  readonly leastInFlight: number;
  /** Branches of a hot loop: its own end, and what leaves it early. */
  readonly mostBranches: number;
}

export const AMD_BUDGET: Budget = {
  leastWaves: 8,
  mostSpills: 0,
  leastShare: { bf16: 0.6, decoded: 0.45, staged: 0.9, stagedHalves: 0.69 },
  leastInFlight: 4,
  mostBranches: 2,
};

/** Products in f16 are converted, which no multiply-add does. */
export const INTEL_BUDGET: Budget = {
  leastWaves: 0,
  mostSpills: 0,
  leastShare: { bf16: 0.5, decoded: 0.36, staged: 0.6, stagedHalves: 0.42 },
  // Its machine code does not tell.
  leastInFlight: 0,
  mostBranches: 4,
};

/** Pipelines that may be over, and by how much. */
export interface Exception {
  readonly reason: string;
  readonly kernel: RegExp;
  readonly is: (constants: PipelineCode["constants"]) => boolean;
  readonly allows: Partial<
    Pick<Budget, "leastWaves" | "mostSpills" | "leastInFlight" | "mostBranches">
  > & { readonly privateAccesses?: number };
}

const OVER_WEIGHTS = /^(linear|moe|cache)\//;
const isStaged = ({ TOKEN_LANES = 1 }: PipelineCode["constants"]) => Number(TOKEN_LANES) > 1;
const isOfHalves = ({ WEIGHT_UP }: PipelineCode["constants"]) => WEIGHT_UP !== undefined;
const isOfFour = (constants: PipelineCode["constants"]) =>
  constants.TOKENS === 4 && !isStaged(constants);

export const AMD_EXCEPTIONS: readonly Exception[] = [
  {
    reason:
      "a subgroup leaves out panels where there are more subgroups than they are, and columns that are " +
      "none are masked apart, which leaves the loop without compares",
    kernel: /^(linear|moe)\/matrix_/,
    is: () => true,
    allows: { mostBranches: 7 },
  },
  {
    reason:
      "four rows an invocation keep 64 registers of sums; with int4's zero points, products of f16 beside " +
      "them, or sums that wait in a tree of their own, the compiler has more than 120 before it moves the " +
      "loads of activations forward, and then takes what six waves leave. Codes of int4 that are converted " +
      "take twelve registers less, which was enough for two kernels of seven, and a tenth more " +
      "instructions; rounds of two vectors, as f16 has them, give int4 eight waves for an eighth more " +
      "instructions for each product. With int4 f16 has no room for zero points beside them",
    kernel: OVER_WEIGHTS,
    is: isOfFour,
    allows: { leastWaves: 6 },
  },
  {
    reason: "their activations are put together in workgroup memory, which four workgroups fill",
    kernel: /^cache\/mla_project$/,
    is: isOfFour,
    allows: { leastWaves: 4 },
  },
  {
    reason:
      "sums of five levels of the tree take 80 registers of a staged form, where its outputs have no " +
      "workgroup memory in which those of one level could wait",
    kernel: /^moe\/expert_down$/,
    is: (constants) => isStaged(constants) && constants.LEVELS === 5,
    allows: { leastWaves: 6 },
  },
  {
    reason:
      "an invocation stages one piece between two barriers, and other workgroups run meanwhile",
    kernel: /\/matrix_/,
    is: () => true,
    allows: { leastInFlight: 1 },
  },
  {
    reason:
      "one head a workgroup has other workgroups to wait beside: they are taken where heads together would " +
      "leave cores without any",
    kernel: /^attention\/gqa_write_decode$/,
    is: ({ HEADS }) => HEADS === 1,
    allows: { leastInFlight: 1 },
  },
];

/** A thread has 128 registers for eight invocations. Nothing of these is spilled in a hot loop. */
export const INTEL_EXCEPTIONS: readonly Exception[] = [
  {
    reason:
      "sums that wait for their neighbours in the tree take 32 registers of a staged form with two rows " +
      "an invocation; with four rows 181 were spilled, with one the loop is two thirds loads",
    kernel: OVER_WEIGHTS,
    is: isStaged,
    allows: { mostSpills: 50 },
  },
  {
    reason:
      "a group of 128 outputs that is rounded together takes 64 invocations a row, so that four rows an " +
      "invocation are the fewest that a workgroup has room for",
    kernel: OVER_WEIGHTS,
    is: (constants) => isStaged(constants) && constants.TOKENS === 4,
    allows: { mostSpills: 185 },
  },
  {
    reason: "pairs of f16 beside the sums of a staged form",
    kernel: OVER_WEIGHTS,
    is: (constants) => isStaged(constants) && isOfHalves(constants),
    allows: { mostSpills: 160 },
  },
  {
    reason:
      "two rows have 32 registers of sums and as many of activations; with four rows 360 to 860 were " +
      "spilled, in the loop too",
    kernel: OVER_WEIGHTS,
    is: (constants) => constants.TOKENS === 2 && !isStaged(constants),
    allows: { mostSpills: 70 },
  },
  {
    reason:
      "two rows of f16 have pairs beside them, in a loop for whole groups and in one that masks columns",
    kernel: OVER_WEIGHTS,
    is: (constants) => constants.TOKENS === 2 && !isStaged(constants) && isOfHalves(constants),
    allows: { mostSpills: 90 },
  },
  {
    reason:
      "four or eight queries of a prompt, or of drafts, keep their sums over a chunk of keys; fewer would " +
      "read the keys as often again",
    kernel: /^attention\//,
    is: () => true,
    allows: { mostSpills: 430 },
  },
];

/** Multiplies what is read through: what a share of multiply-adds is asked of. */
function isLinear({ kernel, constants }: PipelineCode): boolean {
  const { TOKENS = 0, TOKEN_LANES = 1 } = constants;
  return OVER_WEIGHTS.test(kernel) && Number(TOKENS) * Number(TOKEN_LANES) >= 4;
}

/** What of the vector instructions of its hot loop a linear has multiply-adds at least. */
function wantedShare({ model, constants }: PipelineCode, { leastShare }: Budget): number {
  if (isStaged(constants)) return leastShare[isOfHalves(constants) ? "stagedHalves" : "staged"];
  return model.endsWith("bf16") ? leastShare.bf16 : leastShare.decoded;
}

/** Multiply-adds that an operation of matrices is worth: those of 16x16x16 numbers, on 64 lanes. */
const MATRIX_WORTH = 64;

/** How much of a loop's vector instructions are multiply-adds. */
function multiplying({ vector, multiplyAdds, matrixOperations }: LoopCode): number {
  const more = matrixOperations * (MATRIX_WORTH - 1);
  return (multiplyAdds + more) / (vector + more);
}

/** Bytes of streaming loads at least: those of words of weights and of the cache. */
const LEAST_BYTES = 8;
/** What reads weights or the cache. */
const READS =
  /^(linear\/(linear|gate_up|merging|residual|matrix)|moe\/(expert|tile|matrix)|attention\/(gqa|mla)_)/;
const STREAMS = /^(linear\/(linear|gate_up|merging_linear|residual_linear)|moe\/expert|moe\/tile)/;

/** What a pipeline is over, a sentence each. */
export function overBudget(
  pipeline: PipelineCode,
  budget: Budget,
  exceptions: readonly Exception[],
): string[] {
  const { kernel, constants, waves, spills, scratch } = pipeline;
  const allowed = exceptions
    .filter((one) => one.kernel.test(kernel) && one.is(constants))
    .map(({ allows }) => allows);
  const least = Math.min(budget.leastWaves, ...allowed.map((one) => one.leastWaves ?? 64));
  const most = Math.max(budget.mostSpills, ...allowed.map((one) => one.mostSpills ?? 0));
  const mostPrivate = Math.max(0, ...allowed.map((one) => one.privateAccesses ?? 0));
  const hot = hotLoop(pipeline);
  const found: string[] = [];
  const say = (isOver: boolean, what: string) => {
    if (isOver) found.push(`${nameOf(pipeline)}: ${what}`);
  };
  say(waves !== undefined && waves < least, `${waves} waves of ${least}`);
  say(spills > most, `${spills} registers spilled, ${most} may be`);
  say(spills === 0 && scratch > 0, `${scratch} bytes of private memory`);
  if (hot === undefined) return found;
  say(hot.privateAccesses > mostPrivate, `${hot.privateAccesses} private accesses in its loop`);
  const branches = Math.max(budget.mostBranches, ...allowed.map((one) => one.mostBranches ?? 0));
  say(hot.branches > branches && isLinear(pipeline), `${hot.branches} branches in its loop`);
  const narrow = [...hot.loads].filter(([bytes]) => bytes < LEAST_BYTES);
  say(
    narrow.length > 0 && STREAMS.test(kernel),
    `loads of ${narrow.map(([bytes]) => bytes)} bytes`,
  );
  const share = multiplying(hot);
  const isPoor = share < wantedShare(pipeline, budget) && isLinear(pipeline);
  say(isPoor, `${Math.round(100 * share)} % multiply-adds`);
  const inFlight = hot.loadsInFlight ?? Number.POSITIVE_INFINITY;
  const waitsFor = Math.min(budget.leastInFlight, ...allowed.map((one) => one.leastInFlight ?? 64));
  say(inFlight < waitsFor && READS.test(kernel), `waits for ${inFlight} loads`);
  return found;
}
