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
import type { PageCarrier } from "../schedule/retraction_memory.ts";
import type { LedGroup } from "./led_group.ts";
import { firstsExchange, othersExchange, type PagesTask } from "./rank_orders.ts";

/** How the first rank has all ranks do something with pages, between two steps. */
export interface PagesLeader {
  readonly communicator: Communicator;
  /** @param own This rank's part of it. */
  lead<T>(task: PagesTask, own: () => Promise<T>, exchanges?: ByteExchanges<T>): Promise<T>;
}

/** Exchanges of bytes before this rank's part, and behind that of all. */
export interface ByteExchanges<T> {
  readonly before?: () => Promise<void>;
  readonly behind?: (own: T) => Promise<T>;
}

type Bytes = Uint8Array<ArrayBuffer>;

/** The pages of all ranks, which this one brings together, as `RankPages` does of those in its process. */
export class LedPages implements Pick<PageCodec, keyof RankPages> {
  readonly #own: PageCodec;
  readonly #leader: PagesLeader;

  constructor(own: PageCodec, leader: PagesLeader) {
    this.#own = own;
    this.#leader = leader;
  }

  get layout(): SharedLayout {
    return this.#own.layout;
  }

  get #size(): number {
    return this.#leader.communicator.size;
  }

  packedBytes(pageCount: number, range?: LayerRange): number {
    return this.#size * this.#own.packedBytes(pageCount, range);
  }

  packedSizes(pageCount: number): readonly number[] {
    return this.#own.packedSizes(pageCount).map((size) => size * this.#size);
  }

  /** As `PageCodec.readPages`: the bytes of all ranks, one behind the other. */
  readPages(pages: readonly number[], range?: LayerRange): Promise<Bytes> {
    const { communicator } = this.#leader;
    const own = () => this.#own.readPages(pages, range);
    return this.#leader.lead({ type: "read", pages, range }, own, {
      behind: async (bytes) => {
        const all = new Uint8Array(bytes.length * this.#size);
        all.set(bytes);
        const others = all.subarray(bytes.length);
        const exchange = othersExchange(communicator, bytes.length);
        await communicator.allGather(bytes.subarray(0, 0), others, exchange);
        return all;
      },
    });
  }

  /** As `PageCodec.writePages`; a rank may have written its pages where another one's are refused. */
  async writePages(
    bytes: Bytes,
    pages: readonly number[],
    { skip = 0 }: WritePagesOptions = {},
  ): Promise<void> {
    const { communicator } = this.#leader;
    if (bytes.length % this.#size !== 0) {
      const problem = `${bytes.length} bytes are not those of ${this.#size} ranks`;
      throw new TransferError("cache pages", "length", problem);
    }
    const length = bytes.length / this.#size;
    const others = bytes.subarray(length);
    const task = { type: "write", pages, skip, length } as const;
    const own = () => this.#own.writePages(bytes.subarray(0, length), pages, { skip });
    await this.#leader.lead(task, own, {
      before: () => {
        const exchange = firstsExchange(communicator, others.length);
        return communicator.allGather(others, new Uint8Array(others.length), exchange);
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
  const { size } = leader.communicator;
  return {
    packedBytes: (pageCount) => size * own.packedBytes(pageCount),
    async readPages(pages) {
      const id = group.nextKept();
      try {
        const bytes = await leader.lead({ type: "save", id, pages }, () => own.readPages(pages));
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
      await leader.lead(task, () => own.writePages(bytes, pages, { skip }));
    },
    release: (bytes) => group.release(group.keptAs(bytes)),
  };
}
