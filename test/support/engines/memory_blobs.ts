/**
 * A prefix storage in memory, which several stores may share, with faults to order.
 *
 * @module
 */
import type { PrefixStorage, StoredBlob } from "../../../src/cache/prefix_storage.ts";

type Method = Exclude<keyof PrefixStorage, "isFull">;

interface Blob {
  bytes: Uint8Array<ArrayBuffer>;
  usedAt: number;
}

export class MemoryBlobs implements PrefixStorage {
  readonly blobs = new Map<string, Blob>();
  /** Calls so far, by method. */
  readonly calls: Record<Method, number> = {
    ...{ list: 0, read: 0, write: 0 },
    ...{ delete: 0, markUsed: 0, capacity: 0 },
  };
  /** What a method fails with. */
  readonly faults: Partial<Record<Method, Error>> = {};
  /** Bytes that there is room for, whatever `capacity` says. */
  room = Number.POSITIVE_INFINITY;
  /** What every call waits for first. */
  delay: () => Promise<void> = async () => {};
  capacity?: () => Promise<number>;
  isFull?: (error: unknown) => boolean;

  async list(): Promise<readonly StoredBlob[]> {
    await this.#enter("list");
    return [...this.blobs].map(([name, { bytes, usedAt }]) => {
      return { name, byteLength: bytes.length, usedAt };
    });
  }

  async read(name: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    await this.#enter("read");
    return this.blobs.get(name)?.bytes.slice();
  }

  async write(name: string, parts: readonly Uint8Array<ArrayBuffer>[]): Promise<void> {
    await this.#enter("write");
    const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    const others = [...this.blobs].filter(([other]) => other !== name);
    const used = others.reduce((sum, [, blob]) => sum + blob.bytes.length, 0);
    if (used + bytes.length > this.room) throw new Error("no room");
    this.blobs.set(name, { bytes, usedAt: Date.now() });
  }

  async delete(names: readonly string[]): Promise<void> {
    await this.#enter("delete");
    for (const name of names) this.blobs.delete(name);
  }

  async markUsed(names: readonly string[]): Promise<void> {
    await this.#enter("markUsed");
    names.forEach((name, i) => {
      const blob = this.blobs.get(name);
      if (blob !== undefined) blob.usedAt = Date.now() - i;
    });
  }

  async #enter(method: Method): Promise<void> {
    this.calls[method] += 1;
    await this.delay();
    const fault = this.faults[method];
    if (fault !== undefined) throw fault;
  }
}
