/**
 * What a caller says of a model's experts, checked and made into a layout.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import { EXPERT_RECORDER_MODES, type ExpertRecorderMode } from "../../expert_record.ts";
import type { Communicator } from "../communicator.ts";
import { BALANCE_ALGORITHMS, type BalanceAlgorithm, balanceExperts } from "./balance_experts.ts";
import { DISPATCH_ALGORITHMS, type DispatchAlgorithm } from "./dispatch_tables.ts";
import { ExpertLayout } from "./expert_layout.ts";
import { type ExpertLocation, placeExperts } from "./expert_location.ts";
import { MAX_EXPERT_SLOTS } from "./expert_placement.ts";
import type { RebalanceOptions } from "./rebalance_options.ts";

export interface ExpertOptions {
  /**
   * Parts that the experts are cut in, of which each rank has one; divides the ranks, and the experts
   * with their copies. Where those can be shared out over all ranks, each rank has a part of its own
   * anyway. Default 1.
   */
  readonly parallelSize?: number | undefined;
  /**
   * Machines that the ranks are on, each with as many neighbours: where a placement keeps groups of
   * experts on one, these are meant. Divides the ranks. Default 1.
   */
  readonly nodes?: number | undefined;
  /** Slots for copies of experts, on all ranks together. Default 0. */
  readonly redundant?: number | undefined;
  /** Where experts are at the start. Default trivial. */
  readonly location?: ExpertLocation | undefined;
  /** How a placement is made of how often experts were chosen. Default auto. */
  readonly balance?: BalanceAlgorithm | undefined;
  /**
   * Which copy a row goes to. `fake` makes the choices of experts up too, so that answers mean
   * nothing: to measure what a perfect balance would give. Default static.
   */
  readonly dispatch?: DispatchAlgorithm | undefined;
  /**
   * How what experts made of rows gets to the ranks that add it up: experts are shared out over all
   * ranks then. Default: every rank gets all of it, and adds it up.
   */
  readonly allToAll?: AllToAllMode | undefined;
  /** When experts move while the engine serves, to even out what ranks have to do. Default: never. */
  readonly rebalance?: RebalanceOptions | undefined;
  /** Steps of which it is kept how often they chose each expert, while that is recorded. Default 1000. */
  readonly recordedPasses?: number | undefined;
  /** What is kept of them. Default stat. */
  readonly recorderMode?: ExpertRecorderMode | undefined;
}

/**
 * In which steps what experts made of a row goes to one rank, which adds it up for all; in others every
 * rank gets it, in one exchange in place of two.
 *
 * | value | steps |
 * |---|---|
 * | auto | those with rows of prompts |
 * | normal | all |
 * | low_latency | none |
 */
export const ALL_TO_ALL_MODES = ["auto", "normal", "low_latency"] as const;
export type AllToAllMode = (typeof ALL_TO_ALL_MODES)[number];

/** Steps that a record has by default, and at most. */
export const RECORDED_PASSES = 1000;
export const MAX_RECORDED_PASSES = 100_000;

/** A model's experts. */
export interface RoutedExperts {
  readonly layers: number;
  readonly routed: number;
  /** Groups that its router tells apart; 1 for none. */
  readonly groups: number;
}

/**
 * The layout that options ask for; undefined for a model without experts.
 *
 * @param model Undefined for a model without experts.
 * @throws {InvalidRequestError} naming an option that the model or the group cannot have.
 */
