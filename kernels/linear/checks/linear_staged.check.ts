import { STAGED_FORMS } from "./check_forms.ts";
import { linearCheck } from "./check_linear.ts";
import { IN_RUNS } from "./check_weights.ts";

const PLAIN = { tokens: 4 };
const [FIRST, ...OTHERS] = STAGED_FORMS;
const typical = { outColumn: 0, segmented: false, lanes: 8, columns: 269 } as const;
const all = (outputs: number) => ({ outputs, groupRows: outputs });

/** A linear in every staged form, beside one that is not. */
export default linearCheck({
  name: "linear/linear staged",
  forms: [FIRST!, PLAIN, ...OTHERS, { ...FIRST!, bits: 1 }, { ...FIRST!, subgroups: 1 }],
  cases: [
    // Two tiles and more of rows and of a slice's outputs, none full; three blocks and a tail that
    // ends inside a vec4f.
    {
      dtype: "int4",
      groupColumns: 64,
      rows: 69,
      columns: 269,
      outputs: 100,
      outColumn: 5,
      segmented: true,
      groupRows: 72,
      ...IN_RUNS,
      bias: true,
    },
    { ...typical, dtype: "fp8", rows: 37, ...all(70), segmented: true },
    { ...typical, dtype: "bf16", rows: 37, ...all(70), segmented: true },
    { ...typical, dtype: "f16", rows: 17, ...all(33) },
    { ...typical, dtype: "f32", rows: 17, ...all(33), columns: 131 },
    { ...typical, dtype: "int8", rows: 17, ...all(33), columns: 141 },
    { ...typical, dtype: "mxfp4", rows: 17, ...all(33), ...IN_RUNS, bias: true },
    { ...typical, dtype: "int4", groupColumns: 32, rows: 17, ...all(33) },
    { ...typical, dtype: "int4", groupColumns: 128, rows: 17, ...all(33), lanes: 16 },
    // Groups of fewer outputs than a workgroup computes; one row, one column.
    { ...typical, dtype: "fp8", rows: 18, columns: 64, outputs: 40, groupRows: 12 },
    { ...typical, dtype: "bf16", rows: 1, columns: 1, ...all(1) },
    // More blocks than segments, and segments of unequal length.
    { ...typical, dtype: "bf16", rows: 2, columns: 128 * 45, ...all(8), segmented: true },
    { ...typical, dtype: "fp8", rows: 64, columns: 2048, ...all(2048) },
  ],
  mutants: [
    {
      name: "rows beyond a tile are those of the first",
      replace: "tile * TOKEN_LANES +",
      with: "",
    },
    {
      name: "all invocations have the same rows",
      replace: "+ invocation / ROW_LANES) * TOKENS",
      with: ") * TOKENS",
    },
    {
      name: "weights are multiplied before they are there",
      replace: "stage_x(mine, first * PIECE_VECTORS);\n    workgroupBarrier();",
      with: "stage_x(mine, first * PIECE_VECTORS);",
    },
    {
      name: "weights are overwritten before they are read",
      replace: "workgroupBarrier();\n    stage_weights",
      with: "stage_weights",
    },
    {
      name: "a row is decoded with the zero point of another",
      replace: "first_scale[mine.token_lane % 4u]",
      with: "first_scale[0]",
    },
    {
      name: "one weight row in place of four",
      replace: "first_granule[mine.token_lane % 4u]",
      with: "first_granule[0]",
    },
    {
      name: "a piece of a step is left out",
      replace: "i += DECODERS",
      with: "i += STEP_PIECES",
    },
    { name: "pieces overlap", replace: "first + piece)", with: "first)" },
    {
      name: "some rows are not copied",
      replace: "[row + i * ROWS_AT_ONCE]",
      with: "[row]",
    },
    {
      name: "every vector of a row is the first",
      replace: "staged_x[v].rows",
      with: "staged_x[0].rows",
    },
    {
      name: "x is not masked beyond its columns",
      replace: "select(vec4f(), value, column < vec4u(params.columns))",
      with: "value",
    },
    {
      name: "a group goes on into the next",
      replace: "min((group + 1u) * GROUP_PIECES, used)",
      with: "used",
    },
    { name: "one piece too few is read", replace: "+ PIECE_COLUMNS - 1u", with: "" },
    {
      name: "rows beyond the last are written",
      replace: "first_row + t < params.rows",
      with: "true",
    },
    { name: "a segment is lost", replace: "= (*waiting)[level][t] + total[t]", with: "= total[t]" },
    {
      name: "the bias is dropped",
      replace: "vec4f(scale), bias_of(row)",
      with: "vec4f(scale), vec4f()",
    },
  ],
});
