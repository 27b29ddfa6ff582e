/**
 * Pages of the cache that all ranks of a group move when the first one says so: into the host memory of
 * each, or to the first one's store of prefixes.
 *
 * @module
 */
import type { LayerRange, PageCodec, WritePagesOptions } from "../../cache/page_codec.ts";
import type { SharedLayout } from "../../cache/page_form.ts";
import type { RankPages } from "../../cache/rank_pages.ts";
import { KernelError, TransferError } from "../../errors.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { RankParts } from "../../parallel/parts.ts";
import type { PageCarrier } from "../schedule/retraction_memory.ts";
import type { LedGroup } from "./led_group.ts";
import { type PagesTask, pageParts, type RanksInARow } from "./rank_orders.ts";

/** How the first rank has all ranks do something with pages, between two steps. */
export interface PagesLeader {
  /** Of all ranks. */
  readonly communicator: Communicator;
  /** Those that have the pages. */
  readonly ranks: RanksInARow;
  /** Whether this rank is one of them. */
  readonly isOne: boolean;
  /** @param own This rank's part of it; what it comes to is nothing where it is none of them. */
  lead<T>(task: PagesTask, own: () => Promise<T>, exchanges?: ByteExchanges<T>): Promise<T>;
  /** @throws {DeviceError} where the model is not there any more. */
  requireHere(): void;
  /** Takes note of an error of this rank, which may be a lost device. @returns What is thrown. */
  told(error: unknown): unknown;
}

/** Exchanges of bytes before this rank's part, and behind that of all. */
export interface ByteExchanges<T> {
  readonly before?: () => Promise<void>;
  readonly behind?: (own: T) => Promise<T>;
}

type Bytes = Uint8Array<ArrayBuffer>;

const NOTHING = new Uint8Array(0);

/** The pages of all ranks, which this one brings together, as `RankPages` does of those in its process. */
export class LedPages implements Pick<PageCodec, keyof RankPages> {
  readonly #own: PageCodec;
  readonly #leader: PagesLeader;
  readonly #parts: RankParts;

  constructor(own: PageCodec, leader: PagesLeader) {
    this.#own = own;
    this.#leader = leader;
    this.#parts = pageParts(leader.communicator, leader.ranks, own.layout);
  }

  get layout(): SharedLayout {
    return this.#own.layout;
  }

  packedBytes(pageCount: number, range?: LayerRange): number {
    return this.#parts.count * this.#own.packedBytes(pageCount, range);
  }

  packedSizes(pageCount: number): readonly number[] {
    return this.#own.packedSizes(pageCount).map((size) => size * this.#parts.count);
  }

  /** As `PageCodec.readPages`: the bytes of all ranks, one behind the other. */
  readPages(pages: readonly number[], range?: LayerRange): Promise<Bytes> {
    const parts = this.#parts;
    const read = () => this.#own.readPages(pages, range);
    if (parts.areFirsts) return this.#alone(read);
    const own = async () => (parts.isOwner ? await read() : NOTHING);
    return this.#leader.lead({ type: "read", pages, range }, own, {
      behind: (bytes) => parts.gather(bytes, this.#own.packedBytes(pages.length, range)),
    });
  }

  /** Of this rank's pages: the others go on meanwhile, and hear nothing of it. */
  async #alone(read: () => Promise<Bytes>): Promise<Bytes> {
    try {
      this.#leader.requireHere();
      return await read();
    } catch (error) {
      throw this.#leader.told(error);
    }
  }

  /** As `PageCodec.writePages`; a rank may have written its pages where another one's are refused. */
  async writePages(
    bytes: Bytes,
    pages: readonly number[],
    { skip = 0 }: WritePagesOptions = {},
  ): Promise<void> {
    const { isOne } = this.#leader;
    const { count } = this.#parts;
    if (bytes.length % count !== 0) {
      const problem = `${bytes.length} bytes are not those of ${count} ranks`;
      throw new TransferError("cache pages", "length", problem);
    }
    const length = bytes.length / count;
    let part = NOTHING;
    const own = async () => {
      if (isOne) await this.#own.writePages(part, pages, { skip });
    };
    await this.#leader.lead({ type: "write", pages, skip, length }, own, {
      before: async () => {
        part = await this.#parts.spread(bytes, length);
      },
    });
  }
}

/**
 * Carries pages to the host memory of every rank and back.
 *
 * @param own Carries this rank's.
 */
export function ledCarrier(own: PageCarrier, leader: PagesLeader, group: LedGroup): PageCarrier {
  const { ranks, isOne } = leader;
  return {
    packedBytes: (pageCount) => ranks.count * own.packedBytes(pageCount),
    async readPages(pages) {
      const id = group.nextKept();
      try {
        // Bytes of its own for each: they are known by them.
        const read = async () => (isOne ? await own.readPages(pages) : new Uint8Array(0));
        const bytes = await leader.lead({ type: "save", id, pages }, read);
        group.keeps(bytes, id);
        return bytes;
      } catch (error) {
        group.release(id);
        throw error;
      }
    },
    async writePages(bytes, pages, { skip }) {
      const id = group.keptAs(bytes);
      if (id === undefined) throw new KernelError("cache pages", "no rank keeps these");
      const task = { type: "restore", id, pages, skip } as const;
      await leader.lead(task, async () => {
        if (isOne) await own.writePages(bytes, pages, { skip });
      });
    },
    release: (bytes) => group.release(group.keptAs(bytes)),
  };
}
