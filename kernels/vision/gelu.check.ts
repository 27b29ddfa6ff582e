import { defineCheck } from "../check.ts";
import { type GeluForm, gelu } from "./gelu.ts";

interface Shape {
  readonly elements: number;
  readonly scale: number;
  readonly form: GeluForm;
}

/** By a series that has converged to f64 where values of the cases are. */
function phi(x: number): number {
  const far = 6;
  if (Math.abs(x) > far) return x > 0 ? 1 : 0;
  let term = x;
  let sum = x;
  for (let n = 1; n < 200; n++) {
    term *= (x * x) / (2 * n + 1);
    sum += term;
  }
  return 0.5 + (sum * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI);
}

const FORMS: Readonly<Record<GeluForm, (x: number) => number>> = {
  tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  erf: (x) => x * phi(x),
  quick: (x) => x / (1 + Math.exp(-1.702 * x)),
};

export default defineCheck<Shape>({
  name: "vision/gelu",
  cases: [
    { elements: 4 * 65, scale: 6, form: "tanh" },
    { elements: 4 * 64, scale: 400, form: "tanh" }, // exp overflows
    { elements: 4 * 65, scale: 8, form: "erf" },
    { elements: 4 * 64, scale: 400, form: "erf" },
    { elements: 4 * 65, scale: 6, form: "quick" },
    { elements: 64 * 3072, scale: 6, form: "tanh" },
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
      replace: "at < params.quads",
      with: "at + 1u < params.quads",
    },
    {
      name: "negative values are like positive ones",
      replace: "value < vec4f(0.0)",
      with: "vec4<bool>(false)",
      case: 2,
    },
    { name: "the root of 2 is left out", replace: "* HALF_ROOT", with: "", case: 2 },
    { name: "the rest is not halved", replace: "0.5 * rest_of_erf", with: "rest_of_erf", case: 2 },
    { name: "the series ends early", replace: "inner, vec4f", with: "vec4f(0.0), vec4f", case: 2 },
    { name: "quick is as slow as a sigmoid", replace: "QUICK * value", with: "value", case: 4 },
  ],

  inputs: ({ elements, scale }, random) => ({
    x: Float32Array.from({ length: elements }, () => scale * (random() - 0.5)),
  }),

  reference: ({ form }, { x }) => ({ x: Float64Array.from(x!, FORMS[form]) }),

  bind(recorder, { elements, form }, { x }) {
    const launch = gelu(recorder, { x: x!, form });
    return () => launch(elements);
  },
});
