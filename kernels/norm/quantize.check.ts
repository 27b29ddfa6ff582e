import { defineCheck } from "../check.ts";
import { quantize } from "./quantize.ts";
import { quantizeGroups } from "./reference.ts";

export default defineCheck({
  name: "norm/quantize",
  cases: [
    { rows: 2, cols: 141, padding: 3, scale: 1 }, // a short last group
    { rows: 1, cols: 1, padding: 3, scale: 1 },
    { rows: 1, cols: 256, padding: 0, scale: 1e-6 }, // below the least scale
    { rows: 2, cols: 128, padding: 0, scale: 1e20 },
    { rows: 64, cols: 7168, padding: 0, scale: 1 }, // 671B model
  ],
  tunings: [{}],
  tolerance: 1e-6,
  bytes: ({ rows, cols }) => 2 * rows * cols * 4,
  flops: ({ rows, cols }) => 4 * rows * cols,
  mutants: [
    { name: "ties and halves are cut", replace: "+ 0x0007ffffu + ((bits >> 20u) & 1u)", with: "" },
    {
      name: "one scale for the whole row",
      replace: "group_scale(bitcast<f32>(most))",
      with: "group_scale(1.0)",
    },
    {
      name: "the last columns are left out",
      replace: "min(first + QUANTIZE_GROUP, params.cols)",
      with: "first + 96u",
    },
    { name: "the largest of a few", replace: "i < WORKGROUP_SIZE; i++", with: "i < 8u; i++" },
    {
      name: "no least scale",
      replace: "max(largest, SMALLEST_MAGNITUDE)",
      with: "max(largest, 1e-30)",
      case: 2,
    },
    {
      name: "rows are cols apart",
      replace: "group.y * params.stride",
      with: "group.y * params.cols",
    },
    {
      name: "the end of the row is ignored",
      replace: "min(first + QUANTIZE_GROUP, params.cols)",
      with: "first + QUANTIZE_GROUP",
    },
  ],

  inputs: ({ rows, cols, padding, scale }, random) => ({
    x: Float32Array.from({ length: rows * (cols + padding) }, () => {
      // Magnitudes over ten powers of two, so that E4M3's subnormal steps are met.
      return (random() * 2 - 1) * scale * 2 ** (-20 * random() ** 2);
    }),
  }),

  reference({ rows, cols, padding }, inputs) {
    const stride = cols + padding;
    const x = Float64Array.from(inputs.x!);
    for (let r = 0; r < rows; r++) {
      x.set(quantizeGroups(x.slice(r * stride, r * stride + cols)), r * stride);
    }
    return { x };
  },

  bind(recorder, { rows, cols, padding }, { x }) {
    const launch = quantize(recorder, { x: x!, cols, stride: cols + padding });
    return () => launch(rows);
  },
});
