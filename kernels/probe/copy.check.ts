import { defineCheck } from "../check.ts";
import { copy } from "./copy.ts";

const FLOATS = 4;

export default defineCheck({
  name: "probe/copy",
  cases: [
    { vectors: 259 }, // not a multiple of what a workgroup copies
    { vectors: 4096 * 256 + 5 }, // more workgroups than go along x
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: ({ vectors }) => 32 * vectors,
  flops: () => 0,
  mutants: [
    { name: "the last vectors are left out", replace: "< params.vectors", with: "< 256u" },
    { name: "one vector too many", replace: "< params.vectors", with: "<= params.vectors" },
    {
      name: "every row of workgroups is the first",
      replace: "group.y * groups.x",
      with: "0u * groups.x",
      case: 1,
    },
    { name: "vectors lie on each other", replace: "i * WORKGROUP_SIZE", with: "i" },
  ],

  inputs: ({ vectors }, random) => ({
    source: Float32Array.from({ length: FLOATS * (vectors + 1) }, random),
  }),

  reference({ vectors }, { source }) {
    // One vector more than is asked for: it must keep its poison.
    const to = Float32Array.from(source!).fill(Number.NaN, FLOATS * vectors);
    return { to };
  },

  bind(recorder, { vectors }, { source, to }) {
    const launch = copy(recorder, { source: source!, to: to! });
    return () => launch(vectors);
  },
});
