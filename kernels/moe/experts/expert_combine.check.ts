import { defineCheck } from "../../check.ts";
import { ONE_ROW_FORMS } from "../../linear/checks/check_forms.ts";
import { IN_RUNS } from "../../linear/checks/check_weights.ts";
import { storedBytes } from "../../linear/weights/weight_cost.ts";
import {
  APART,
  BY_PAIR,
  bindCombine,
  type CombineShape,
  combinedRows,
  combineInputs,
  downMatrix,
  STREAM_MUTANTS,
} from "./check_combine.ts";
import { chosenAtMost } from "./check_experts.ts";

export default defineCheck<CombineShape>({
  name: "moe/expert_combine",
  cases: [
    // Two groups of the rounding, the second a short one that ends inside a vector.
    {
      dtype: "fp8",
      rows: 2,
      slots: 3,
      slabs: [4, 0],
      hidden: 141,
      intermediate: 133,
      rounded: true,
      scale: 0.25,
      eps: 0.02,
      ...IN_RUNS,
    },
    {
      dtype: "bf16",
      rows: 3,
      slots: 2,
      slabs: [3, 0],
      bias: true,
      hidden: 65,
      intermediate: 21,
      rounded: false,
      scale: 0.25,
      eps: 0.02,
    },
    // Magnitudes below the smallest that a scale of scaled rows stands for.
    {
      dtype: "fp8",
      rows: 2,
      slots: 2,
      slabs: [3, 0],
      bias: true,
      hidden: 141,
      intermediate: 21,
      rounded: true,
      scale: 2 ** -20,
      eps: 1e-13,
    },
    {
      dtype: "fp8",
      rows: 1,
      slots: 5,
      slabs: [8, 0],
      hidden: 1024,
      intermediate: 512,
      rounded: true,
      scale: 0.25,
      eps: 1e-6,
    },
  ],
  tunings: [
    ...ONE_ROW_FORMS.map((form) => ({ folded: BY_PAIR, ...form })),
    { folded: APART },
    { folded: BY_PAIR, subgroups: 1 },
  ],
  tunedCases: [0, 1],
  exactAcrossTunings: true,
  tolerance: 2e-5,
  bytes: (shape) => storedBytes(downMatrix(shape)) * chosenAtMost(shape),
  flops: ({ rows, slots, hidden, intermediate }) => 2 * rows * slots * hidden * intermediate,
  mutants: [
    {
      name: "slots count alike",
      replace: "fma(vec4f(weight), sums[0]",
      with: "fma(vec4f(1.0), sums[0]",
    },
    {
      name: "every row has the slots of the first",
      replace: "group.y * params.slots + slot",
      with: "slot",
    },
    {
      name: "every row has the weights of the first",
      replace: "params.slot_weights + pair",
      with: "params.slot_weights + slot",
    },
    {
      name: "weights are not behind the experts",
      replace: "pairs[params.slot_weights + pair]",
      with: "pairs[pair]",
    },
    {
      name: "a slot is left out",
      replace: "slot < params.slots",
      with: "slot < params.slots - 1u",
    },
    {
      name: "the last slot alone counts",
      replace: "sums[0], combined[0])",
      with: "sums[0], vec4f())",
    },
    {
      name: "every pair has the first expert",
      replace: "expert_tile(pair)",
      with: "expert_tile(0u)",
    },
    ...STREAM_MUTANTS,
  ],

  inputs: combineInputs,
  reference: combinedRows,
  bind: bindCombine,
});
