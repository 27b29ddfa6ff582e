/**
 * The blocks of prefixes that a storage holds: which there are, and which it deletes to make room
 * for new ones.
 *
 * What is stored is a copy of what can be computed, so nothing here fails: a block that cannot be
 * read, or is not what it should be, is one that is not there. Who looks after the machine is told
 * of a storage that does not work, once until it works again.
 *
 * @module
 */
import { blockHead, blocksOf, type Contents, openBlock, type PrefixBlock } from "./prefix_block.ts";
import type { PrefixStorage } from "./prefix_storage.ts";

export interface PrefixStoreOptions {
  readonly storage: PrefixStorage;
  /** Bytes of blocks at most. Default: what the storage says, else 1 GiB. */
  readonly maxBytes?: number | undefined;
  /** Tokens of a block. */
  readonly blockTokens: number;
  /** Bytes that a block's pages may have, one of these. */
  readonly packedSizes: readonly number[];
  /** The key before the first block of a partition. */
  readonly rootOf: (partition: string | undefined) => Promise<Uint8Array<ArrayBuffer>>;
  /** Told what went wrong. */
  readonly onProblem?: ((problem: string) => void) | undefined;
}

export interface PrefixPlace {
  readonly partition: string | undefined;
  /** Tokens at most. Default all. */
  readonly limit?: number | undefined;
  /** What stands in place of tokens. Default nothing. */
  readonly contents?: Contents | undefined;
}

const DEFAULT_MAX_BYTES = 2 ** 30;
/** Milliseconds that nothing is written after a failure: a full disk stays full for a while. */
const PAUSE = 60_000;

/** Milliseconds in which a prefix that is used again is not marked again. */
const FRESH = 60_000;

interface IndexEntry {
  readonly byteLength: number;
  usedAt: number;
}

export class PrefixStore {
  readonly #options: PrefixStoreOptions;
  #index = new Map<string, IndexEntry>();
  #maxBytes = DEFAULT_MAX_BYTES;
  #bytes = 0;
  /** Whether the store has reported a failure since the storage has last worked. */
  #isReported = false;
  #pausedUntil = 0;

  private constructor(options: PrefixStoreOptions) {
    this.#options = options;
  }

