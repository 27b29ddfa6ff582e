/**
 * The token table of a checkpoint, read on the host.
 *
 * @module
 */
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { decodeBf16 } from "../../../src/dtype.ts";

/** @returns The embedding of a token, exactly as its BF16 row has it. */
export async function readTokenTable(
  source: WeightSource,
): Promise<(token: number) => Float32Array> {
  const { tensors } = await Checkpoint.open(source);
  const { file, dtype, offset, byteLength, shape } = tensors.get("model.embed_tokens.weight")!;
  if (dtype !== "BF16") throw new Error(`the token table is ${dtype}`);
  const bytes = await source.read(file, offset, byteLength);
  const table = new Uint16Array(bytes.slice().buffer);
  const width = shape[1]!;
  return (token) =>
    Float32Array.from(table.subarray(token * width, (token + 1) * width), (half) =>
      decodeBf16(half),
    );
}
