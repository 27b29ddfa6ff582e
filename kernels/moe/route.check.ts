import { defineCheck } from "../check.ts";
import { type RoutingRule, route } from "./route.ts";

interface Shape extends RoutingRule {
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
}

const V3 = { scoring: "sigmoid", grouping: "twoBest", normalize: true, scaling: 2.5 } as const;
const V2 = { scoring: "softmax", grouping: "best", normalize: false, scaling: 16 } as const;
const GREEDY = { scoring: "softmax", grouping: "none", normalize: true, scaling: 1 } as const;
const PLAIN = { padding: 0, biased: false, shared: 0, step: 0 } as const;

/** Indices from best to worst; ties to the lowest index, NaN last. */
function ranking(values: readonly number[]): number[] {
  const order = values.map((value) => (Number.isNaN(value) ? Number.NEGATIVE_INFINITY : value));
  return order.map((_, i) => i).sort((a, b) => order[b]! - order[a]! || a - b);
}

export default defineCheck<Shape>({
  name: "moe/route",
  cases: [
    {
      ...{ ...V3, rows: 3, experts: 66, topK: 4, groups: 6, keptGroups: 3 },
      ...{ padding: 2, biased: true, shared: 2, step: 0 },
    },
    { ...V2, ...PLAIN, rows: 3, experts: 16, topK: 3, groups: 4, keptGroups: 2, padding: 4 },
    { ...GREEDY, ...PLAIN, rows: 4, experts: 8, topK: 3, step: 0.5 }, // ties
    { ...GREEDY, ...PLAIN, rows: 2, experts: 128, topK: 8, shared: 1, offset: 100 },
    { ...V3, ...PLAIN, rows: 2, experts: 8, topK: 2, groups: 8, keptGroups: 4 }, // groups of one
    { ...V3, ...PLAIN, rows: 2, experts: 1024, topK: 1, groups: 1, keptGroups: 1, biased: true },
    // Groups that tie, of which too many would stand.
    { ...V2, ...PLAIN, rows: 8, experts: 16, topK: 6, groups: 4, keptGroups: 2, step: 1 },
    // Four experts have a number.
    {
      ...{ ...V3, ...PLAIN, rows: 3, experts: 9, topK: 6, grouping: "none" },
      ...{ biased: true, nans: true },
    },
    // Scores about as small as what keeps their sum from 0, and scores of 0.
    { ...V3, ...PLAIN, rows: 3, experts: 8, topK: 3, groups: 1, keptGroups: 1, offset: -46 },
    {
      ...{ ...V3, ...PLAIN, rows: 1, experts: 8, topK: 3, groups: 1, keptGroups: 1 },
      ...{ step: 100, offset: -800 },
    },
    {
      ...{ ...V3, rows: 64, experts: 256, topK: 8, groups: 8, keptGroups: 4 },
      ...{ padding: 0, biased: true, shared: 1, step: 0 },
    }, // 671B model
  ],
  tunings: [{}],
  tolerance: 1e-5,
  bytes: ({ rows, experts, topK, shared }) =>
    (rows * (experts + 2 * (topK + shared)) + 3 * experts) * 4,
  flops: ({ rows, experts }) => rows * experts * experts,
  mutants: [
    { name: "bias is dropped", replace: "choices[e] += bias[e];", with: "" },
    {
      name: "bias is in the weights",
      replace: "picked_scores[rank] = scores[e]",
      with: "picked_scores[rank] = choices[e]",
    },
    { name: "a group is worth its best", replace: "return best + second", with: "return best" },
    { name: "all groups stand", replace: "better >= params.kept_groups", with: "false" },
    {
      name: "one group fewer stands",
      replace: "better >= params.kept_groups",
      with: "better + 1u >= params.kept_groups",
    },
    {
      name: "the last pick is left out of the sum",
      replace: "k < params.top_k; k++",
      with: "k + 1u < params.top_k; k++",
    },
    { name: "scaling is dropped", replace: "* params.scaling", with: "" },
    { name: "placement is ignored", replace: "placement[e]", with: "e" },
    { name: "shared experts start at 0", replace: "params.shared_first +", with: "0u +" },
    {
      name: "logits are read experts apart",
      replace: "group.x * params.stride",
      with: "group.x * params.experts",
    },
    {
      name: "ties go to the highest index",
      replace: "index < other_index",
      with: "index > other_index",
      case: 2,
    },
    {
      name: "softmax without its sum",
      replace: "scores[e] /= total",
      with: "scores[e] /= 1.0",
      case: 1,
    },
    {
      name: "softmax misses an invocation",
      replace: "i < WORKGROUP_SIZE; i += 4u",
      with: "i < 8u; i += 4u",
      case: 1,
    },
    {
      name: "hits are set, not added",
      replace: "atomicAdd(&hits[e], 1u)",
      with: "atomicStore(&hits[e], 1u)",
    },
    { name: "the largest logit is not taken off", replace: "logit - most", with: "logit", case: 3 },
    {
      name: "all groups that tie stand",
      replace: "beats(group_keys[g], g, group_keys[own], own)",
      with: "group_keys[g] > group_keys[own]",
      case: 6,
    },
    {
      name: "of groups that tie the last stand",
      replace: "beats(group_keys[g], g, group_keys[own], own)",
      with: "beats(group_keys[g], own, group_keys[own], g)",
      case: 6,
    },
    {
      name: "NaN is the best of all",
      replace: "if magnitude > 0x7f800000u { return 0u; }",
      with: "",
      case: 7,
    },
    {
      name: "numbers are compared, not their order",
      replace: "beats(keys[other], other, key, e)",
      with: "choices[other] > choices[e] || (choices[other] == choices[e] && other < e)",
      case: 7,
    },
    {
      name: "more than a little is added to the sum",
      replace: "MIN_WEIGHT_SUM = 1e-20",
      with: "MIN_WEIGHT_SUM = 2e-20",
      case: 8,
    },
    {
      name: "a sum may be 0",
      replace: "weight_sum + MIN_WEIGHT_SUM",
      with: "weight_sum",
      case: 9,
    },
    {
      name: "groups of two experts fewer",
      replace: "count / params.groups",
      with: "count / params.groups - 2u",
    },
  ],

  inputs: ({ rows, experts, padding, step, offset = 0, nans = false }, random) => ({
    logits: Float32Array.from({ length: rows * (experts + padding) }, () => {
      const value = (random() * 2 - 1) * 3;
      return (step > 0 ? Math.round(value / step) * step : value) + offset;
    }),
    bias: Float32Array.from({ length: experts }, (_, e) =>
      nans && e % 2 === 0 ? Number.NaN : random() - 0.5,
    ),
    placement: Uint32Array.from({ length: experts }, (_, e) => (e * 5 + 3) % (experts + 7)),
    hits: Uint32Array.from({ length: experts }, (_, e) => e + 1),
  }),

  reference(shape, { logits, bias, placement, hits }) {
    const { rows, experts, padding, topK, groups = 1, keptGroups = groups, shared } = shape;
    const slots = topK + shared;
    const chosen = new Uint32Array(rows * slots);
    const weights = new Float64Array(rows * slots);
    const counts = Uint32Array.from(hits!);
    for (let r = 0; r < rows; r++) {
      const start = r * (experts + padding);
      const row = Array.from(logits!.subarray(start, start + experts));
      const most = Math.max(...row);
      const total = row.reduce((sum, logit) => sum + Math.exp(logit - most), 0);
      const scores = row.map((logit) =>
        shape.scoring === "softmax" ? Math.exp(logit - most) / total : 1 / (1 + Math.exp(-logit)),
      );
      const choices = scores.map((score, e) => (shape.biased ? score + bias![e]! : score));
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
        chosen[r * slots + k] = placement![e]!;
        weights[r * slots + k] = (scores[e]! / (shape.normalize ? sum + 1e-20 : 1)) * shape.scaling;
        counts[e]! += 1;
      });
      for (let i = 0; i < shared; i++) {
        chosen[r * slots + topK + i] = experts + 9 + i;
        weights[r * slots + topK + i] = 1;
      }
    }
    return { chosen, weights, hits: counts };
  },

  bind(recorder, shape, { logits, bias, placement, chosen, weights, hits }) {
    const launch = route(recorder, {
      ...shape,
      logits: logits!,
      stride: shape.experts + shape.padding,
      bias: shape.biased ? bias! : undefined,
      placement: placement!,
      shared: { first: shape.experts + 9, count: shape.shared },
      chosen: chosen!,
      weights: weights!,
      hits: hits!,
    });
    return () => launch(shape.rows);
  },
});
