/**
 * Checkpoints of any size that lie nowhere: the bytes are made while they are read, or written to
 * a folder.
 *
 * @module
 */
import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { CheckpointError } from "../../../src/errors.ts";
import { jsonFile } from "../checkpoints/write_checkpoint.ts";
import { byteTokenizer } from "./byte_tokenizer.ts";
import { type Fill, fillOf, type Values } from "./random_words.ts";

export interface SyntheticTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Values;
}

/** What a recipe makes: a config as published, and the tensors that belong to it. */
export interface SyntheticModel {
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: readonly SyntheticTensor[];
}

const WEIGHTS = "model.safetensors";
const DTYPES = { normal: "BF16", fp8: "F8_E4M3", nibbles: "U8", exponents: "U8" } as const;
const WRITE_BYTES = 16 * 2 ** 20;

/** `model` as config.json, tokenizer.json and one file of weights; `seed` decides the weights. */
export function syntheticSource(model: SyntheticModel, seed: number): WeightSource {
  const { header, parts, size } = layOut(model.tensors, seed);
  const files: Readonly<Record<string, Uint8Array>> = {
    "config.json": jsonFile(model.config),
    "tokenizer.json": jsonFile(byteTokenizer()),
  };
  const sizeOf = (file: string) => (file === WEIGHTS ? size : files[file]?.length);
  return {
    name: "synthetic",
    async list() {
      return [...Object.keys(files), WEIGHTS].map((name) => ({ name, size: sizeOf(name)! }));
    },
    async read(file, offset, length) {
      const held = sizeOf(file);
      if (held === undefined) throw new CheckpointError(file, "there is no such file");
      if (offset + length > held) {
        const wanted = `bytes ${offset} to ${offset + length} are wanted`;
        throw new CheckpointError(file, `it ends at byte ${held}, ${wanted}`);
      }
      if (file !== WEIGHTS) return new Uint8Array(files[file]!.subarray(offset, offset + length));
      const bytes = new Uint8Array(length);
      bytes.set(header.subarray(offset, offset + length));
      const next = parts.findIndex(({ end }) => end > offset);
      for (let i = next; i >= 0 && i < parts.length; i++) {
        const { begin, end, fill } = parts[i]!;
        if (begin >= offset + length) break;
        const from = Math.max(begin, offset);
        const target = bytes.subarray(from - offset, Math.min(end, offset + length) - offset);
        fill(target, from - begin);
      }
      return bytes;
    },
  };
}

/** Writes every file of `source` into `folder`, a piece at a time. */
export async function writeFolder(source: WeightSource, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const { name, size } of await source.list()) {
    const handle = await open(join(folder, name), "w");
    try {
      for (let at = 0; at < size; at += WRITE_BYTES) {
        await handle.write(await source.read(name, at, Math.min(WRITE_BYTES, size - at)));
      }
    } finally {
      await handle.close();
    }
  }
}

interface Part {
  /** Bytes from the start of the file. */
  readonly begin: number;
  readonly end: number;
  readonly fill: Fill;
}

interface Layout {
  /** The header's length and the header. */
  readonly header: Uint8Array;
  readonly parts: readonly Part[];
  /** Bytes of the file. */
  readonly size: number;
}

function layOut(tensors: readonly SyntheticTensor[], seed: number): Layout {
  const entries: Record<string, unknown> = { __metadata__: { format: "pt" } };
  const places: { begin: number; end: number }[] = [];
  let at = 0;
  for (const { name, shape, values } of tensors) {
    const dtype = DTYPES[values.kind];
    const end = at + shape.reduce((product, size) => product * size, dtype === "BF16" ? 2 : 1);
    entries[name] = { dtype, shape, data_offsets: [at, end] };
    places.push({ begin: at, end });
    at = end;
  }
  const text = JSON.stringify(entries);
  const json = new TextEncoder().encode(text.padEnd(Math.ceil(text.length / 8) * 8));
  const header = new Uint8Array(8 + json.length);
  new DataView(header.buffer).setBigUint64(0, BigInt(json.length), true);
  header.set(json, 8);
  const parts = places.map(({ begin, end }, i) => {
    const { name, values } = tensors[i]!;
    const fill = fillOf(seed, name, values);
    return { begin: begin + header.length, end: end + header.length, fill };
  });
  return { header, parts, size: header.length + at };
}
