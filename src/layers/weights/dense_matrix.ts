/**
 * A matrix of a checkpoint as the numbers its codes stand for, on the host.
 *
 * For the few matrices that are kept in a form their codes cannot have, such as a transposed one.
 *
 * @module
 */
import { BLOCK_COLUMNS } from "../../../kernels/linear/weights/layout.ts";
import type { WeightSpec, WeightSplit } from "../../checkpoint/weight_spec.ts";
import { decodeE4m3 } from "../../dtype.ts";
import { collectBytes, collectFloats } from "./destinations.ts";
import type { MatrixEncoding } from "./matrix_format.ts";
import { scaleSplit } from "./matrix_specs.ts";
import { checkPackedSizes, gptqSpecs, noBiasSpec, transposedSplit } from "./packed_specs.ts";

export interface DenseMatrix {
  /** Tensor name without ".weight". */
  readonly name: string;
  readonly rows: number;
  readonly columns: number;
  readonly split: WeightSplit;
  readonly encoding: MatrixEncoding;
}

type Take = (values: Float32Array<ArrayBuffer>) => void;

/** @param take Gets `[rows, columns]` once all tensors of the matrix have come. */
export function denseSpecs(matrix: DenseMatrix, take: Take): WeightSpec[] {
  const { name, rows, columns, split, encoding } = matrix;
  switch (encoding.kind) {
    case "plain":
      return [
        {
          name: `${name}.weight`,
          shape: [rows, columns],
          dtypes: [encoding.dtype],
          split,
          destination: collectFloats(take),
        },
      ];
    case "scaled":
      return scaledSpecs(matrix, encoding, take);
    case "awq":
    case "gptq":
      return packedSpecs(matrix, encoding, take);
    default:
      return encoding satisfies never;
  }
}

function scaledSpecs(
  { name, rows, columns, split }: DenseMatrix,
  { dtype, scales }: Extract<MatrixEncoding, { kind: "scaled" }>,
  take: Take,
): WeightSpec[] {
  const blocks = Math.ceil(columns / BLOCK_COLUMNS);
  const shapes = {
    block: [Math.ceil(rows / BLOCK_COLUMNS), blocks],
    row: scales.shape?.length === 1 ? [rows] : [rows, 1],
    tensor: scales.shape ?? [],
  };
  let factors = new Float32Array();
  const factor = {
    block: (row: number, column: number) =>
      factors[Math.floor(row / BLOCK_COLUMNS) * blocks + Math.floor(column / BLOCK_COLUMNS)]!,
    row: (row: number) => factors[row]!,
    tensor: () => factors[0]!,
  }[scales.per];
  const decode = dtype === "I8" ? (code: number) => (code << 24) >> 24 : decodeE4m3;
  return [
    {
      name: `${name}.${scales.suffix}`,
      shape: shapes[scales.per],
      dtypes: ["F32", "BF16", "F16"],
      split: scaleSplit(scales, split),
      destination: collectFloats((values) => {
        factors = values;
      }),
    },
    {
      name: `${name}.weight`,
      shape: [rows, columns],
      dtypes: [dtype],
      split,
      destination: collectBytes((codes) =>
        take(
          Float32Array.from(codes, (code, i) => {
            const row = Math.floor(i / columns);
            return decode(code) * factor(row, i % columns);
          }),
        ),
      ),
    },
  ];
}

/** Where the four bits of each of eight neighbours stand in AutoAWQ's words. */
const AWQ_SHIFTS = [0, 16, 4, 20, 8, 24, 12, 28];
const PER_WORD = 8;

function packedSpecs(
  { name, rows, columns, split }: DenseMatrix,
  encoding: Extract<MatrixEncoding, { kind: "awq" | "gptq" }>,
  take: Take,
): WeightSpec[] {
  const { kind, groupColumns, zeroOffset } = encoding;
  checkPackedSizes(name, [rows, columns], encoding);
  const groups = columns / groupColumns;
  const shiftOf = (n: number) => (kind === "awq" ? AWQ_SHIFTS[n % PER_WORD]! : 4 * (n % PER_WORD));
  let scales = new Float32Array();
  let zeros = new Uint32Array();
  const words = (bytes: Uint8Array<ArrayBuffer>) => new Uint32Array(bytes.buffer, bytes.byteOffset);
  const unpack = (codes: Uint32Array) => {
    const values = new Float32Array(rows * columns);
    for (let k = 0; k < columns; k++) {
      const group = Math.floor(k / groupColumns);
      for (let n = 0; n < rows; n++) {
        const code =
          kind === "awq"
            ? codes[(k * rows + n - (n % PER_WORD)) / PER_WORD]! >>> shiftOf(n)
            : codes[Math.floor(k / PER_WORD) * rows + n]! >>> shiftOf(k);
        const zero = zeros[(group * rows + n - (n % PER_WORD)) / PER_WORD]! >>> shiftOf(n);
        const steps = (code & 15) - ((zero & 15) + zeroOffset);
        values[n * columns + k] = steps * scales[group * rows + n]!;
      }
    }
    take(values);
  };
  const common = { split: transposedSplit(split), dtypes: ["I32"] } as const;
  return [
    {
      name: `${name}.scales`,
      shape: [groups, rows],
      dtypes: ["F16", "BF16", "F32"],
      split: transposedSplit(split),
      destination: collectFloats((values) => {
        scales = values;
      }),
    },
    {
      ...common,
      name: `${name}.qzeros`,
      shape: [groups, rows / PER_WORD],
      destination: collectBytes((bytes) => {
        zeros = words(bytes);
      }),
    },
    {
      ...common,
      name: `${name}.qweight`,
      shape: kind === "awq" ? [columns, rows / PER_WORD] : [columns / PER_WORD, rows],
      destination: collectBytes((bytes) => unpack(words(bytes))),
    },
    ...(kind === "gptq"
      ? [...gptqSpecs(name, { columns, split, groupColumns }), noBiasSpec(name, rows, split)]
      : []),
  ];
}
