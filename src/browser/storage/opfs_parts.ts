/**
 * A large file in the browser's storage, in parts of one size: NAME.00000, NAME.00001 and so on.
 *
 * Pages write through a copy of what they write to, and lose what is not closed when they are
 * closed. With parts the copy stays small, and what is lost is one part at most.
 *
 * @module
 */

import { type FileWriter, findFile, openWriter, type StorageFolder } from "./opfs_file.ts";

/** Small pieces cost a call of the browser each. */
const WRITE_BYTES = 2 ** 20;

export class PartedFile {
  readonly #folder: StorageFolder;
  readonly #name: string;
  readonly #partBytes: number;

  constructor(folder: StorageFolder, name: string, partBytes: number) {
    this.#folder = folder;
    this.#name = name;
    this.#partBytes = partBytes;
  }

  /** What is here of the file from its start on, without a gap. */
  async parts(): Promise<readonly File[]> {
    const parts: File[] = [];
    for (;;) {
      const part = await findFile(this.#folder, this.#partName(parts.length));
      if (part === undefined || part.size === 0) return parts;
      parts.push(part);
      if (part.size < this.#partBytes) return parts;
    }
  }

  /** Bytes of `parts`. */
  async length(): Promise<number> {
    return (await this.parts()).reduce((total, { size }) => total + size, 0);
  }

  /** Goes on writing at `length`, which has to be what is here. */
  appender(length: number): Appender {
    return new Appender(length, this.#partBytes, async (index, kept) => {
      const options = { create: true };
      return openWriter(await this.#folder.getFileHandle(this.#partName(index), options), kept);
    });
  }

  async remove(): Promise<void> {
    const isPart = (name: string) =>
      name.startsWith(`${this.#name}.`) && /^\d{5,}$/.test(name.slice(this.#name.length + 1));
    const names: string[] = [];
    for await (const name of this.#folder.keys()) if (isPart(name)) names.push(name);
    for (const name of names) await this.#folder.removeEntry(name);
  }

  #partName(index: number): string {
    return `${this.#name}.${String(index).padStart(5, "0")}`;
  }
}

type OpenPart = (index: number, kept: number) => Promise<FileWriter>;

/** Writes bytes in order, in pieces of a good size. Nothing is sure to stay before `close`. */
export class Appender {
  /** Where the next byte of `#pending` goes. */
  #position: number;
  readonly #partBytes: number;
  readonly #openPart: OpenPart;
  readonly #pending = new Uint8Array(WRITE_BYTES);
  #pendingBytes = 0;
  #part: FileWriter | undefined;

  constructor(position: number, partBytes: number, openPart: OpenPart) {
    this.#position = position;
    this.#partBytes = partBytes;
    this.#openPart = openPart;
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let done = 0; done < bytes.length; ) {
      const partRoom = this.#partBytes - (this.#position % this.#partBytes) - this.#pendingBytes;
      const room = Math.min(this.#pending.length - this.#pendingBytes, partRoom);
      const piece = bytes.subarray(done, done + room);
      this.#pending.set(piece, this.#pendingBytes);
      this.#pendingBytes += piece.length;
      done += piece.length;
      if (piece.length === room) await this.#flush();
    }
  }

  /** Also after a failure, so that what was written before stays. */
  async close(): Promise<void> {
    try {
      await this.#flush();
    } finally {
      await this.#closePart();
    }
  }

  async #flush(): Promise<void> {
    const bytes = this.#pending.subarray(0, this.#pendingBytes);
    this.#pendingBytes = 0;
    if (bytes.length === 0) return;
    const at = this.#position % this.#partBytes;
    this.#part ??= await this.#openPart(Math.floor(this.#position / this.#partBytes), at);
    await this.#part.write(bytes, at);
    this.#position += bytes.length;
    if (this.#position % this.#partBytes === 0) await this.#closePart();
  }

  async #closePart(): Promise<void> {
    const part = this.#part;
    this.#part = undefined;
    await part?.close();
  }
}
