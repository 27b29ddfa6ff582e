import { defineCheck } from "../check.ts";
import { codedStride, quantizeCodes } from "./quantize_codes.ts";

interface Shape {
  readonly rows: number;
  readonly cols: number;
  readonly padding: number;
  readonly group: "block" | "row";
}

const BLOCK = 128;
const groupOf = ({ group }: Shape, column: number) =>
  group === "row" ? 0 : Math.floor(column / BLOCK);
/** The scale of a group is a power of two, so that no format rounds it. */
const scaleOf = (shape: Shape, row: number, column: number) =>
  2 ** (((3 * row + 5 * groupOf(shape, column)) % 7) - 3);
/** Codes that reach the largest in every group. */
const codeOf = (row: number, column: number) =>
  column % BLOCK === 0 ? (row % 2 === 0 ? 127 : -127) : ((row * 31 + column * 57) % 253) - 126;

export default defineCheck<Shape>({
  name: "norm/quantize_codes",
  cases: [
    { rows: 3, cols: 141, padding: 3, group: "block" },
    { rows: 3, cols: 333, padding: 3, group: "row" },
    { rows: 1, cols: 1, padding: 3, group: "row" },
    { rows: 64, cols: 7168, padding: 0, group: "block" },
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: ({ rows, cols }) => 5 * rows * cols,
  flops: ({ rows, cols }) => 4 * rows * cols,
  mutants: [
    { name: "codes are cut off", replace: "round(value)", with: "trunc(value)" },
    { name: "codes keep their signs in all bytes", replace: "& 0xffu", with: "" },
    { name: "codes change places", replace: "(8u * i)", with: "(24u - 8u * i)" },
    { name: "columns beyond the last have codes", replace: "if 4u * w + i <", with: "if w * 0u <" },
    {
      name: "all blocks are the first",
      replace: "select(group.x, 0u, BY_ROW)",
      with: "0u",
    },
    {
      name: "rows are cols apart",
      replace: "group.y * params.stride",
      with: "group.y * params.cols",
    },
    {
      name: "a row is cut in blocks",
      replace: "select(group.x + 1u, blocks, BY_ROW)",
      with: "(group.x + 1u)",
      case: 1,
    },
    {
      name: "the last of the largest",
      replace: "atomicMax(&largest, most)",
      with: "atomicStore(&largest, most)",
    },
    { name: "scales lie among the codes", replace: "blocks * BLOCK_WORDS + b", with: "b" },
  ],

  inputs: (shape, random) => {
    const { rows, cols, padding } = shape;
    const stride = cols + padding;
    return {
      x: Float32Array.from({ length: rows * stride }, (_, i) => {
        const [row, column] = [Math.floor(i / stride), i % stride];
        if (column >= cols) return 1e9; // not part of the row
        const code = codeOf(row, column);
        // Between two codes, and nearer to this one.
        const beside = Math.abs(code) === 127 ? 0 : 0.4 * (2 * random() - 1);
        return (code + beside) * scaleOf(shape, row, column);
      }),
    };
  },

  reference(shape) {
    const { rows, cols } = shape;
    const stride = codedStride(cols);
    const blocks = Math.ceil(cols / BLOCK);
    // What lies behind the scales stays as it was.
    const out = new Uint32Array(rows * stride).fill(0xdeadbeef);
    const floats = new Float32Array(out.buffer);
    for (let r = 0; r < rows; r++) {
      const bytes = new Int8Array(out.buffer, 4 * r * stride, blocks * BLOCK);
      for (let c = 0; c < blocks * BLOCK; c++) bytes[c] = c < cols ? codeOf(r, c) : 0;
      for (let b = 0; b < blocks; b++) {
        floats[r * stride + blocks * (BLOCK / 4) + b] = scaleOf(shape, r, b * BLOCK);
      }
    }
    return { out };
  },

  bind(recorder, { rows, cols, padding, group }, { x, out }) {
    const launch = quantizeCodes(recorder, {
      x: x!,
      cols,
      stride: cols + padding,
      out: out!,
      group,
    });
    return () => launch(rows);
  },
});
