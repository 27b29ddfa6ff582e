import { defineCheck } from "../check.ts";
import { gelu } from "./gelu.ts";

interface Shape {
  readonly elements: number;
  readonly scale: number;
}

export default defineCheck<Shape>({
  name: "vision/gelu",
  cases: [
    { elements: 4 * 65, scale: 6 },
    { elements: 4 * 64, scale: 400 }, // exp overflows
    { elements: 64 * 3072, scale: 6 },
  ],
  tunings: [{}],
  tolerance: 1e-5,
  bytes: ({ elements }) => elements * 8,
  flops: ({ elements }) => elements * 9,
  mutants: [
    { name: "it is a sigmoid of x alone", replace: "(1.0 + CUBIC * value * value)", with: "1.0" },
    {
      name: "the root is not doubled",
      replace: "TWICE_ROOT = 1.5957691216057308",
      with: "TWICE_ROOT = 0.7978845608028654",
    },
    { name: "the sign is wrong", replace: "exp(-u)", with: "exp(u)" },
    {
      name: "one quad is left out",
      replace: "id.x < params.quads",
      with: "id.x + 1u < params.quads",
    },
  ],

  inputs: ({ elements, scale }, random) => ({
    x: Float32Array.from({ length: elements }, () => scale * (random() - 0.5)),
  }),

  reference: (_, { x }) => ({
    x: Float64Array.from(x!, (value) => {
      const u = Math.sqrt(2 / Math.PI) * (value + 0.044715 * value ** 3);
      return 0.5 * value * (1 + Math.tanh(u));
    }),
  }),

  bind(recorder, { elements }, { x }) {
    const launch = gelu(recorder, { x: x! });
    return () => launch(elements);
  },
});
