import { defineCheck } from "../../check.ts";
import {
  GREEDY,
  PLAIN,
  type RouteShape,
  randomLogits,
  routedRows,
  routeOptions,
  V2,
  V3,
} from "./check_route.ts";
import { route } from "./route.ts";

const IN_TURN = { tables: 3, by: "row" } as const;
const BY_LOGIT = { tables: 5, by: "logit" } as const;

export default defineCheck<RouteShape>({
  name: "moe/route",
  cases: [
    {
      ...V3,
      rows: 3,
      experts: 66,
      topK: 4,
      groups: 6,
      keptGroups: 3,
      padding: 2,
      biased: true,
      shared: 2,
      step: 0,
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
      ...V3,
      ...PLAIN,
      rows: 3,
      experts: 9,
      topK: 6,
      grouping: "none",
      biased: true,
      nans: true,
    },
    // Scores about as small as what keeps their sum from 0, and scores of 0.
    { ...V3, ...PLAIN, rows: 3, experts: 8, topK: 3, groups: 1, keptGroups: 1, offset: -46 },
    {
      ...V3,
      ...PLAIN,
      rows: 1,
      experts: 8,
      topK: 3,
      groups: 1,
      keptGroups: 1,
      step: 100,
      offset: -800,
    },
    // Several slots of an expert, taken in turn and by logits; choices that are made up.
    { ...V2, ...PLAIN, rows: 5, experts: 9, topK: 4, grouping: "none", dispatch: IN_TURN },
    {
      ...V2,
      ...PLAIN,
      rows: 5,
      experts: 9,
      topK: 4,
      grouping: "none",
      dispatch: BY_LOGIT,
      padding: 3,
    },
    {
      ...V3,
      ...PLAIN,
      rows: 5,
      experts: 16,
      topK: 4,
      groups: 4,
      keptGroups: 2,
      biased: true,
      dispatch: { ...BY_LOGIT, fake: true },
    },
    {
      ...V3,
      rows: 64,
      experts: 256,
      topK: 8,
      groups: 8,
      keptGroups: 4,
      padding: 0,
      biased: true,
      shared: 1,
      step: 0,
    }, // 671B model
  ],
  tunings: [{}],
  tolerance: 1e-5,
  bytes: ({ rows, experts, topK, shared }) =>
    (rows * (experts + 2 * (topK + shared)) + 3 * experts) * 4,
  flops: ({ rows, experts }) => rows * experts * experts,
  mutants: [
    { name: "bias is dropped", replace: "choice += bias[e];", with: "" },
    {
      name: "bias is in the weights",
      replace: "keys[own + e] = bitcast<u32>(choice);",
      with: "keys[own + e] = bitcast<u32>(choice); scores[own + e] = choice;",
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
    {
      name: "placement is ignored",
      replace: "return placement[(table % params.tables) * params.experts + e]",
      with: "return e",
    },
    { name: "there is one table", replace: "table % params.tables", with: "0u", case: 10 },
    { name: "tables overlap", replace: "* params.experts + e", with: "+ e", case: 10 },
    {
      name: "tables are in turn",
      replace: "table = scrambled",
      with: "table = row; let _s = scrambled",
      case: 11,
    },
    {
      name: "all logits say the same table",
      replace: "row * params.stride + e]))",
      with: "e]))",
      case: 11,
    },
    { name: "choices are not made up", replace: "if !FAKE", with: "if FAKE || true", case: 12 },
    {
      name: "made-up logits do not know their expert",
      replace: "(logits[first + e]) + e)",
      with: "(logits[first + e]))",
      case: 12,
    },
    { name: "shared experts start at 0", replace: "params.shared_first +", with: "0u +" },
    {
      name: "logits are read experts apart",
      replace: "row * params.stride",
      with: "row * params.experts",
    },
    {
      name: "ties go to the highest index",
      replace: "index < other_index",
      with: "index > other_index",
      case: 2,
    },
    {
      name: "softmax without its sum",
      replace: "scores[own + e] /= total",
      with: "scores[own + e] /= 1.0",
      case: 1,
    },
    {
      name: "softmax misses an invocation",
      replace: "i < (team + 1u) * TEAM; i += 4u",
      with: "i < team * TEAM + 8u; i += 4u",
      case: 1,
    },
    {
      name: "hits are set, not added",
      replace: "atomicAdd(&hits[params.first_hit + e], 1u)",
      with: "atomicStore(&hits[params.first_hit + e], 1u)",
    },
    { name: "all rows count", replace: "if row < counted", with: "if true", case: 2 },
    { name: "counts begin at 0", replace: "params.first_hit + e", with: "e" },
    { name: "the largest logit is not taken off", replace: "logit - most", with: "logit", case: 3 },
    {
      name: "all groups that tie stand",
      replace: "beats(group_keys[own_group + g], g, group_keys[own_group + group], group)",
      with: "group_keys[own_group + g] > group_keys[own_group + group]",
      case: 6,
    },
    {
      name: "of groups that tie the last stand",
      replace: "beats(group_keys[own_group + g], g, group_keys[own_group + group], group)",
      with: "beats(group_keys[own_group + g], group, group_keys[own_group + group], g)",
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
      replace: "ordered_bits(choice_of(own + e))",
      with: "u32(max(choice_of(own + e), 0.0) * 1000.0)",
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

  inputs: randomLogits,
  reference: routedRows,

  bind(recorder, shape, tensors) {
    const launch = route(recorder, routeOptions(shape, tensors));
    return () => launch(shape.rows);
  },
});
