/**
 * Rows of a checkpoint's tensors as f32, BF16 and MXFP4, both exactly.
 *
 * @module
 */
import { readSafetensorsHeader } from "../../src/checkpoint/safetensors.ts";
import type { TensorEntry, WeightSource } from "../../src/checkpoint/source.ts";

const FILE = "model.safetensors";
const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];
const NIBBLES = Float32Array.from([...E2M1, ...E2M1.map((value) => -value)]);
const BLOCK = 32;
const BLOCK_BYTES = 16;
const EXPONENT_BIAS = 127;

export class CheckpointRows {
  readonly #source: WeightSource;
  readonly #tensors: ReadonlyMap<string, TensorEntry>;

  private constructor(source: WeightSource, tensors: ReadonlyMap<string, TensorEntry>) {
    this.#source = source;
    this.#tensors = tensors;
  }

  static async open(source: WeightSource): Promise<CheckpointRows> {
    const file = (await source.list()).find(({ name }) => name === FILE);
    if (file === undefined) throw new Error(`${source.name} has no ${FILE}`);
    return new CheckpointRows(source, await readSafetensorsHeader(source, file));
  }

  has(name: string): boolean {
    return this.#tensors.has(name);
  }

  shape(name: string): readonly number[] {
    return this.#entry(name).shape;
  }

  /** Rows of a BF16 tensor. */
  async rows(name: string, first: number, count: number): Promise<Float32Array> {
    const codes = new Uint16Array((await this.#bytes(name, "BF16", first, count)).buffer);
    const bits = new Uint32Array(codes.length);
    for (let i = 0; i < codes.length; i++) bits[i] = codes[i]! << 16;
    return new Float32Array(bits.buffer);
  }

  /** Rows of `NAME_blocks [.., rows, blocks, 16]`, each element times the scale of its block. */
  async mxfp4Rows(name: string, first: number, count: number): Promise<Float32Array> {
    const blocksPerRow = this.shape(`${name}_scales`).at(-1)!;
    const [from, many] = [first * blocksPerRow, count * blocksPerRow];
    const blocks = await this.#bytes(`${name}_blocks`, "U8", from, many);
    // A row of the scales' tensor has as many bytes as a row of the matrix has blocks.
    const scales = await this.#bytes(`${name}_scales`, "U8", first, count);
    const out = new Float32Array(many * BLOCK);
    for (let i = 0; i < blocks.length; i++) {
      const scale = 2 ** (scales[Math.floor(i / BLOCK_BYTES)]! - EXPONENT_BIAS);
      out[2 * i] = NIBBLES[blocks[i]! & 15]! * scale;
      out[2 * i + 1] = NIBBLES[blocks[i]! >> 4]! * scale;
    }
    return out;
  }

  #entry(name: string): TensorEntry {
    const entry = this.#tensors.get(name);
    if (entry === undefined) throw new Error(`there is no tensor ${name}`);
    return entry;
  }

  async #bytes(name: string, dtype: string, first: number, count: number) {
    const entry = this.#entry(name);
    if (entry.dtype !== dtype) throw new Error(`${name} is ${entry.dtype}, not ${dtype}`);
    const rowBytes = entry.shape.at(-1)! * (dtype === "BF16" ? 2 : 1);
    return this.#source.read(FILE, entry.offset + first * rowBytes, count * rowBytes);
  }
}
