import { linearCheck } from "./check_linear.ts";
import { IN_RUNS } from "./check_weights.ts";

const typical = { dtype: "mxfp4", outColumn: 0, segmented: false, lanes: 8 } as const;
/** The tuning whose codes become numbers bit by bit. */
const BITS = 3;

export default linearCheck({
  name: "linear/linear mxfp4",
  cases: [
    // Three blocks and a tail that ends inside a vec4f; slices; not a multiple of any tile.
    {
      dtype: "mxfp4",
      rows: 5,
      columns: 269,
      outputs: 44,
      outColumn: 5,
      segmented: true,
      groupRows: 32,
      ...IN_RUNS,
      bias: true,
    },
    { ...typical, rows: 3, columns: 33, outputs: 70, groupRows: 70, lanes: 32 },
    { ...typical, rows: 1, columns: 2048, outputs: 2048, groupRows: 2048 },
  ],
  mutants: [
    { name: "one exponent for a block", replace: "8u * (group % 4u)", with: "0u" },
    {
      name: "exponents of the first block",
      replace: "group / 4u * scale_step",
      with: "0u * scale_step",
    },
    { name: "the 2^14 is dropped", replace: "+ vec4u(DECODE_EXPONENT)", with: "" },
    { name: "a sign is lost", replace: "| (word & 0x80008000u)", with: "" },
    {
      name: "codes change places",
      replace: "pairs[0][h], pairs[1][h]",
      with: "pairs[1][h], pairs[0][h]",
    },
    { name: "the first half of a granule twice", replace: "piece % PIECES", with: "0u" },
    {
      name: "signs are lost bit by bit",
      replace: "(codes & vec4u(8u))",
      with: "(codes & vec4u(0u))",
      tuning: BITS,
    },
    {
      name: "0 and 0.5 are 0.5 and 0.75",
      replace: "min(number, fma(",
      with: "max(number, 0.0 * fma(",
      tuning: BITS,
    },
  ],
});
