/**
 * Writes safetensors files and checkpoint folders into memory, for tests that need a checkpoint of
 * a shape of their own.
 *
 * @module
 */

import {
  DTYPE_BYTES,
  type Dtype,
  decodeBf16,
  encodeBf16,
  encodeE4m3,
  encodeF16,
} from "../../../src/dtype.ts";

/** A tensor to write; `values` are rounded to `dtype`. */
export interface TensorInput {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: Dtype;
  readonly values: ArrayLike<number>;
}

/** A tensor whose bytes are ready; `dtype` may be anything, also wrong. */
export interface RawTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: string;
  readonly bytes: Uint8Array;
}

export interface CheckpointInput {
  readonly tensors: readonly TensorInput[];
  /** Becomes config.json. */
  readonly config?: unknown;
  /** More than one: shards and an index. */
  readonly shards?: number;
  /** Further files, such as tokenizer.json. */
  readonly files?: Readonly<Record<string, Uint8Array>>;
}

/** Little-endian bytes of `values`, each rounded to nearest. */
export function encodeTensor(values: ArrayLike<number>, dtype: Dtype): Uint8Array {
  const width = DTYPE_BYTES[dtype];
  const bytes = new Uint8Array(values.length * width);
  const view = new DataView(bytes.buffer);
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    const at = i * width;
    switch (dtype) {
      case "F32":
        view.setFloat32(at, value, true);
        break;
      case "F16":
        view.setUint16(at, encodeF16(value), true);
        break;
      case "BF16":
        view.setUint16(at, encodeBf16(value), true);
        break;
      case "F8_E4M3":
        view.setUint8(at, encodeE4m3(value));
        break;
      case "I8":
        view.setInt8(at, value);
        break;
      case "U8":
        view.setUint8(at, value);
        break;
      case "I32":
        view.setInt32(at, value, true);
        break;
      case "I64":
        view.setBigInt64(at, BigInt(value), true);
        break;
      default:
        dtype satisfies never;
    }
  }
  return bytes;
}

/** A safetensors file of these tensors, in this order. */
export function safetensorsFile(tensors: readonly (TensorInput | RawTensor)[]): Uint8Array {
  const parts = tensors.map((one) =>
    "bytes" in one ? one.bytes : encodeTensor(one.values, one.dtype),
  );
  const header: Record<string, unknown> = { __metadata__: { format: "pt" } };
  let at = 0;
  for (const [i, { name, dtype, shape }] of tensors.entries()) {
    const end = at + parts[i]!.length;
    header[name] = { dtype, shape, data_offsets: [at, end] };
    at = end;
  }
  return joinFile(JSON.stringify(header), parts);
}

/** A safetensors file with any header, and `data` behind it. */
export function joinFile(header: string, data: readonly Uint8Array[]): Uint8Array {
  const text = new TextEncoder().encode(header);
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(text.length), true);
  const parts = [length, text, ...data];
  const file = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    file.set(part, at);
    at += part.length;
  }
  return file;
}

/** The files of a checkpoint folder, for `memorySource`. */
export function checkpointFiles(input: CheckpointInput): Record<string, Uint8Array> {
  const { tensors, config, shards = 1, files: more = {} } = input;
  const files: Record<string, Uint8Array> = { ...more };
  if (config !== undefined) files["config.json"] = jsonFile(config);
  if (shards === 1) {
    files["model.safetensors"] = safetensorsFile(tensors);
    return files;
  }
  const weightMap: Record<string, string> = {};
  for (let shard = 0; shard < shards; shard++) {
    const name = `model-${pad(shard + 1)}-of-${pad(shards)}.safetensors`;
    const held = tensors.filter((_, i) => Math.floor((i * shards) / tensors.length) === shard);
    for (const tensor of held) weightMap[tensor.name] = name;
    files[name] = safetensorsFile(held);
  }
  files["model.safetensors.index.json"] = jsonFile({ weight_map: weightMap });
  return files;
}

export function jsonFile(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

/** `[rows, columns]` values as 128x128 blocks of E4M3 with one scale each. */
export interface Fp8Blocks {
  /** Values over their block's scale, at most 448; still to be rounded to E4M3. */
  readonly codes: Float32Array;
  /** `[ceil(rows / 128), ceil(columns / 128)]`, exact in the scales' dtype. */
  readonly scales: Float32Array;
  readonly scaleShape: readonly [number, number];
}

const BLOCK = 128;

export function quantizeFp8Blocks(options: {
  readonly values: ArrayLike<number>;
  readonly rows: number;
  readonly columns: number;
  readonly scaleDtype?: "F32" | "BF16";
}): Fp8Blocks {
  const { values, rows, columns, scaleDtype = "F32" } = options;
  const scaleShape = [Math.ceil(rows / BLOCK), Math.ceil(columns / BLOCK)] as const;
  const scales = new Float32Array(scaleShape[0] * scaleShape[1]);
  const blockOf = (i: number): number =>
    Math.floor(Math.floor(i / columns) / BLOCK) * scaleShape[1] + Math.floor((i % columns) / BLOCK);
  for (let i = 0; i < rows * columns; i++) {
    const block = blockOf(i);
    scales[block] = Math.max(scales[block]!, Math.abs(values[i]!));
  }
  for (let block = 0; block < scales.length; block++) {
    const scale = scales[block]! === 0 ? 1 : scales[block]! / 448;
    scales[block] = scaleDtype === "BF16" ? decodeBf16(encodeBf16(scale)) : scale;
  }
  const codes = Float32Array.from(values, (value, i) => value / scales[blockOf(i)]!);
  return { codes, scales, scaleShape };
}

/** The two tensors of an FP8 linear, the scales first: `NAME_scale_inv` and `NAME`. */
export function fp8BlockTensors(options: {
  /** Ends in ".weight". */
  readonly name: string;
  readonly values: ArrayLike<number>;
  readonly rows: number;
  readonly columns: number;
  readonly scaleDtype?: "F32" | "BF16";
}): TensorInput[] {
  const { name, rows, columns, scaleDtype = "F32" } = options;
  const { codes, scales, scaleShape } = quantizeFp8Blocks(options);
  return [
    { name: `${name}_scale_inv`, shape: scaleShape, dtype: scaleDtype, values: scales },
    { name, shape: [rows, columns], dtype: "F8_E4M3", values: codes },
  ];
}

function pad(shard: number): string {
  return String(shard).padStart(5, "0");
}
