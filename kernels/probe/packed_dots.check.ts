import { defineCheck } from "../check.ts";
import { PACKED_DOTS, packedDots, packedDotsInputs, packedDotsReference } from "./packed_dots.ts";

export default defineCheck({
  name: "probe/packed_dots",
  cases: [{}],
  tunings: [{}],
  tolerance: 0,
  bytes: () => 12 * PACKED_DOTS,
  flops: () => 8 * PACKED_DOTS,
  mutants: [
    {
      name: "bytes have no signs",
      replace: "dot4I8Packed(left[invocation], right[invocation])",
      with: "i32(dot4U8Packed(left[invocation], right[invocation]))",
    },
    {
      name: "one side has no signs",
      replace: "left[invocation],",
      with: "left[invocation] & 0x7f7f7f7fu,",
    },
    { name: "the first words only", replace: "params.count", with: "16u" },
  ],
  inputs: packedDotsInputs,
  reference: (_, { left, right }) => {
    const sums = packedDotsReference({ left: left as Uint32Array, right: right as Uint32Array });
    return { sums: new Uint32Array(sums.buffer) };
  },
  bind: (recorder, _, { left, right, sums }) =>
    packedDots(recorder, { left: left!, right: right!, sums: sums! }),
});
