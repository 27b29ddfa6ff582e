import { linearCheck } from "./check_linear.ts";
import { IN_RUNS } from "./check_weights.ts";

const typical = { dtype: "int8", outColumn: 0, segmented: false, lanes: 8 } as const;

export default linearCheck({
  name: "linear/linear int8",
  cases: [
    // Three blocks and a tail that ends inside a vec4f; slices; not a multiple of any tile.
    {
      dtype: "int8",
      rows: 5,
      columns: 269,
      outputs: 44,
      outColumn: 5,
      segmented: true,
      groupRows: 32,
      ...IN_RUNS,
      bias: true,
    },
    { ...typical, rows: 9, columns: 17, outputs: 70, groupRows: 70, lanes: 32 },
    { ...typical, rows: 1, columns: 2048, outputs: 2048, groupRows: 2048 },
  ],
  mutants: [
    { name: "signs are lost", replace: "bitcast<vec4i>(high) >>", with: "high >>" },
    {
      name: "codes change places",
      replace: "vec4u(24u, 16u, 8u, 0u)",
      with: "vec4u(16u, 24u, 8u, 0u)",
    },
    {
      name: "scale of the wrong block",
      replace: "vec4u(group * scale_step",
      with: "vec4u(0u * scale_step",
    },
    {
      name: "the bias is dropped",
      replace: "vec4f(scale), bias_of(row)",
      with: "vec4f(scale), vec4f()",
    },
    {
      name: "bias of the wrong row",
      replace: "bias[row.x], bias[row.y]",
      with: "bias[row.y], bias[row.x]",
    },
    {
      name: "a bias for each group",
      replace: "group++) {",
      with: "group++) {\n      total[0] += vec4f(bias[0]);",
    },
  ],
});
