/**
 * Random matrices in every published format: the codes are drawn, not found for given numbers, and
 * neighbouring scales differ clearly, so that a wrong one shows.
 *
 * @module
 */
import type { Dtype } from "../../../src/dtype.ts";
import { FP8_DYNAMIC, GPTQ, INT8_TOKEN } from "./published_quantizations.ts";
import type { TensorInput } from "./write_checkpoint.ts";

export type MatrixStorage =
  | { readonly kind: "BF16" | "F16" | "F32" }
  | { readonly kind: "FP8" | "INT8"; readonly per: "tensor" | "row" | "block" }
  | { readonly kind: "AWQ"; readonly group: number }
  | {
      readonly kind: "GPTQ";
      readonly group: number;
      readonly order?: boolean;
      readonly version?: 2;
    };

export interface RandomMatrix {
  /** Tensor name without ".weight". */
  readonly name: string;
  readonly rows: number;
  readonly columns: number;
  readonly storage: MatrixStorage;
  /** Standard deviation of its numbers, about. */
  readonly deviation: number;
  /** Of scales. Default F16 of packed words, else F32. */
  readonly scaleDtype?: Dtype;
  readonly random: () => number;
}

/** `quantization_config` of a checkpoint of such matrices. */
export function quantizationSection(storage: MatrixStorage): object | undefined {
  switch (storage.kind) {
    case "FP8":
      if (storage.per === "row") return FP8_DYNAMIC;
      return {
        quant_method: "fp8",
        activation_scheme: "dynamic",
        ...(storage.per === "block" && { weight_block_size: [128, 128] }),
      };
    case "INT8":
      if (storage.per === "row") return INT8_TOKEN;
      return {
        quant_method: "blockwise_int8",
        activation_scheme: "dynamic",
        weight_block_size: [128, 128],
      };
    case "AWQ":
      return {
        quant_method: "awq",
        bits: 4,
        group_size: storage.group,
        version: "gemm",
        zero_point: true,
      };
    case "GPTQ":
      return {
        ...GPTQ,
        group_size: storage.group,
        ...(storage.version === 2 && { checkpoint_format: "gptq_v2" }),
      };
    default:
      return undefined;
  }
}

export function randomMatrix(matrix: RandomMatrix): TensorInput[] {
  const { name, rows, columns, storage, deviation, random } = matrix;
  const spread = (count: number, size: number) =>
    Float32Array.from({ length: count }, () => (random() * 2 - 1) * size);
  switch (storage.kind) {
    case "FP8":
    case "INT8":
      return scaledMatrix(matrix, storage);
    case "AWQ":
    case "GPTQ":
      return packedMatrix(matrix, storage);
    default: {
      const values = spread(rows * columns, deviation * Math.sqrt(3));
      return [{ name: `${name}.weight`, shape: [rows, columns], dtype: storage.kind, values }];
    }
  }
}

const BLOCK = 128;
/** Standard deviations of codes spread evenly over their range. */
const CODE_DEVIATION = { FP8: 448 / Math.sqrt(3), INT8: 127 / Math.sqrt(3), INT4: 4.6 };

function scaledMatrix(
  { name, rows, columns, deviation, scaleDtype: dtype = "F32", random }: RandomMatrix,
  { kind, per }: Extract<MatrixStorage, { kind: "FP8" | "INT8" }>,
): TensorInput[] {
  const most = kind === "FP8" ? 448 : 127;
  const codes = Float32Array.from({ length: rows * columns }, () => (random() * 2 - 1) * most);
  const shape = {
    tensor: [],
    row: [rows, 1],
    block: [Math.ceil(rows / BLOCK), Math.ceil(columns / BLOCK)],
  }[per];
  const scales = scalesOf(
    shape.reduce((product, size) => product * size, 1),
    deviation / CODE_DEVIATION[kind],
    random,
  );
  const suffix = per === "block" ? "weight_scale_inv" : "weight_scale";
  return [
    { name: `${name}.${suffix}`, shape, dtype, values: scales },
    {
      name: `${name}.weight`,
      shape: [rows, columns],
      dtype: kind === "FP8" ? "F8_E4M3" : "I8",
      values: kind === "FP8" ? codes : codes.map(Math.round),
    },
  ];
}

function packedMatrix(
  { name, rows, columns, deviation, scaleDtype: dtype = "F16", random }: RandomMatrix,
  storage: Extract<MatrixStorage, { kind: "AWQ" | "GPTQ" }>,
): TensorInput[] {
  const { kind, group } = storage;
  const groups = Math.ceil(columns / group);
  // Any word is eight codes; zero points lie about the middle.
  const words = (count: number, word: () => number) => Int32Array.from({ length: count }, word);
  const zeros = () =>
    Array.from({ length: 8 }).reduce<number>(
      (word, _, i) => word | ((6 + Math.floor(random() * 4)) << (4 * i)),
      0,
    );
  const scales = scalesOf(groups * rows, deviation / CODE_DEVIATION.INT4, random);
  const shape = kind === "AWQ" ? [columns, rows / 8] : [columns / 8, rows];
  const tensor = (suffix: string, shape: number[], values: ArrayLike<number>): TensorInput => ({
    name: `${name}.${suffix}`,
    shape,
    dtype: "I32",
    values,
  });
  const hasOrder = kind === "GPTQ" && storage.order !== false;
  const order = words(columns, () => 0).map((_, k) => Math.floor(k / group));
  return [
    { ...tensor("scales", [groups, rows], scales), dtype },
    tensor("qzeros", [groups, rows / 8], words((groups * rows) / 8, zeros)),
    ...(hasOrder ? [tensor("g_idx", [columns], order)] : []),
    tensor(
      "qweight",
      shape,
      words((rows * columns) / 8, () => random() * 2 ** 32),
    ),
  ];
}

function scalesOf(count: number, size: number, random: () => number): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => {
    return size * [1, 0.5, 1.5][i % 3]! * (0.9 + 0.2 * random());
  });
}

/** Matrices of experts in one tensor of MXFP4: `NAME_blocks`, `NAME_scales`, `NAME_bias`. */
export function mxfp4Experts(options: {
  readonly name: string;
  readonly experts: number;
  readonly rows: number;
  readonly columns: number;
  readonly deviation: number;
  readonly random: () => number;
}): TensorInput[] {
  const { name, experts, rows, columns, deviation, random } = options;
  const groups = Math.ceil(columns / 32);
  const shape = [experts, rows, groups];
  const bytes = experts * rows * groups * 16;
  // Sixteen codes spread evenly deviate by 2.9 from zero.
  const exponent = 127 + Math.round(Math.log2(deviation / 2.9));
  const draw = (count: number, one: () => number) => Float64Array.from({ length: count }, one);
  return [
    {
      name: `${name}_blocks`,
      shape: [...shape, 16],
      dtype: "U8",
      values: draw(bytes, () => Math.floor(random() * 256)),
    },
    {
      name: `${name}_scales`,
      shape,
      dtype: "U8",
      values: draw(experts * rows * groups, () => exponent - 1 + Math.floor(random() * 3)),
    },
    {
      name: `${name}_bias`,
      shape: [experts, rows],
      dtype: "BF16",
      values: draw(experts * rows, () => (random() * 2 - 1) * 0.3),
    },
  ];
}
