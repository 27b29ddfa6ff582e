import { defineCheck } from "../../check.ts";
import { IN_RUNS } from "../../linear/checks/check_weights.ts";
import { storedBytes } from "../../linear/weights/weight_cost.ts";
import {
  BY_PAIR,
  BY_TILE,
  bindCombine,
  type CombineShape,
  combinedRows,
  combineInputs,
  downMatrix,
  STREAM_MUTANTS,
} from "./check_combine.ts";
import { chosenAtMost, TILE_FORMS } from "./check_experts.ts";

/** Behind those, one by pair and one of subgroups. */
const SKIPPING = TILE_FORMS.length + 2;

export default defineCheck<CombineShape>({
  name: "moe/tile_combine",
  storageBuffers: 10,
  cases: [
    // Tiles of less than four pairs, of four, and several of one expert; more rows than a workgroup
    // adds to at once.
    {
      dtype: "fp8",
      rows: 11,
      slots: 3,
      slabs: [3, 0],
      hidden: 141,
      intermediate: 133,
      rounded: true,
      scale: 0.25,
      eps: 0.02,
      ...IN_RUNS,
    },
    {
      dtype: "bf16",
      rows: 7,
      slots: 2,
      slabs: [3, 0],
      bias: true,
      hidden: 65,
      intermediate: 21,
      rounded: false,
      scale: 0.25,
      eps: 0.02,
    },
    {
      dtype: "fp8",
      rows: 8,
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
    ...TILE_FORMS.map((form) => ({ folded: BY_TILE, ...form })),
    { folded: BY_PAIR },
    { folded: BY_TILE, subgroups: 1 },
    { folded: BY_TILE, sequential: 1 },
    { folded: BY_TILE, sequential: 1, subgroups: 1 },
  ],
  tunedCases: [0, 1],
  exactAcrossTunings: true,
  tolerance: 2e-5,
  bytes: (shape) => storedBytes(downMatrix(shape)) * chosenAtMost(shape),
  flops: ({ rows, slots, hidden, intermediate }) => 2 * rows * slots * hidden * intermediate,
  mutants: [
    {
      name: "slots count alike",
      replace: "vec4f(bitcast<f32>(pairs[params.slot_weights + pair]))",
      with: "vec4f(1.0)",
    },
    {
      name: "weights are not behind the pairs",
      replace: "pairs[params.slot_weights + pair]",
      with: "pairs[pair]",
    },
    {
      name: "every row has the slots of the first",
      replace: "var pair = row * params.slots; pair < (row + 1u) * params.slots;",
      with: "var pair = 0u; pair < params.slots;",
    },
    {
      name: "a slot is left out",
      replace: "pair < (row + 1u) * params.slots;",
      with: "pair + 1u < (row + 1u) * params.slots;",
    },
    { name: "the last slot alone counts", replace: "value, sum);", with: "value, vec4f());" },
    { name: "a tile is left out", replace: "t < tiles[0].x;", with: "t + 1u < tiles[0].x;" },
    { name: "every tile is the first", replace: "expert_tile(t)", with: "expert_tile(0u)" },
    {
      name: "a tile is one pair",
      replace: "if t < tile.count {",
      with: "if t < 1u {",
    },
    {
      name: "the last pair of a tile is left out",
      replace: "t < wanted_tokens",
      with: "t + 1u < wanted_tokens",
      tuning: SKIPPING,
    },
    {
      name: "outputs of pairs are too close",
      replace: "tile_pair(tile, t) * params.outputs_stride",
      with: "tile_pair(tile, t) * params.outputs",
    },
    {
      name: "the first rows alone are combined",
      replace: "tile_row < params.rows; tile_row +=",
      with: "tile_row < min(params.rows, 1u); tile_row +=",
    },
    {
      name: "rows of a workgroup are one row",
      replace: "combined_row(tile_row + t, row)",
      with: "combined_row(tile_row, row)",
    },
    {
      name: "magnitudes of rows before count for the scale",
      replace: "atomicStore(&largest[invocation], 0u);",
      with: "",
    },
    ...STREAM_MUTANTS.filter(({ case: index }) => index === undefined || index === 1),
  ],

  inputs: combineInputs,
  reference: combinedRows,
  bind: bindCombine,
});
