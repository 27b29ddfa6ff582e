import { defineCheck } from "../check.ts";
import { MULTIPLY_ADD_WORKGROUP, multiplyAdd } from "./multiply_add.ts";

export default defineCheck({
  name: "probe/multiply_add",
  cases: [
    { workgroups: 3, steps: 5, factor: 0.75, increment: 0.5 },
    { workgroups: 4096, steps: 64, factor: 1, increment: 0.5 },
  ],
  tunings: [{}],
  tolerance: 1e-6,
  bytes: ({ workgroups }) => workgroups * MULTIPLY_ADD_WORKGROUP * 16,
  flops: ({ workgroups, steps }) => workgroups * MULTIPLY_ADD_WORKGROUP * 32 * steps,
  mutants: [
    { name: "one step too few", replace: "i < params.steps", with: "i + 1u < params.steps" },
    { name: "the factor is dropped", replace: "vec4f(params.factor)", with: "vec4f(1.0)" },
    { name: "the increment is dropped", replace: "vec4f(params.increment)", with: "vec4f()" },
    { name: "a chain stands still", replace: "c3 = fma(c3, a, b)", with: "c3 = vec4f(3.0)" },
    { name: "one invocation for all", replace: "out[invocation.x]", with: "out[0]" },
  ],

  inputs: () => ({}),

  reference({ workgroups, steps, factor, increment }) {
    let sum = 0;
    for (let chain = 0; chain < 4; chain++) {
      let value = chain;
      for (let i = 0; i < steps; i++) value = value * factor + increment;
      sum += value;
    }
    const numbers = workgroups * MULTIPLY_ADD_WORKGROUP * 4;
    return { out: new Float64Array(numbers).fill(sum) };
  },

  bind(recorder, { workgroups, ...chains }, { out }) {
    const launch = multiplyAdd(recorder, { out: out!, ...chains });
    return () => launch(workgroups);
  },
});
