/**
 * Destinations of whole small tensors, and of one tensor that several places want.
 *
 * @module
 */
import type { Destination, WeightChunk, WeightSpec } from "../../checkpoint/weight_spec.ts";
import { decodeBf16, decodeF16 } from "../../dtype.ts";

/** Gathers a whole tensor's bytes and hands them on once it is complete. */
export function collectBytes(take: (bytes: Uint8Array<ArrayBuffer>) => void): Destination {
  let chunks: Uint8Array<ArrayBuffer>[] = [];
  return {
    write(chunk) {
      if (chunk.rowStart === 0) chunks = [];
      chunks.push(chunk.bytes);
    },
    finish() {
      const all = chunks.length === 1 ? aligned(chunks[0]!) : joined(chunks);
      chunks = [];
      take(all);
    },
  };
}

/** Gathers a whole small tensor as float32 and hands it on once it is complete. */
export function collectFloats(take: (values: Float32Array<ArrayBuffer>) => void): Destination {
  let chunks: Float32Array<ArrayBuffer>[] = [];
  return {
    write(chunk) {
      if (chunk.rowStart === 0) chunks = [];
      chunks.push(toFloats(chunk));
    },
    finish() {
      const all = new Float32Array(chunks.reduce((sum, { length }) => sum + length, 0));
      let at = 0;
      for (const chunk of chunks) {
        all.set(chunk, at);
        at += chunk.length;
      }
      chunks = [];
      take(all);
    },
  };
}

/** Bytes that a word array may look at. */
function aligned(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
}

function joined(chunks: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

/** The numbers of a chunk of F32, F16 or BF16. */
export function toFloats({
  dtype,
  bytes,
}: Pick<WeightChunk, "dtype" | "bytes">): Float32Array<ArrayBuffer> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (dtype === "F32") {
    return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(i * 4, true));
  }
  const decode = dtype === "F16" ? decodeF16 : decodeBf16;
  return Float32Array.from({ length: bytes.length / 2 }, (_, i) =>
    decode(view.getUint16(i * 2, true)),
  );
}

/** Gives every chunk to each of several destinations. */
function fanOut(destinations: readonly Destination[]): Destination {
  return {
    async write(chunk) {
      for (const destination of destinations) await destination.write(chunk);
    },
    async finish() {
      for (const destination of destinations) await destination.finish?.();
    },
  };
}

/** One list of specs for several slices of the same tensors. */
export function mergeSpecs(slices: readonly (readonly WeightSpec[])[]): WeightSpec[] {
  return slices[0]!.map((spec, i) => {
    if (slices.length === 1) return spec;
    return { ...spec, destination: fanOut(slices.map((slice) => slice[i]!.destination)) };
  });
}
