/**
 * What ONNX Runtime is asked to compute, with random weights, and the answers in f64.
 *
 * @module
 */
import {
  GQA_SCALE,
  type GqaShape,
  type gqaInputs,
  gqaReference,
} from "../../../kernels/attention/gqa/gqa_reference.ts";
import { decodeF16 } from "../../../src/dtype.ts";
import type { PeerCase } from "./onnx_runtime_process.ts";
import type { OnnxNode, OnnxType } from "./onnx_writer.ts";

export interface MatrixShape {
  /** Of activations. */
  readonly rows: number;
  readonly columns: number;
  readonly outputs: number;
}

const BLOCK = 32;
const ZERO = 8;

const normal = (random: () => number) => random() * 2 - 1;

/** `[rows, outputs]`: the products of rows of `x` and rows of `weight`. */
export function matrixProducts(
  x: ArrayLike<number>,
  weight: Float64Array,
  shape: MatrixShape,
): Float64Array {
  const { rows, columns, outputs } = shape;
  const out = new Float64Array(rows * outputs);
  for (let r = 0; r < rows; r++) {
    const row = Float64Array.from({ length: columns }, (_, k) => x[r * columns + k]!);
    for (let n = 0; n < outputs; n++) {
      let sum = 0;
      for (let k = 0, at = n * columns; k < columns; k++) sum += row[k]! * weight[at + k]!;
      out[r * outputs + n] = sum;
    }
  }
  return out;
}

/** As many equal nodes as there are launches, each with an output of its own. */
function repeated(
  launches: number,
  { rows, columns, outputs }: MatrixShape,
  options: { readonly type: OnnxType; readonly node: Omit<OnnxNode, "outputs"> },
) {
  const { type, node } = options;
  const names = Array.from({ length: launches }, (_, i) => `out ${i}`);
  return {
    nodes: names.map((name) => ({ ...node, outputs: [name] })),
    inputs: [{ name: "x", type, shape: [rows, columns] }],
    outputs: names.map((name) => ({ name, type, shape: [rows, outputs] })),
    last: names.at(-1)!,
  };
}

/** Weights of 4 bits in blocks of 32, each with a scale, the codes less 8. */
export function matMulNBits(
  shape: MatrixShape,
  { launches, random }: { readonly launches: number; readonly random: () => number },
): PeerCase {
  const { rows, columns, outputs } = shape;
  const blocks = (outputs * columns) / BLOCK;
  const codes = Uint8Array.from({ length: (outputs * columns) / 2 }, () => random() * 256);
  const scales = Float32Array.from({ length: blocks }, () => (0.5 + random()) / 8);
  const weight = Float64Array.from({ length: outputs * columns }, (_, i) => {
    const code = (codes[i >> 1]! >> (4 * (i & 1))) & 15;
    return (code - ZERO) * scales[Math.floor(i / BLOCK)]!;
  });
  const x = Float32Array.from({ length: rows * columns }, () => normal(random));
  const node = {
    operator: "MatMulNBits",
    domain: "com.microsoft",
    inputs: ["x", "codes", "scales"],
    attributes: { K: columns, N: outputs, bits: 4, block_size: BLOCK },
  } as const;
  const { last, ...graph } = repeated(launches, shape, { type: "f32", node });
  const constants = [
    { name: "codes", type: "u8", shape: [outputs, columns / BLOCK, BLOCK / 2], data: codes },
    { name: "scales", type: "f32", shape: [blocks], data: scales },
  ] as const;
  return {
    name: "MatMulNBits 4-bit",
    launches,
    graph: { ...graph, constants },
    inputs: { x: { type: "float32", shape: [rows, columns], data: x } },
    resident: {},
    fetch: last,
    decode: (output) => output,
    want: matrixProducts(x, weight, shape),
    tolerance: 1e-4,
  };
}

/** Plain matrices, `[columns, outputs]` as ONNX has them. */
export function matMul(
  shape: MatrixShape,
  type: "f16" | "f32",
  { random }: { readonly random: () => number },
): PeerCase {
  const { rows, columns, outputs } = shape;
  const [matrix, weight] = plain(outputs * columns, { type, random });
  const turned = new Float64Array(weight.length);
  for (let n = 0; n < outputs; n++) {
    for (let k = 0; k < columns; k++) turned[n * columns + k] = weight[k * outputs + n]!;
  }
  const [data, x] = plain(rows * columns, { type, random });
  const node = { operator: "MatMul", domain: "", inputs: ["x", "matrix"] } as const;
  const { last, ...graph } = repeated(1, shape, { type, node });
  const constants = [{ name: "matrix", type, shape: [columns, outputs], data: matrix }];
  return {
    name: `MatMul ${type}`,
    launches: 1,
    graph: { ...graph, constants },
    inputs: {
      x: { type: type === "f16" ? "float16" : "float32", shape: [rows, columns], data },
    },
    resident: {},
    fetch: last,
    decode: (output) => (output instanceof Uint16Array ? Array.from(output, decodeF16) : output),
    want: matrixProducts(x, turned, shape),
    // It adds in f16: as many roundings to 11 bits as there are columns, in either direction.
    tolerance: type === "f16" ? (8 * Math.sqrt(columns)) / 2 ** 12 : 1e-4,
  };
}

