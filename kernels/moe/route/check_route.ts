/**
 * Router logits for the checks of kernels that route rows, and what they must make of them.
 *
 * @module
 */
import type { Tensor } from "../../../src/gpu/tensor.ts";
import type { HostArrays } from "../../check.ts";
import type { RouteDispatch, RouteOptions, RoutingRule } from "./route.ts";

export interface RouteShape extends RoutingRule {
  readonly rows: number;
  readonly padding: number;
  readonly biased: boolean;
  readonly shared: number;
  /** Logits are multiples of this, so that some tie; 0: any number. */
  readonly step: number;
  /** Added to every logit. Default 0. */
  readonly offset?: number;
  /** Every other bias is NaN, from the first on. */
  readonly nans?: boolean;
  /** Default: one table. */
  readonly dispatch?: RouteDispatch;
}

export const V3 = {
  scoring: "sigmoid",
  grouping: "twoBest",
  normalize: true,
  scaling: 2.5,
} as const;
export const V2 = { scoring: "softmax", grouping: "best", normalize: false, scaling: 16 } as const;
export const GREEDY = {
  scoring: "softmax",
  grouping: "none",
  normalize: true,
  scaling: 1,
} as const;
export const PLAIN = { padding: 0, biased: false, shared: 0, step: 0 } as const;

/** Indices from best to worst; ties to the lowest index, NaN last. */
function ranking(values: readonly number[]): number[] {
  const order = values.map((value) => (Number.isNaN(value) ? Number.NEGATIVE_INFINITY : value));
  return order.map((_, i) => i).sort((a, b) => order[b]! - order[a]! || a - b);
}

/** Where the counts begin, behind the number of rows that count: of an even number all but the last. */
const FIRST_HIT = 3;
const countedRows = (rows: number) => (rows % 2 === 1 ? rows : rows - 1);

/** `logits`, `bias`, `placement` and `hits` */
export const randomLogits = (
  { rows, experts, padding, step, offset = 0, nans = false, dispatch }: RouteShape,
  random: () => number,
) => ({
  logits: Float32Array.from({ length: rows * (experts + padding) }, () => {
    const value = (random() * 2 - 1) * 3;
    return (step > 0 ? Math.round(value / step) * step : value) + offset;
  }),
  bias: Float32Array.from({ length: experts }, (_, e) =>
    nans && e % 2 === 0 ? Number.NaN : random() - 0.5,
  ),
  placement: Uint32Array.from(
    { length: experts * (dispatch?.tables ?? 1) },
    (_, e) => (e * 5 + 3) % (experts + 7),
  ),
  hits: Uint32Array.from({ length: FIRST_HIT + experts }, (_, i) =>
    i === 0 ? countedRows(rows) : i,
  ),
});

/** A number that looks random, of the 32 bits of another. */
function scrambled(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}

const bitsOf = (value: number) => new Uint32Array(Float32Array.of(value).buffer)[0]!;

/** What stands for the logit of an expert where choices are made up. */
const madeUp = (logit: number, e: number) =>
  5 + (scrambled((bitsOf(logit) + e) >>> 0) >>> 24) * (5 / 256);

/** The table that a row takes for an expert. */
function tableOf(
  { tables, by }: RouteDispatch,
  { row, logit }: { readonly row: number; readonly logit: number },
): number {
  return (by === "row" ? row : scrambled(bitsOf(logit))) % tables;
}

/** `chosen`, `weights` and `hits` */
export function routedRows(shape: RouteShape, { logits, bias, placement, hits }: HostArrays) {
  const { rows, experts, padding, topK, groups = 1, keptGroups = groups, shared } = shape;
  const { dispatch = { tables: 1, by: "row" } } = shape;
  const isBiased = shape.biased && dispatch.fake !== true;
  const slots = topK + shared;
  const chosen = new Uint32Array(rows * slots);
  const weights = new Float64Array(rows * slots);
  const counts = Uint32Array.from(hits!);
  for (let r = 0; r < rows; r++) {
    const start = r * (experts + padding);
    const given = logits!.subarray(start, start + experts);
    const row = Array.from(given, (logit, e) => (dispatch.fake ? madeUp(logit, e) : logit));
    const most = Math.max(...row);
    const total = row.reduce((sum, logit) => sum + Math.exp(logit - most), 0);
    const scores = row.map((logit) =>
      shape.scoring === "softmax" ? Math.exp(logit - most) / total : 1 / (1 + Math.exp(-logit)),
    );
    const choices = scores.map((score, e) => (isBiased ? score + bias![e]! : score));
    if (shape.grouping !== "none") {
      const size = experts / groups;
      const worth = Array.from({ length: groups }, (_, g) => {
        const members = choices.slice(g * size, (g + 1) * size).sort((a, b) => b - a);
        return shape.grouping === "best" || size === 1 ? members[0]! : members[0]! + members[1]!;
      });
      for (const g of ranking(worth).slice(keptGroups)) {
        choices.fill(Number.NEGATIVE_INFINITY, g * size, (g + 1) * size);
      }
    }
    const picks = ranking(choices).slice(0, topK);
    const sum = picks.reduce((added, e) => added + scores[e]!, 0);
    picks.forEach((e, k) => {
      const table = tableOf(dispatch, { row: r, logit: given[e]! });
      chosen[r * slots + k] = placement![table * experts + e]!;
      weights[r * slots + k] = (scores[e]! / (shape.normalize ? sum + 1e-20 : 1)) * shape.scaling;
      if (r < countedRows(rows)) counts[FIRST_HIT + e]! += 1;
    });
    for (let i = 0; i < shared; i++) {
      chosen[r * slots + topK + i] = experts + 9 + i;
      weights[r * slots + topK + i] = 1;
    }
  }
  return { chosen, weights, hits: counts };
}

/** The options of a launch over these tensors. */
export const routeOptions = (
  shape: RouteShape,
  tensors: Readonly<Record<string, Tensor>>,
): RouteOptions => ({
  ...shape,
  logits: tensors.logits!,
  stride: shape.experts + shape.padding,
  bias: shape.biased ? tensors.bias! : undefined,
  placement: tensors.placement!,
  shared: { first: shape.experts + 9, count: shape.shared },
  chosen: tensors.chosen!,
  weights: tensors.weights!,
  hits: tensors.hits!,
  firstHit: FIRST_HIT,
});
