import { defineCheck } from "../check.ts";
import { takeSums } from "./take_sums.ts";

interface Shape {
  readonly rows: number;
  readonly cols: number;
  readonly firstRow: number;
}

const elements = ({ rows, cols }: Shape) => rows * cols;
const taken = ({ rows, cols, firstRow }: Shape) => (rows - firstRow) * cols;

export default defineCheck<Shape>({
  name: "vision/take_sums",
  cases: [
    { rows: 17, cols: 65, firstRow: 1 },
    { rows: 3, cols: 4, firstRow: 0 },
    { rows: 577, cols: 1024, firstRow: 1 },
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: (shape) => taken(shape) * 12,
  flops: taken,
  mutants: [
    { name: "the first row is taken", replace: "params.first + id.x", with: "id.x" },
    { name: "nothing is added", replace: "+ addend[at]", with: "" },
    {
      name: "the last element is left out",
      replace: "id.x < params.count",
      with: "id.x + 1u < params.count",
    },
  ],

  inputs: (shape, random) => ({
    x: Float32Array.from({ length: elements(shape) }, () => random() - 0.5),
    addend: Float32Array.from({ length: elements(shape) }, () => random() - 0.5),
  }),

  reference: (shape, { x, addend }) => ({
    out: Float32Array.from({ length: taken(shape) }, (_, i) => {
      const at = shape.firstRow * shape.cols + i;
      return x![at]! + addend![at]!;
    }),
  }),

  bind(recorder, shape, { x, addend, out }) {
    return takeSums(recorder, { ...shape, x: x!, addend: addend!, out: out! });
  },
});
