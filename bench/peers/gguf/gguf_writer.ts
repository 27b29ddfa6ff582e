/**
 * The GGUF file format, version 3, written a piece at a time: header, metadata, where each tensor
 * lies, the tensors.
 *
 * Blocks of 32 elements: q8_0 is an f16 scale and 32 signed bytes; q4_0 an f16 scale and 16 bytes,
 * element i in the low half of byte i, element i + 16 in the high half, each less 8.
 *
 * @module
 */
import { type FileHandle, open } from "node:fs/promises";
import { decodeF16, encodeF16 } from "../../../src/dtype.ts";

export type GgufType = "f32" | "f16" | "q8_0" | "q4_0";

export interface GgufTensor {
  readonly name: string;
  /** As safetensors order them: rows before columns. The file has them the other way round. */
  readonly shape: readonly number[];
  readonly type: GgufType;
  /** Elements of `count` rows, a row being a run of the last dimension. */
  rows(first: number, count: number): Promise<Float32Array>;
}

export type GgufValue =
  | { readonly type: "u32" | "f32"; readonly value: number }
  | { readonly type: "bool"; readonly value: boolean }
  | { readonly type: "string"; readonly value: string }
  | { readonly type: "strings"; readonly value: readonly string[] }
  | { readonly type: "i32s"; readonly value: readonly number[] };

export type GgufMetadata = Readonly<Record<string, GgufValue>>;

const TYPE_CODES = { f32: 0, f16: 1, q4_0: 2, q8_0: 8 } as const;
/** Codes of the values of metadata. */
const U32 = 4;
const I32 = 5;
const F32 = 6;
const BOOL = 7;
const STRING = 8;
const ARRAY = 9;

const BLOCK = 32;
const BLOCK_BYTES = { q4_0: 18, q8_0: 34 } as const;
const ALIGNMENT = 32;
const WRITE_ELEMENTS = 4 << 20;
const VERSION = 3;

export async function writeGguf(
  path: string,
  { metadata, tensors }: { metadata: GgufMetadata; tensors: readonly GgufTensor[] },
): Promise<void> {
  const handle = await open(path, "w");
  try {
    const header = new Bytes();
    header.text("GGUF").u32(VERSION).u64(tensors.length).u64(Object.keys(metadata).length);
    for (const [key, value] of Object.entries(metadata)) header.string(key).value(value);
    let offset = 0;
    for (const { name, shape, type } of tensors) {
      header.string(name).u32(shape.length);
      for (const size of [...shape].reverse()) header.u64(size);
      header.u32(TYPE_CODES[type]).u64(offset);
      offset += aligned(byteLength(shape, type));
    }
    await handle.write(padded(header.take()));
    for (const tensor of tensors) await writeTensor(handle, tensor);
  } finally {
    await handle.close();
  }
}

async function writeTensor(handle: FileHandle, tensor: GgufTensor): Promise<void> {
  const { shape, type } = tensor;
  const columns = shape.at(-1)!;
  const rows = shape.slice(0, -1).reduce((product, size) => product * size, 1);
  const most = Math.max(1, Math.floor(WRITE_ELEMENTS / columns));
  for (let first = 0; first < rows; first += most) {
    const count = Math.min(most, rows - first);
    const values = await tensor.rows(first, count);
    if (values.length !== count * columns)
      throw new Error(`${tensor.name}: wrong number of values`);
    await handle.write(encode(values, type));
  }
  const bytes = byteLength(shape, type);
  if (bytes % ALIGNMENT !== 0) await handle.write(new Uint8Array(aligned(bytes) - bytes));
}

function byteLength(shape: readonly number[], type: GgufType): number {
  const elements = shape.reduce((product, size) => product * size, 1);
  if (type === "f32") return elements * 4;
  if (type === "f16") return elements * 2;
  if (shape.at(-1)! % BLOCK !== 0) throw new Error(`a row of ${shape.at(-1)} is not whole blocks`);
  return (elements / BLOCK) * BLOCK_BYTES[type];
}

/** Elements as a tensor of this type stores them. */
export function encode(values: Float32Array, type: GgufType): Uint8Array {
  switch (type) {
    case "f32":
      return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    case "f16":
      return new Uint8Array(Uint16Array.from(values, halfOf).buffer);
    case "q8_0":
      return encodeBlocks(values, BLOCK_BYTES.q8_0, q8Block);
    case "q4_0":
      return encodeBlocks(values, BLOCK_BYTES.q4_0, q4Block);
    default:
      return type satisfies never;
  }
}

