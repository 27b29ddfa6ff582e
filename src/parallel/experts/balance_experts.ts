/**
 * Which expert each slot of each rank gets, so that ranks have about as much to do: experts with more
 * load than others get copies, and slots go to ranks by what they carry.
 *
 * Arithmetic is in f32 and ties go to the lowest index, so that every rank finds the same.
 *
 * Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 3.4; the published Expert
 * Parallelism Load Balancer (2025).
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";

/** How many of what an expert placement is for. */
export interface PlacementSizes {
  /** Of all ranks together: at least as many as there are experts. */
  readonly slots: number;
  readonly ranks: number;
  /** Machines; each has as many ranks as every other. */
  readonly nodes: number;
  /** Groups of experts that stay on one node; null or absent where the model has none. */
  readonly groups?: number | null;
}

/** How slots are filled by load. */
export const BALANCE_ALGORITHMS = [
  "auto",
  "deepseek",
  "deepseek_hierarchical",
  "deepseek_vec",
  "deepseek_vec_hierarchical",
] as const;
export type BalanceAlgorithm = (typeof BALANCE_ALGORITHMS)[number];

/** Gives copies to the experts of one node: the expert of each of so many slots. */
type Replicate = (loads: readonly Float32Array[], slots: number) => number[];
/** Shares slots out by what each carries: for every rank its slots, as many as each other has. */
type Deal = (loads: Float32Array, ranks: number) => readonly number[][];

/**
 * The expert of each slot of a layer.
 *
 * @param steps How often each expert was chosen: a list of all experts for each recorded step.
 * @throws {InvalidRequestError} where sizes do not divide as the algorithm needs it.
 */
export function balanceExperts(
  steps: readonly ArrayLike<number>[],
  sizes: PlacementSizes,
  algorithm: BalanceAlgorithm = "auto",
): number[] {
  const experts = steps[0]!.length;
  const { groups, nodes } = inGroups(algorithm, sizes)
    ? { groups: sizes.groups ?? 1, nodes: sizes.nodes }
    : { groups: 1, nodes: 1 };
  const { slots, ranks } = sizes;
  requireDivisors(experts, { slots, ranks, nodes, groups });
  const rounded = steps.map((loads) => Float32Array.from(loads));
  const looksAtSteps = algorithm.startsWith("deepseek_vec");
  const loads = looksAtSteps ? rounded : [sumOf(rounded)];
  const [replicate, deal]: [Replicate, Deal] = looksAtSteps
    ? [replicateBySteps, dealInTurns]
    : [replicateHeaviest, packHeaviest];
  const byNode = expertsByNode(sumOf(rounded), groups, nodes);
  return byNode.flatMap((own) => {
    const ownLoads = loads.map((all) => Float32Array.from(own, (expert) => all[expert]!));
    const copies = replicate(ownLoads, slots / nodes);
    return deal(carried(sumOf(ownLoads), copies), ranks / nodes)
      .flat()
      .map((slot) => own[copies[slot]!]!);
  });
}

/** @throws {InvalidRequestError} when an algorithm needs groups that nodes can share out. */
function inGroups(algorithm: BalanceAlgorithm, { groups, nodes }: PlacementSizes): boolean {
  const divides = groups != null && groups % nodes === 0;
  if (algorithm === "auto") return divides;
  if (algorithm === "deepseek" || algorithm === "deepseek_vec") return false;
  if (groups == null || divides) return true;
  throw problem(`${groups} groups of experts cannot be shared out over ${nodes} nodes`);
}

function requireDivisors(experts: number, sizes: Required<PlacementSizes>): void {
  const { slots, ranks, nodes } = sizes;
  const groups = sizes.groups ?? 1;
  const divide = (count: number, what: string, by: number, whom: string) => {
    if (count % by !== 0) throw problem(`${count} ${what} cannot be shared out over ${by} ${whom}`);
  };
  if (slots < experts) throw problem(`${slots} slots are fewer than ${experts} experts`);
  divide(slots, "slots", ranks, "ranks");
  divide(experts, "experts", groups, "groups");
  divide(groups, "groups of experts", nodes, "nodes");
  divide(ranks, "ranks", nodes, "nodes");
}

const problem = (state: string) => new InvalidRequestError(`Cannot place experts: ${state}`);

/** The experts of each node, group by group: groups are packed by their load. */
function expertsByNode(loads: Float32Array, groups: number, nodes: number): number[][] {
  const size = loads.length / groups;
  const ofGroups = Float32Array.from({ length: groups }, (_, group) =>
    sum(loads.subarray(group * size, (group + 1) * size)),
  );
  return packHeaviest(ofGroups, nodes).map((own) =>
    own.flatMap((group) => Array.from({ length: size }, (_, i) => group * size + i)),
  );
}

