import { linearCheck } from "./check_linear.ts";
import { IN_RUNS } from "./check_weights.ts";

const typical = { dtype: "int4", outColumn: 0, segmented: false, lanes: 8 } as const;

export default linearCheck({
  name: "linear/linear int4",
  cases: [
    // Three blocks and a tail that ends inside a vec4f; slices; not a multiple of any tile.
    {
      dtype: "int4",
      groupColumns: 32,
      rows: 5,
      columns: 269,
      outputs: 44,
      outColumn: 5,
      segmented: true,
      groupRows: 32,
      ...IN_RUNS,
      bias: true,
    },
    { ...typical, groupColumns: 64, rows: 5, columns: 333, outputs: 37, groupRows: 37 },
    {
      ...typical,
      groupColumns: 128,
      rows: 5,
      columns: 141,
      outputs: 37,
      groupRows: 37,
      rowsPerLane: 2,
    },
    { ...typical, groupColumns: 32, rows: 2, columns: 3, outputs: 70, groupRows: 70, lanes: 32 },
    // More blocks than segments, and segments of unequal length.
    {
      dtype: "int4",
      groupColumns: 64,
      rows: 2,
      columns: 128 * 45,
      outputs: 8,
      outColumn: 0,
      segmented: true,
      groupRows: 8,
      lanes: 8,
    },
    { ...typical, groupColumns: 64, rows: 1, columns: 2048, outputs: 2048, groupRows: 2048 },
  ],
  mutants: [
    { name: "no zero point", replace: "f32(scale_word & ZERO_MASK)", with: "0.0" },
    { name: "zero points below 16", replace: "ZERO_MASK = 31u", with: "ZERO_MASK = 15u" },
    {
      name: "zero point of another row",
      replace: "decode_vector(pieces[1], v, words.y)",
      with: "decode_vector(pieces[1], v, words.x)",
    },
    { name: "the low codes twice", replace: " >> (16u * (v % 2u))", with: "" },
    { name: "the first half of a granule twice", replace: "piece % PIECES", with: "0u" },
    { name: "granules are read too far apart", replace: "piece / PIECES *", with: "piece *" },
    {
      name: "scale of the wrong group",
      replace: "vec4u(group * scale_step",
      with: "vec4u(group / 2u * scale_step",
    },
    { name: "the last group is left out", replace: "+ SCALE_COLUMNS - 1u) /", with: ") /" },
    {
      name: "segments are runs of groups",
      replace: "min(block * BLOCK_GROUPS,",
      with: "min(block,",
    },
    {
      name: "one piece too many in a group",
      replace: "i < min(GROUP_PIECES, params.columns);",
      with: "i < min(GROUP_PIECES, params.columns) + 1u;",
    },
  ],
});
