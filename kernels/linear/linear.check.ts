import { linearCheck } from "./checks/check_linear.ts";
import { IN_RUNS } from "./checks/check_weights.ts";

const typical = { outColumn: 0, segmented: false, lanes: 8 };

export default linearCheck({
  name: "linear/linear",
  cases: [
    // Three blocks and a tail that ends inside a vec4f; slices; not a multiple of any tile.
    {
      dtype: "fp8",
      rows: 5,
      columns: 269,
      outputs: 44,
      outColumn: 5,
      segmented: true,
      groupRows: 32,
      ...IN_RUNS,
    },
    { ...typical, dtype: "bf16", rows: 5, columns: 269, outputs: 37, groupRows: 37 },
    { ...typical, dtype: "f32", rows: 5, columns: 130, outputs: 33, groupRows: 33 },
    {
      ...typical,
      dtype: "f16",
      rows: 9,
      columns: 135,
      outputs: 33,
      groupRows: 33,
      rowsPerLane: 4,
    },
    // Groups of fewer outputs than a workgroup computes.
    { ...typical, dtype: "fp8", rows: 3, columns: 64, outputs: 40, groupRows: 12 },
    { ...typical, dtype: "bf16", rows: 1, columns: 1, outputs: 1, groupRows: 1 },
    {
      ...typical,
      dtype: "f32",
      rows: 2,
      columns: 4,
      outputs: 70,
      groupRows: 70,
      lanes: 32,
      rowsPerLane: 2,
    },
    // More blocks than segments, and segments of unequal length.
    {
      dtype: "bf16",
      rows: 2,
      columns: 128 * 45,
      outputs: 8,
      outColumn: 0,
      segmented: true,
      groupRows: 8,
      lanes: 8,
    },
    { ...typical, dtype: "fp8", rows: 1, columns: 2048, outputs: 2048, groupRows: 2048 },
  ],
  mutants: [
    {
      name: "x is not masked beyond its columns",
      replace: "select(vec4f(), value, column < vec4u(params.columns))",
      with: "value",
    },
    { name: "one vec4f too few is read", replace: "+ PIECE_COLUMNS - 1u", with: "" },
    { name: "the last block is left out", replace: "+ SCALE_COLUMNS - 1u) /", with: ") /" },
    {
      name: "scale of the wrong row",
      replace: "first_scales(row), x_first",
      with: "first_scales(row.yxzw), x_first",
    },
    {
      name: "scale of the wrong block",
      replace: "vec4u(group * scale_step",
      with: "vec4u(0u * scale_step",
    },
    { name: "the 256 is dropped", replace: "return 256.0 *", with: "return" },
    { name: "signs of odd codes are lost", replace: "| (word & 0x80008000u)", with: "" },
    { name: "even and odd codes are swapped", replace: "even.x, odd.x", with: "odd.x, even.x" },
    { name: "rows are read too close", replace: "* params.x_stride", with: "* params.columns" },
    {
      name: "rows are written too close",
      replace: "* params.out_stride",
      with: "* params.outputs",
    },
    { name: "out_column is ignored", replace: "+ params.out_column", with: "" },
    { name: "every group reads the first slice", replace: "* params.group_stride", with: "* 0u" },
    {
      name: "every workgroup is of the first group",
      replace: "group.x / tiles;",
      with: "0u * tiles;",
    },
    {
      name: "outputs beyond the last are written",
      replace: "output[i] < end",
      with: "true",
    },
    {
      name: "rows beyond the last are written",
      replace: "first_row + t < params.rows",
      with: "true",
    },
    { name: "a segment is lost", replace: "= (*waiting)[level][t] + total[t]", with: "= total[t]" },
    {
      name: "rows are not padded",
      replace: "row / RUN_ROWS * (",
      with: "row / RUN_ROWS * (16u + ",
    },
    {
      name: "a run has one row of a lane",
      replace: "RUN_ROWS = ROWS_PER_LANE * LANES",
      with: "RUN_ROWS = LANES",
    },
    {
      name: "scales of a run lie apart",
      replace: "select(params.rows_padded, RUN_ROWS, SCALES_BY_RUN)",
      with: "params.rows_padded",
    },
    {
      name: "runs have one scale",
      replace: "row / RUN_ROWS * (column_blocks() * BLOCK_SCALE_WORDS * RUN_ROWS)",
      with: "row / RUN_ROWS * RUN_ROWS",
    },
    {
      name: "scales of the first row of a run",
      replace: "BLOCK_SCALE_WORDS * RUN_ROWS) + row % RUN_ROWS",
      with: "BLOCK_SCALE_WORDS * RUN_ROWS)",
    },
    {
      name: "rows that lie together are one row",
      replace: "return vec4u(first) + vec4u(0u, 1u, 2u, 3u) * apart;",
      with: "return vec4u(first);",
    },
    {
      name: "granules of a row follow one another",
      replace: "vec4u(piece / PIECES * RUN_ROWS)",
      with: "vec4u(piece / PIECES)",
    },
    {
      name: "invocations hand round the x of the first row only",
      replace: "first_sharer + t % ROWS_AT_ONCE * PIECE_VECTORS",
      with: "first_sharer",
      // BF16 needs two invocations a row: so subgroups of 4 serve two rows as well.
      case: 1,
      tuning: 4,
    },
    {
      name: "bf16 halves are swapped",
      replace: "even.x, odd.x",
      with: "odd.x, even.x",
      case: 1,
    },
  ],
});