/** Every item goes, heaviest first, to the lightest pack that has room. */
function packHeaviest(loads: Float32Array, packs: number): readonly number[][] {
  const room = loads.length / packs;
  if (room === 1) return Array.from(loads, (_, item) => [item]);
  const packed: number[][] = Array.from({ length: packs }, () => []);
  const weights = new Float32Array(packs);
  for (const item of heaviestFirst(loads)) {
    let lightest = -1;
    for (let pack = 0; pack < packs; pack++) {
      if (packed[pack]!.length === room) continue;
      if (lightest === -1 || weights[pack]! < weights[lightest]!) lightest = pack;
    }
    packed[lightest]!.push(item);
    weights[lightest]! += loads[item]!;
  }
  return packed;
}

/** Rounds over all packs, there and back again, heaviest items first. */
function dealInTurns(loads: Float32Array, packs: number): readonly number[][] {
  const packed: number[][] = Array.from({ length: packs }, () => []);
  heaviestFirst(loads).forEach((item, i) => {
    const turn = i % packs;
    const isBack = Math.floor(i / packs) % 2 === 1;
    packed[isBack ? packs - 1 - turn : turn]!.push(item);
  });
  return packed;
}

function heaviestFirst(loads: Float32Array): number[] {
  return Array.from(loads, (_, item) => item).sort((a, b) => loads[b]! - loads[a]! || a - b);
}

/** Each further copy is of the expert with the most load a copy. */
function replicateHeaviest([loads]: readonly Float32Array[], slots: number): number[] {
  const copies = Array.from(loads!, (_, expert) => expert);
  const counts = new Float32Array(loads!.length).fill(1);
  const each = Float32Array.from(loads!);
  while (copies.length < slots) {
    const expert = largestAt(each);
    copies.push(expert);
    counts[expert]! += 1;
    each[expert] = loads![expert]! / counts[expert]!;
  }
  return copies;
}

/** So that experts with the same load do not tie. */
const TIE_STEP = 0.0001;

/** Each further copy is of the expert that takes most off the largest loads of all steps. */
function replicateBySteps(steps: readonly Float32Array[], slots: number): number[] {
  const experts = steps[0]!.length;
  const loads = steps.map((step) => step.map((load, expert) => load + TIE_STEP * expert));
  const copies = Array.from({ length: experts }, (_, expert) => expert);
  const counts = new Float32Array(experts).fill(1);
  const each = loads.map((step) => Float32Array.from(step));
  while (copies.length < slots) {
    const gains = new Float32Array(experts);
    loads.forEach((step, i) => {
      const now = each[i]!;
      const top = largestAt(now);
      let second = 0;
      for (let e = 0; e < experts; e++) if (e !== top) second = Math.max(second, now[e]!);
      gains[top]! += now[top]! - Math.max(second, step[top]! / (counts[top]! + 1));
    });
    const expert = largestAt(gains);
    copies.push(expert);
    counts[expert]! += 1;
    loads.forEach((step, i) => {
      each[i]![expert] = step[expert]! / counts[expert]!;
    });
  }
  return copies;
}

/** What each slot carries: an expert's load is shared by its copies. */
function carried(loads: Float32Array, copies: readonly number[]): Float32Array {
  const counts = new Float32Array(loads.length);
  for (const expert of copies) counts[expert]! += 1;
  return Float32Array.from(copies, (expert) => loads[expert]! / counts[expert]!);
}

/** The lowest of several. */
function largestAt(values: Float32Array): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i]! > values[best]!) best = i;
  return best;
}

function sumOf(steps: readonly Float32Array[]): Float32Array {
  const total = new Float32Array(steps[0]!.length);
  for (const step of steps) {
    for (let i = 0; i < total.length; i++) total[i]! += step[i]!;
  }
  return total;
}

function sum(values: Float32Array): number {
  let total = 0;
  for (const value of values) total = Math.fround(total + value);
  return total;
}

/**
 * How even the work of ranks is: mean over ranks of their load, over the largest; 1 is perfect, and
 * what nothing is chosen in.
 *
 * @param placement The expert of each slot; ranks have runs of them.
 */
export function balancedness(
  loads: ArrayLike<number>,
  placement: readonly number[],
  ranks: number,
): number {
  const perSlot = carried(Float32Array.from(loads), placement);
  const each = placement.length / ranks;
  const ofRanks = Array.from({ length: ranks }, (_, rank) =>
    sum(perSlot.subarray(rank * each, (rank + 1) * each)),
  );
  const most = ofRanks.reduce((a, b) => Math.max(a, b), 0);
  const mean = ofRanks.reduce((a, b) => a + b, 0) / ranks;
  return most === 0 ? 1 : mean / most;
}
