import { defineCheck } from "../../check.ts";
import { sumErrors } from "./sum_errors.ts";

export default defineCheck({
  name: "linear/sum_errors",
  cases: [
    { count: 131, index: 1, tensors: 3 }, // two rounds of the workgroup and three more
    { count: 1, index: 0, tensors: 1 },
    { count: 64, index: 4, tensors: 5 },
    { count: 16384, index: 7, tensors: 1024 }, // the most that one chunk of weights gives
  ],
  tunings: [{}],
  tolerance: 1e-5,
  bytes: ({ count }) => count * 8,
  flops: ({ count }) => count * 2,
  mutants: [
    { name: "one round only", replace: "i < params.count", with: "i < WORKGROUP_SIZE" },
    { name: "one too many", replace: "i < params.count", with: "i <= params.count" },
    { name: "earlier launches are forgotten", replace: "] += sum;", with: "] = sum;" },
    { name: "always the first tensor", replace: "errors[params.index]", with: "errors[0]" },
    {
      name: "the last invocation is left out",
      replace: "i < WORKGROUP_SIZE; i++",
      with: "i < 63u; i++",
    },
  ],

  inputs: ({ count, tensors }, random) => ({
    partials: Float32Array.from({ length: 2 * count + 8 }, random),
    errors: Float32Array.from({ length: 2 * tensors }, random),
  }),

  reference({ count, index }, inputs) {
    const errors = Float64Array.from(inputs.errors!);
    for (let i = 0; i < count; i++) {
      errors[2 * index]! += inputs.partials![2 * i]!;
      errors[2 * index + 1]! += inputs.partials![2 * i + 1]!;
    }
    return { errors };
  },

  bind(recorder, { count, index }, { partials, errors }) {
    const launch = sumErrors(recorder, { partials: partials!, errors: errors! });
    return () => launch(count, index);
  },
});
