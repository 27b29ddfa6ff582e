import { UnsupportedError } from "../../../src/errors.ts";
import { type Constants, Kernel } from "../../../src/gpu/kernel.ts";
import type { LaunchCost } from "../../../src/gpu/launch_cost.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import routeRow from "../../common/moe/route_row.wgsl?raw";
import orderedBits from "../../common/sampling/ordered_bits.wgsl?raw";
import source from "./route.wgsl?raw";

/** What kernels that route rows have in front of their own text, and the names of it. */
export const ROUTE_TEXT: string = orderedBits + routeRow;
export const ROUTE_BUFFERS = ["logits", "bias", "placement", "chosen", "weights", "hits"] as const;
export const ROUTE_PARAMS = [
  "experts",
  "stride",
  "top_k",
  "groups",
  "kept_groups",
  "shared_first",
  "shared_count",
  "tables",
  "first_hit",
  "scaling",
] as const;

const kernel = new Kernel({
  name: "moe/route",
  source: ROUTE_TEXT + source,
  buffers: ROUTE_BUFFERS,
  params: ROUTE_PARAMS,
});

const MAX_EXPERTS = 1024;
const MAX_GROUPS = 64;
const MAX_TOP_K = 64;
const SCORINGS = { sigmoid: 0, softmax: 1 } as const;
const TABLES = { row: 0, logit: 1 } as const;
const GROUPINGS = { none: 0, twoBest: 1, best: 2 } as const;

/** How a model picks experts. */
export interface RoutingRule {
  /** Logical experts, at most 1024. */
  readonly experts: number;
  readonly topK: number;
  readonly scoring: keyof typeof SCORINGS;
  /**
   * What a group of experts is worth: the sum of its two best choices (`noaux_tc`), its best
   * (`group_limited_greedy`), or nothing, when every expert may be picked (`greedy`).
   */
  readonly grouping: keyof typeof GROUPINGS;
  readonly groups?: number;
  readonly keptGroups?: number;
  /** Divide the picked scores by their sum. */
  readonly normalize: boolean;
  /** What the weights are multiplied with in the end. */
  readonly scaling: number;
}

/** How rows share the slots of an expert that has several. */
export interface RouteDispatch {
  /** Of `placement`. */
  readonly tables: number;
  /** Whether rows take tables in turn, or each by its logit of the expert. */
  readonly by: keyof typeof TABLES;
  /**
   * Whether experts are chosen by made-up logits between 5 and 10, without the bias: as evenly as a
   * perfect balance would have it, and of no use otherwise. Default false.
   */
  readonly fake?: boolean;
}

export interface RouteOptions extends RoutingRule {
  /** `[rows, stride]` f32 */
  readonly logits: Tensor;
  /** Default `experts`. */
  readonly stride?: number;
  /** `[experts]` f32, added to the scores for the choice only */
  readonly bias?: Tensor | undefined;
  /** `[tables, experts]` u32: logical expert -> physical expert */
  readonly placement: Tensor;
  /** Default: one table for all rows. */
  readonly dispatch?: RouteDispatch | undefined;
  /** Physical experts that every row uses, as its last slots, with weight 1. */
  readonly shared?: { readonly first: number; readonly count: number };
  /** `[rows, topK + shared]` u32: physical experts, best first */
  readonly chosen: Tensor;
  /** `[rows, topK + shared]` f32 */
  readonly weights: Tensor;
  /** u32: the number of rows whose picks count, the first ones; and somewhere behind it the counts. */
  readonly hits: Tensor;
  /** Element of `hits` that counts how often the first logical expert was picked. */
  readonly firstHit: number;
}

/**
 * Picks experts for every row of router logits.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 *
 * @throws {UnsupportedError} when the rule has more experts, groups or picks than the kernel holds,
 * or groups that do not divide the experts.
 */
export function route(recorder: Recorder, options: RouteOptions): (rows: number) => void {
  const { experts, topK, groups = 1 } = options;
  if (experts > MAX_EXPERTS) throw new UnsupportedError(`${experts} experts`);
  if (topK > Math.min(experts, MAX_TOP_K)) {
    throw new UnsupportedError(`routing to ${topK} of ${experts} experts`);
  }
  if (groups > MAX_GROUPS || experts % groups !== 0) {
    throw new UnsupportedError(`${groups} groups of ${experts} experts`);
  }
  const bound = kernel.bind(recorder, routeTensors(options), {
    constants: routeConstants(options),
    params: routeParams(options),
    cost: ({ grid: [rows] }) => routeCost(options, rows),
  });
  return (rows) => bound.record(rows);
}

export function routeTensors(
  options: RouteOptions,
): Readonly<Record<(typeof ROUTE_BUFFERS)[number], Tensor>> {
  const { logits, bias, placement, chosen, weights, hits } = options;
  // A binding cannot stay empty.
  return { logits, bias: bias ?? logits, placement, chosen, weights, hits };
}

export function routeConstants(options: RouteOptions): Constants {
  const { scoring, grouping, bias, normalize, dispatch } = options;
  const fake = dispatch?.fake === true;
  return {
    SCORING: SCORINGS[scoring],
    GROUPING: GROUPINGS[grouping],
    BIAS: bias !== undefined && !fake,
    NORMALIZE: normalize,
    TABLES: TABLES[dispatch?.by ?? "row"],
    FAKE: fake,
  };
}

export function routeParams(
  options: RouteOptions,
): Readonly<Record<(typeof ROUTE_PARAMS)[number], number>> {
  const { experts, topK, scaling, stride = experts, groups = 1, keptGroups = groups } = options;
  const { shared = { first: 0, count: 0 } } = options;
  return {
    experts,
    stride,
    top_k: topK,
    groups,
    kept_groups: keptGroups,
    shared_first: shared.first,
    shared_count: shared.count,
    tables: options.dispatch?.tables ?? 1,
    first_hit: options.firstHit,
    scaling,
  };
}

export function routeCost({ experts, topK, shared }: RouteOptions, rows: number): LaunchCost {
  const slots = topK + (shared?.count ?? 0);
  return {
    bytes: (rows * (experts + 2 * slots) + 3 * experts) * 4,
    flops: rows * experts * experts,
  };
}
