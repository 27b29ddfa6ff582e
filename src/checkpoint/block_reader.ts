/**
 * Small reads of large files, served from blocks: for sources where a read costs much and its
 * length little, as over HTTP, where most tensors of a small model are far smaller than a request
 * is worth.
 *
 * @module
 */

/** Exactly `length` bytes of a file from `offset`. */
export type ReadBytes = (
  file: string,
  offset: number,
  length: number,
) => Promise<Uint8Array<ArrayBuffer>>;

/** Little beside what a model with large tensors has, and enough for dozens of small ones. */
const BLOCK_BYTES = 256 * 1024;
/** Blocks that are kept: tensors are read in the order of layers, files have orders of their own. */
const BLOCKS = 32;

export class BlockReader {
  readonly #read: ReadBytes;
  /** By file and number, those used last at the end. */
  readonly #blocks = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();

  constructor(read: ReadBytes) {
    this.#read = read;
  }

  /**
   * Reads `[offset, offset + length)`, which lies in the file: at once where that is a block or more.
   *
   * @param size Of the file.
   */
  async read(
    file: string,
    {
      offset,
      length,
      size,
    }: { readonly offset: number; readonly length: number; readonly size: number },
  ): Promise<Uint8Array<ArrayBuffer>> {
    if (length >= BLOCK_BYTES) return this.#read(file, offset, length);
    const first = Math.floor(offset / BLOCK_BYTES);
    const last = Math.floor((offset + length - 1) / BLOCK_BYTES);
    const blocks = [this.#block(file, first, size)];
    if (last > first) blocks.push(this.#block(file, last, size));
    const bytes = new Uint8Array(length);
    let filled = 0;
    for (const [i, block] of (await Promise.all(blocks)).entries()) {
      const from = i === 0 ? offset - first * BLOCK_BYTES : 0;
      const part = block.subarray(from, from + length - filled);
      bytes.set(part, filled);
      filled += part.length;
    }
    return bytes;
  }

  #block(file: string, number: number, size: number): Promise<Uint8Array<ArrayBuffer>> {
    const key = `${number} ${file}`;
    const offset = number * BLOCK_BYTES;
    const known = this.#blocks.get(key);
    const block = known ?? this.#read(file, offset, Math.min(BLOCK_BYTES, size - offset));
    this.#blocks.delete(key);
    this.#blocks.set(key, block);
    if (known !== undefined) return block;
    // What could not be read is asked for again.
    block.catch(() => {
      if (this.#blocks.get(key) === block) this.#blocks.delete(key);
    });
    if (this.#blocks.size > BLOCKS) this.#blocks.delete(this.#blocks.keys().next().value!);
    return block;
  }
}