/** Numbers in [-1, 1) as they are stored, and as they are. */
function plain(
  length: number,
  { type, random }: { readonly type: "f16" | "f32"; readonly random: () => number },
): readonly [Float32Array | Uint16Array, ArrayLike<number>] {
  if (type === "f32") {
    const values = Float32Array.from({ length }, () => normal(random));
    return [values, values];
  }
  // Half of it in size to 1, both signs.
  const bits = Uint16Array.from({ length }, () => {
    const drawn = random() * 2048;
    return 0x3800 + (drawn & 0x3ff) + (drawn & 0x400 ? 0x8000 : 0);
  });
  const numbers = new Map<number, number>();
  const values = Float32Array.from(bits, (code) => {
    const known = numbers.get(code) ?? decodeF16(code);
    numbers.set(code, known);
    return known;
  });
  return [bits, values];
}

type GqaInputs = ReturnType<typeof gqaInputs>;

/**
 * One query row after `length - 1` others, on the numbers of a check of our own kernel: a cache in
 * f32 whose entries are the keys of all heads, then the values.
 */
export function groupQueryAttention(
  shape: GqaShape,
  { q, cache, rows, page_tables }: GqaInputs,
): PeerCase {
  const { heads, kvHeads, headDim, sequences, pageSize } = shape;
  const length = sequences[0]!.first + 1;
  const width = kvHeads * headDim;
  const parts = [0, 1].map((part) => {
    const held = new Float32Array(length * width);
    for (let key = 0; key < length; key++) {
      const page = page_tables[rows[3]! + Math.floor(key / pageSize)]!;
      const from = ((page * pageSize + (key % pageSize)) * 2 + part) * width;
      for (let i = 0; i < width; i++) {
        const to = (Math.floor(i / headDim) * length + key) * headDim + (i % headDim);
        held[to] = cache[from + i]!;
      }
    }
    return held;
  });
  const newest = parts.map((held) =>
    Float32Array.from({ length: width }, (_, i) => {
      const head = Math.floor(i / headDim);
      return held[(head * length + length - 1) * headDim + (i % headDim)]!;
    }),
  );
  const cacheShape = [1, kvHeads, length, headDim];
  const tensors = {
    query: { shape: [1, 1, heads * headDim], data: q.slice(0, heads * headDim) },
    key: { shape: [1, 1, width], data: newest[0]! },
    value: { shape: [1, 1, width], data: newest[1]! },
    past_key: { shape: cacheShape, data: parts[0]! },
    past_value: { shape: cacheShape, data: parts[1]! },
  };
  const f32 = (name: string, size: readonly number[]) =>
    ({ name, type: "f32", shape: size }) as const;
  return {
    name: "GroupQueryAttention f32",
    launches: 1,
    graph: {
      nodes: [
        {
          operator: "GroupQueryAttention",
          domain: "com.microsoft",
          inputs: [...Object.keys(tensors), "seqlens_k", "total_sequence_length"],
          outputs: ["out", "present_key", "present_value"],
          attributes: { num_heads: heads, kv_num_heads: kvHeads },
          reals: { scale: GQA_SCALE },
        },
      ],
      constants: [
        { name: "total_sequence_length", type: "i32", shape: [1], data: Int32Array.of(length) },
      ],
      inputs: [
        ...Object.entries(tensors).map(([name, tensor]) => f32(name, tensor.shape)),
        { name: "seqlens_k", type: "i32", shape: [1] },
      ],
      outputs: [
        f32("out", tensors.query.shape),
        f32("present_key", cacheShape),
        f32("present_value", cacheShape),
      ],
    },
    inputs: {
      ...Object.fromEntries(
        Object.entries(tensors).map(([name, { shape: size, data }]) => [
          name,
          { type: "float32", shape: size, data: data as Float32Array } as const,
        ]),
      ),
      seqlens_k: { type: "int32", shape: [1], data: Int32Array.of(length - 1) },
    },
    resident: { past_key: "present_key", past_value: "present_value" },
    fetch: "out",
    decode: (output) => output,
    want: gqaReference(shape, { q, cache, rows, page_tables }).slice(0, heads * headDim),
    tolerance: 1e-3,
  };
}
