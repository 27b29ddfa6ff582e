/**
 * Every tensor of a checkpoint as plain numbers, for the references: codes of any format multiplied
 * out, each matrix under its module's `.weight`. The tensors themselves say which format they are in.
 *
 * @module
 */
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import type { TensorEntry, WeightSource } from "../../../src/checkpoint/source.ts";
import { decodeBf16, decodeE4m3, decodeF16 } from "../../../src/dtype.ts";

/** How a scheme rounds the inputs of a matrix, where it does. */
export interface ReferenceRounding {
  readonly format: "e4m3" | "int8";
  /** Channels that share a scale. */
  readonly group: number;
  /** Scales are rounded up to powers of two. */
  readonly powersOfTwo?: boolean;
}

/** A tensor of any shape as rows of its last dimension. */
export interface ReferenceTensor {
  readonly rows: number;
  readonly columns: number;
  readonly values: Float64Array;
  readonly rounding?: ReferenceRounding;
}

/** What tensors do not say, in config.json's words. */
interface Section {
  readonly quant_method?: string;
  readonly group_size?: number;
  readonly checkpoint_format?: string;
  readonly scale_fmt?: string;
}

const BLOCK = 128;
/** Where AutoAWQ puts the four bits of each of eight neighbours. */
const AWQ_ORDER = [0, 4, 1, 5, 2, 6, 3, 7];
const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];

export async function referenceWeights(
  source: WeightSource,
): Promise<ReadonlyMap<string, ReferenceTensor>> {
  const { tensors } = await Checkpoint.open(source);
  const section = await quantizationSection(source);
  const read = async (name: string) => {
    const entry = tensors.get(name);
    return entry && { name, values: await readValues(source, entry) };
  };
  const all = new Map<string, ReferenceTensor>();
  for (const [name, entry] of tensors) {
    if (/(_scale|_scale_inv|_scales|\.scales|\.qzeros|\.g_idx)$/.test(name)) continue;
    const values = await readValues(source, entry);
    if (name.endsWith(".qweight")) {
      const module = name.slice(0, -".qweight".length);
      const [scales, zeros] = await Promise.all([`${module}.scales`, `${module}.qzeros`].map(read));
      const { shape } = entry;
      const packed = { codes: values, scales: scales!.values, zeros: zeros!.values, shape };
      const unpack = section.quant_method === "gptq" ? gptq : awq;
      all.set(`${module}.weight`, unpack(packed, section));
    } else if (name.endsWith("_blocks")) {
      const module = name.slice(0, -"_blocks".length);
      const exponents = (await read(`${module}_scales`))!.values;
      all.set(module, mxfp4(values, exponents, entry.shape));
    } else {
      const scale = (await read(`${name}_scale_inv`)) ?? (await read(`${name}_scale`));
      const isStatic = tensors.has(name.replace(/weight$/, "input_scale"));
      const { rounding, ...tensor } = scaled(entry, values, scale);
      const powersOfTwo = section.scale_fmt === "ue8m0";
      const rounds = rounding && !isStatic;
      all.set(name, rounds ? { ...tensor, rounding: { ...rounding, powersOfTwo } } : tensor);
    }
  }
  return all;
}

function scaled(
  { dtype, shape }: TensorEntry,
  values: Float64Array,
  scale: { readonly name: string; readonly values: Float64Array } | undefined,
): ReferenceTensor {
  const columns = shape.at(-1)!;
  const rows = values.length / columns;
  if (scale === undefined) return { rows, columns, values };
  const blocks = Math.ceil(columns / BLOCK);
  const byBlock = scale.name.endsWith("_scale_inv");
  values.forEach((value, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const block = Math.floor(row / BLOCK) * blocks + Math.floor(column / BLOCK);
    const at = byBlock ? block : scale.values.length === 1 ? 0 : row;
    values[i] = value * scale.values[at]!;
  });
  const format = dtype === "I8" ? "int8" : "e4m3";
  return { rows, columns, values, rounding: { format, group: byBlock ? BLOCK : columns } };
}

interface Packed {
  readonly codes: Float64Array;
  readonly scales: Float64Array;
  readonly zeros: Float64Array;
  /** Of the words of codes. */
  readonly shape: readonly number[];
}

const nibble = (word: number, i: number) => (word >>> (4 * i)) & 15;

function awq({ codes, scales, zeros, shape }: Packed, { group_size = 128 }: Section) {
  const [columns, words] = shape as [number, number];
  return unpacked(words * 8, columns, (n, k) => {
    const group = Math.floor(k / group_size);
    const code = nibble(codes[k * words + (n >> 3)]!, AWQ_ORDER[n & 7]!);
    const zero = nibble(zeros[group * words + (n >> 3)]!, AWQ_ORDER[n & 7]!);
    return (code - zero) * scales[group * words * 8 + n]!;
  });
}

function gptq({ codes, scales, zeros, shape }: Packed, section: Section) {
  const { group_size = 128, checkpoint_format = "gptq" } = section;
  const [words, rows] = shape as [number, number];
  return unpacked(rows, words * 8, (n, k) => {
    const group = Math.floor(k / group_size);
    const code = nibble(codes[(k >> 3) * rows + n]!, k & 7);
    const zero = nibble(zeros[group * (rows / 8) + (n >> 3)]!, n & 7);
    const added = checkpoint_format === "gptq" ? 1 : 0;
    return (code - zero - added) * scales[group * rows + n]!;
  });
}

function unpacked(
  rows: number,
  columns: number,
  at: (row: number, column: number) => number,
): ReferenceTensor {
  const number = (_: unknown, i: number) => at(Math.floor(i / columns), i % columns);
  return { rows, columns, values: Float64Array.from({ length: rows * columns }, number) };
}

/** `blocks` `[..., groups, 16]` bytes, the even column in the low half. */
function mxfp4(blocks: Float64Array, exponents: Float64Array, shape: readonly number[]) {
  const columns = shape.at(-2)! * 32;
  return unpacked(blocks.length / 16 / shape.at(-2)!, columns, (row, column) => {
    const at = row * columns + column;
    const code = nibble(blocks[at >> 1]!, at & 1);
    const magnitude = E2M1[code & 7]! * 2 ** (exponents[at >> 5]! - 127);
    return code >= 8 ? -magnitude : magnitude;
  });
}

async function quantizationSection(source: WeightSource): Promise<Section> {
  const file = (await source.list()).find(({ name }) => name === "config.json");
  if (file === undefined) return {};
  const text = new TextDecoder().decode(await source.read(file.name, 0, file.size));
  return (JSON.parse(text) as { quantization_config?: Section }).quantization_config ?? {};
}

async function readValues(source: WeightSource, entry: TensorEntry): Promise<Float64Array> {
  const { file, dtype, offset, byteLength, shape } = entry;
  const bytes = await source.read(file, offset, byteLength);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const readers: Readonly<Record<string, (i: number) => number>> = {
    F32: (i) => view.getFloat32(i * 4, true),
    BF16: (i) => decodeBf16(view.getUint16(i * 2, true)),
    F16: (i) => decodeF16(view.getUint16(i * 2, true)),
    F8_E4M3: (i) => decodeE4m3(bytes[i]!),
    I8: (i) => view.getInt8(i),
    U8: (i) => bytes[i]!,
    I32: (i) => view.getInt32(i * 4, true),
    I64: (i) => Number(view.getBigInt64(i * 8, true)),
  };
  const read = readers[dtype];
  if (read === undefined) throw new Error(`${dtype} is not known here`);
  const count = shape.reduce((product, size) => product * size, 1);
  return Float64Array.from({ length: count }, (_, i) => read(i));
}