const halves = new Map<number, number>();

/** Weights that come from BF16 are few different numbers. */
function halfOf(value: number): number {
  let half = halves.get(value);
  if (half === undefined) {
    half = encodeF16(value);
    halves.set(value, half);
  }
  return half;
}

type EncodeBlock = (block: Float32Array, out: Uint8Array, at: number) => void;

function encodeBlocks(values: Float32Array, bytes: number, encodeOne: EncodeBlock): Uint8Array {
  const blocks = values.length / BLOCK;
  const out = new Uint8Array(blocks * bytes);
  for (let i = 0; i < blocks; i++) {
    encodeOne(values.subarray(i * BLOCK, (i + 1) * BLOCK), out, i * bytes);
  }
  return out;
}

/** The value of largest magnitude, with its sign. */
function extreme(block: Float32Array): number {
  let most = 0;
  for (const value of block) if (Math.abs(value) > Math.abs(most)) most = value;
  return most;
}

function writeScale(out: Uint8Array, at: number, scale: number): number {
  const half = encodeF16(scale);
  out[at] = half & 0xff;
  out[at + 1] = half >> 8;
  return decodeF16(half);
}

const q8Block: EncodeBlock = (block, out, at) => {
  const scale = writeScale(out, at, Math.abs(extreme(block)) / 127);
  for (let i = 0; i < BLOCK; i++) {
    const code = scale === 0 ? 0 : Math.round(block[i]! / scale);
    out[at + 2 + i] = Math.max(-127, Math.min(127, code)) & 0xff;
  }
};

const q4Block: EncodeBlock = (block, out, at) => {
  const scale = writeScale(out, at, extreme(block) / -8);
  const code = (value: number) =>
    scale === 0 ? 8 : Math.max(0, Math.min(15, Math.round(value / scale) + 8));
  for (let i = 0; i < BLOCK / 2; i++) {
    out[at + 2 + i] = code(block[i]!) | (code(block[i + BLOCK / 2]!) << 4);
  }
};

function aligned(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

function padded(bytes: Uint8Array): Uint8Array {
  const out = new Uint8Array(aligned(bytes.length));
  out.set(bytes);
  return out;
}

/** Little-endian bytes, appended one thing after another. */
class Bytes {
  #held = new Uint8Array(1 << 16);
  #length = 0;

  u32(value: number): this {
    return this.#append(4, (view) => view.setUint32(0, value, true));
  }

  u64(value: number): this {
    return this.#append(8, (view) => view.setBigUint64(0, BigInt(value), true));
  }

  text(value: string): this {
    const bytes = new TextEncoder().encode(value);
    return this.#append(bytes.length, (view) => {
      new Uint8Array(view.buffer, view.byteOffset, bytes.length).set(bytes);
    });
  }

  /** With its length in front. */
  string(value: string): this {
    return this.u64(new TextEncoder().encode(value).length).text(value);
  }

  value(given: GgufValue): this {
    switch (given.type) {
      case "u32":
        return this.u32(U32).u32(given.value);
      case "f32":
        this.u32(F32);
        return this.#append(4, (view) => view.setFloat32(0, given.value, true));
      case "bool":
        this.u32(BOOL);
        return this.#append(1, (view) => view.setUint8(0, given.value ? 1 : 0));
      case "string":
        return this.u32(STRING).string(given.value);
      case "strings":
        this.u32(ARRAY).u32(STRING).u64(given.value.length);
        for (const one of given.value) this.string(one);
        return this;
      case "i32s":
        this.u32(ARRAY).u32(I32).u64(given.value.length);
        for (const one of given.value) this.u32(one);
        return this;
      default:
        return given satisfies never;
    }
  }

  take(): Uint8Array {
    return this.#held.subarray(0, this.#length);
  }

  #append(length: number, write: (view: DataView) => void): this {
    if (this.#length + length > this.#held.length) {
      const grown = new Uint8Array(Math.max(2 * this.#held.length, this.#length + length));
      grown.set(this.#held);
      this.#held = grown;
    }
    write(new DataView(this.#held.buffer, this.#length, length));
    this.#length += length;
    return this;
  }
}