  /** Looks what is there; a storage that cannot tell holds nothing. */
  static async open(options: PrefixStoreOptions): Promise<PrefixStore> {
    const store = new PrefixStore(options);
    const { storage, maxBytes } = options;
    const capacity = maxBytes ?? (await store.#try("ask for room for", () => storage.capacity?.()));
    store.#maxBytes = capacity ?? DEFAULT_MAX_BYTES;
    await store.refresh();
    return store;
  }

  /** Blocks of all models, and their bytes, as far as is known. */
  get blockCount(): number {
    return this.#index.size;
  }

  get byteLength(): number {
    return this.#bytes;
  }

  get blockTokens(): number {
    return this.#options.blockTokens;
  }

  /** Whether a write would be of any use now. */
  get mayWrite(): boolean {
    return performance.now() >= this.#pausedUntil;
  }

  /** Looks again: other processes may have added or deleted blocks. */
  async refresh(): Promise<void> {
    const blobs = await this.#try("list", () => this.#options.storage.list());
    if (blobs === undefined) return;
    this.#index = new Map(blobs.map(({ name, ...entry }) => [name, entry]));
    this.#bytes = blobs.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** The leading blocks of a prefix that are stored. */
  async find(tokens: readonly number[], place: PrefixPlace): Promise<readonly PrefixBlock[]> {
    const found: PrefixBlock[] = [];
    if (this.#index.size === 0) return found;
    for await (const block of this.#blocks(tokens, place)) {
      if (!this.#index.has(block.name)) break;
      found.push(block);
    }
    return found;
  }

  /** All blocks of a prefix, stored or not. */
  async blocks(tokens: readonly number[], place: PrefixPlace): Promise<readonly PrefixBlock[]> {
    const blocks: PrefixBlock[] = [];
    for await (const block of this.#blocks(tokens, place)) blocks.push(block);
    return blocks;
  }

  has({ name }: PrefixBlock): boolean {
    return this.#index.has(name);
  }

  async *#blocks(
    tokens: readonly number[],
    { partition, limit, contents }: PrefixPlace,
  ): AsyncGenerator<PrefixBlock, void> {
    const { rootOf, blockTokens } = this.#options;
    const root = await rootOf(partition);
    yield* blocksOf(tokens.slice(0, limit), { root, blockTokens, contents });
  }

  /** @returns The block's pages; `undefined`, and it is forgotten, when they are not to be had. */
  async read(block: PrefixBlock): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const { storage, packedSizes } = this.#options;
    const bytes = await this.#try("read", () => storage.read(block.name));
    if (bytes !== undefined) {
      try {
        return openBlock(bytes, block, packedSizes);
      } catch (error) {
        await this.discard(block, error);
        return undefined;
      }
    }
    this.#forget(block.name);
    return undefined;
  }

  /** Deletes a block that turned out to be damaged. */
  async discard({ name }: PrefixBlock, reason: unknown): Promise<void> {
    this.#report(reason);
    await this.#delete([name]);
  }

  /**
   * Keeps a block's pages; makes room with those that were not used for longest, also where a storage
   * has less of it than it says.
   *
   * @param kept Blocks that must not make room: what this one belongs to.
   * @returns Whether it is stored now.
   */
  async write(
    block: PrefixBlock,
    pages: Uint8Array<ArrayBuffer>,
    kept: readonly PrefixBlock[],
  ): Promise<boolean> {
    const head = blockHead(block);
    const byteLength = head.length + pages.length;
    if (!this.mayWrite || !(await this.#makeRoom(byteLength, kept))) return false;
    const { storage } = this.#options;
    const put = () => storage.write(block.name, [head, pages]);
    const isWritten = await this.#try("write", async () => {
      try {
        await put();
      } catch (error) {
        // There is room for what is there, whatever the storage has said of its capacity.
        const isFull = storage.isFull?.(error) ?? false;
        if (!isFull || !(await this.#makeRoom(byteLength, kept, this.#bytes))) throw error;
        await put();
      }
      return true;
    });
    if (isWritten === undefined) {
      this.#pausedUntil = performance.now() + PAUSE;
      return false;
    }
    this.#forget(block.name);
    this.#index.set(block.name, { byteLength, usedAt: Date.now() });
    this.#bytes += byteLength;
    this.#isReported = false;
    return true;
  }

  /**
   * Takes note that a prefix is used. Its end goes before its beginning, which other prefixes may
   * share.
   */
  async markUsed(blocks: readonly PrefixBlock[]): Promise<void> {
    const now = Date.now();
    const names = blocks.filter((block) => this.has(block)).map(({ name }) => name);
    const entries = names.map((name) => this.#index.get(name)!);
    const isInOrder = entries.every(
      ({ usedAt }, i) => usedAt < (entries[i - 1]?.usedAt ?? now + 1),
    );
    const isFresh = entries.every(({ usedAt }) => usedAt > now - FRESH);
    if (isInOrder && isFresh) return;
    entries.forEach((entry, i) => {
      entry.usedAt = now - i;
    });
    await this.#try("mark", () => this.#options.storage.markUsed(names));
  }

  /** Deletes every block, those of other models too. */
  async clear(): Promise<void> {
    await this.refresh();
    await this.#delete([...this.#index.keys()]);
  }

  async #makeRoom(
    byteLength: number,
    kept: readonly PrefixBlock[],
    most = this.#maxBytes,
  ): Promise<boolean> {
    let excess = this.#bytes + byteLength - most;
    if (excess <= 0) return true;
    const isKept = new Set(kept.map(({ name }) => name));
    const oldest = [...this.#index]
      .filter(([name]) => !isKept.has(name))
      .sort(([, a], [, b]) => a.usedAt - b.usedAt);
    const names: string[] = [];
    for (const [name, entry] of oldest) {
      if (excess <= 0) break;
      names.push(name);
      excess -= entry.byteLength;
    }
    if (excess > 0) return false;
    await this.#delete(names);
    return true;
  }

  async #delete(names: readonly string[]): Promise<void> {
    for (const name of names) this.#forget(name);
    await this.#try("delete", () => this.#options.storage.delete(names));
  }

  #forget(name: string): void {
    this.#bytes -= this.#index.get(name)?.byteLength ?? 0;
    this.#index.delete(name);
  }

  async #try<T>(what: string, work: () => T | Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      this.#report(`Cannot ${what} stored prefixes: ${(error as Error).message}`);
      return undefined;
    }
  }

  #report(problem: unknown): void {
    if (this.#isReported) return;
    this.#isReported = true;
    this.#options.onProblem?.(problem instanceof Error ? problem.message : String(problem));
  }
}
