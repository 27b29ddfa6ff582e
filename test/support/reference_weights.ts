/**
 * Every tensor of a checkpoint as plain numbers, FP8 blocks multiplied out, for the reference.
 *
 * @module
 */
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import type { TensorEntry } from "../../src/checkpoint/safetensors.ts";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import { decodeBf16, decodeE4m3, decodeF16 } from "../../src/dtype.ts";

/** A tensor of one or two dimensions, row by row. */
export interface ReferenceTensor {
  readonly rows: number;
  readonly columns: number;
  readonly values: Float64Array;
  /** Whether it was FP8: its linear may want rounded inputs. */
  readonly quantized: boolean;
}

export async function referenceWeights(
  source: WeightSource,
): Promise<ReadonlyMap<string, ReferenceTensor>> {
  const { tensors } = await Checkpoint.open(source);
  const all = new Map<string, ReferenceTensor>();
  for (const [name, entry] of tensors) {
    const values = await readValues(source, entry);
    const columns = entry.shape.at(-1)!;
    const quantized = entry.dtype === "F8_E4M3";
    if (quantized) {
      const scales = await readValues(source, tensors.get(`${name}_scale_inv`)!);
      const columnBlocks = Math.ceil(columns / 128);
      values.forEach((value, i) => {
        const row = Math.floor(Math.floor(i / columns) / 128);
        const column = Math.floor((i % columns) / 128);
        values[i] = value * scales[row * columnBlocks + column]!;
      });
    }
    all.set(name, { rows: values.length / columns, columns, values, quantized });
  }
  return all;
}

async function readValues(source: WeightSource, entry: TensorEntry): Promise<Float64Array> {
  const { file, dtype, offset, byteLength, shape } = entry;
  const bytes = await source.read(file, offset, byteLength);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const read = (i: number) => {
    if (dtype === "F32") return view.getFloat32(i * 4, true);
    if (dtype === "BF16") return decodeBf16(view.getUint16(i * 2, true));
    if (dtype === "F16") return decodeF16(view.getUint16(i * 2, true));
    if (dtype === "F8_E4M3") return decodeE4m3(bytes[i]!);
    throw new Error(`${dtype} is not known here`);
  };
  const count = shape.reduce((product, size) => product * size, 1);
  return Float64Array.from({ length: count }, (_, i) => read(i));
}