export function layoutOf(
  options: ExpertOptions = {},
  model: RoutedExperts | undefined,
  { size: ranks }: Pick<Communicator, "size">,
): ExpertLayout | undefined {
  const { redundant = 0, location = "trivial", dispatch = "static", allToAll } = options;
  const { balance: algorithm = "auto", nodes = 1 } = options;
  const parallelSize = requireAllToAll(options, ranks);
  const isAsked = parallelSize !== 1 || redundant !== 0 || location !== "trivial";
  requireName("balance", algorithm, BALANCE_ALGORITHMS);
  requireName("dispatch", dispatch, DISPATCH_ALGORITHMS);
  requireName("recorderMode", options.recorderMode ?? "stat", EXPERT_RECORDER_MODES);
  requireCount("parallelSize", parallelSize, [1, MAX_EXPERT_SLOTS]);
  requireCount("redundant", redundant, [0, MAX_EXPERT_SLOTS]);
  requireCount("nodes", nodes, [1, MAX_EXPERT_SLOTS]);
  if (options.rebalance !== undefined) requireRebalance(options.rebalance);
  requireCount("recordedPasses", options.recordedPasses ?? RECORDED_PASSES, [
    1,
    MAX_RECORDED_PASSES,
  ]);
  if (model === undefined) {
    if (!isAsked && allToAll === undefined && dispatch !== "fake") return undefined;
    const field = allToAll === undefined ? "parallelSize" : "allToAll";
    throw refusal(field, "the model has none", "lay experts out");
  }
  const { layers, routed: experts, groups } = model;
  const slots = experts + redundant;
  const use = (field: string, value: number, state: string) =>
    refusal(field, state, `use experts.${field} ${value}`);
  if (ranks % parallelSize !== 0) {
    const state = `it must divide the ${ranks} ranks that share the model`;
    throw use("parallelSize", parallelSize, state);
  }
  if (slots % parallelSize !== 0) {
    const state = `${slots} slots cannot be cut in ${parallelSize} parts`;
    throw use("redundant", redundant, state);
  }
  if (slots > MAX_EXPERT_SLOTS) {
    const state = `${slots} slots are more than ${MAX_EXPERT_SLOTS}`;
    throw use("redundant", redundant, state);
  }
  const runs = slots % ranks === 0 ? ranks : parallelSize;
  const sizes = {
    layers,
    experts,
    slots,
    ranks: runs,
    nodes: nodesOf(runs, nodes),
    groups,
    algorithm,
  };
  // What cannot be balanced is known now, and not only when experts are to be moved.
  if (options.rebalance !== undefined) {
    balanceExperts([new Uint32Array(experts)], sizes, algorithm);
  }
  const placement = placeExperts(location, sizes);
  return new ExpertLayout({ experts, ranks, leastRuns: parallelSize, placement, dispatch });
}

/** Machines of runs of slots: one where some machine has no run of its own. */
export const nodesOf = (runs: number, nodes: number): number => (runs % nodes === 0 ? nodes : 1);

/** @returns Parts that experts are cut in at least. */
function requireAllToAll({ allToAll, parallelSize }: ExpertOptions, ranks: number): number {
  if (allToAll === undefined) return parallelSize ?? 1;
  requireName("allToAll", allToAll, ALL_TO_ALL_MODES);
  if (parallelSize === undefined || parallelSize === 1 || parallelSize === ranks) return ranks;
  const state = `with experts.allToAll each of the ${ranks} ranks has a part`;
  throw refusal("parallelSize", state, `use experts.parallelSize ${parallelSize}`);
}

function requireRebalance({ everySteps, layersAtOnce = 1, minBalancedness }: RebalanceOptions) {
  requireCount("rebalance.everySteps", everySteps, [1, MAX_RECORDED_PASSES]);
  requireCount("rebalance.layersAtOnce", layersAtOnce, [1, MAX_RECORDED_PASSES]);
  if (minBalancedness >= 0 && minBalancedness <= 1) return;
  const field = "rebalance.minBalancedness";
  throw refusal(field, "it must be from 0 to 1", `use experts.${field} ${minBalancedness}`);
}

function requireName<T extends string>(field: string, value: T, names: readonly T[]): void {
  if (names.includes(value)) return;
  throw refusal(field, `it must be ${names.join(", ")}`, `use experts.${field} ${value}`);
}

function requireCount(
  field: string,
  value: number,
  [least, most]: readonly [number, number],
): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  const state = `it must be a whole number from ${least} to ${most}`;
  throw refusal(field, state, `use experts.${field} ${value}`);
}

const refusal = (field: string, state: string, what: string) =>
  new InvalidRequestError(`Cannot ${what}: ${state}`, `experts.${field}`);
