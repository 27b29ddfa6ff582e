/**
 * Pages of several ranks as one rank would have them, and back: what travels between engines whose
 * models are shared out over different numbers of ranks.
 *
 * An entry has parts, such as keys and values, each with a vector of every head. A rank has vectors of
 * some heads in a row; where there are fewer heads than ranks, ranks in a row have the same one. A
 * latent is one vector, which all ranks have.
 *
 * @module
 */
import { entryBytes } from "./kv_cache.ts";
import {
  allocatePacked,
  openPacked,
  type PackedPages,
  type PageLayout,
  seal,
  splitPacked,
} from "./page_header.ts";

/** How ranks share the entries of a cache. */
export interface EntryShares {
  readonly ranks: number;
  /** Of all ranks together: a divisor or a multiple of their number. */
  readonly heads: number;
  /** Of an entry: each has a vector of every head. */
  readonly parts: number;
}

/** Of the first rank, and how others have their parts. */
export interface SharedLayout extends PageLayout {
  /** Absent: there is one rank. */
  readonly shares?: EntryShares | undefined;
}

const UNSHARED: EntryShares = { ranks: 1, heads: 1, parts: 1 };

type Bytes = Uint8Array<ArrayBuffer>;

export class PageForm {
  /** Of one rank that has all. */
  readonly whole: PageLayout;
  readonly shares: EntryShares;
  readonly #layout: PageLayout;
  /** Heads of a rank. */
  readonly #own: number;

  constructor({ shares = UNSHARED, ...layout }: SharedLayout) {
    this.#layout = layout;
    this.shares = shares;
    this.#own = Math.max(shares.heads / shares.ranks, 1);
    const entryWidth = (layout.entryWidth / this.#own) * shares.heads;
    this.whole = { ...layout, entryWidth, numerics: numericsOf(layout, undefined) };
  }

  /** Whether no two ranks have the same. */
  get isDivided(): boolean {
    return this.shares.heads >= this.shares.ranks;
  }

  /** @param bytes Pages of all ranks, one behind the other, as `RankPages` reads them. */
  join(bytes: Bytes): Bytes {
    const { ranks } = this.shares;
    if (ranks === 1) return bytes;
    const parts = Array.from({ length: ranks }, (_, rank) =>
      splitPacked(partOf(bytes, rank, ranks)),
    );
    const { bytes: joined, payload } = allocatePacked({ ...parts[0]!.header, ...this.whole });
    for (const [rank, part] of parts.entries()) {
      if (!this.#isFirst(rank)) continue;
      this.#eachRun(rank, part, (own, whole, length) => {
        payload.set(part.payload.subarray(own, own + length), whole);
      });
    }
    seal(joined);
    return joined;
  }

  /**
   * @param bytes Pages as one rank has them.
   * @returns Pages of all ranks, one behind the other, as `RankPages` writes them.
   * @throws {TransferError} naming what is wrong with them.
   */
  cut(bytes: Bytes): Bytes {
    const { ranks } = this.shares;
    if (ranks === 1) return bytes;
    const { header, payload } = openPacked(bytes, this.whole);
    const parts = Array.from({ length: ranks }, (_, rank) => {
      const numerics = numericsOf(this.#layout, rank);
      const part = allocatePacked({ ...header, ...this.#layout, numerics });
      this.#eachRun(rank, { header, payload: part.payload }, (own, whole, length) => {
        part.payload.set(payload.subarray(whole, whole + length), own);
      });
      seal(part.bytes);
      return part.bytes;
    });
    const all = new Uint8Array(ranks * parts[0]!.length);
    for (const [rank, part] of parts.entries()) all.set(part, rank * part.length);
    return all;
  }

  /** Whether it is the first of those that have its heads. */
  #isFirst(rank: number): boolean {
    const { ranks, heads } = this.shares;
    return heads >= ranks || rank % (ranks / heads) === 0;
  }

  /** Bytes of a rank that stand together in the entries of all heads too. */
  #eachRun(
    rank: number,
    { header, payload }: PackedPages,
    move: (own: number, whole: number, length: number) => void,
  ): void {
    const { ranks, heads, parts } = this.shares;
    if (heads === this.#own) {
      move(0, 0, payload.length);
      return;
    }
    const size = entryBytes(this.#layout);
    const vector = size / (parts * this.#own);
    const first = Math.floor((rank * heads) / ranks);
    const length = this.#own * vector;
    const entries = header.layerCount * header.pageCount * header.pageSize;
    for (let entry = 0; entry < entries; entry++) {
      for (let part = 0; part < parts; part++) {
        const whole = ((entry * parts + part) * heads + first) * vector;
        move(entry * size + part * length, whole, length);
      }
    }
  }
}

function partOf(bytes: Bytes, rank: number, ranks: number): Bytes {
  const length = bytes.length / ranks;
  return bytes.subarray(rank * length, (rank + 1) * length);
}

/** What says in `numerics` which of how many ranks has the pages: all ranks' have as many bytes. */
export function rankFields({ rank, ranks }: { readonly rank: number; readonly ranks: number }) {
  return { rank: `${rank}`.padStart(2), ranks };
}

/** @param rank Undefined: of one that has all. */
function numericsOf({ numerics }: PageLayout, rank: number | undefined): string {
  const {
    rank: _,
    ranks,
    ...others
  } = JSON.parse(numerics) as Partial<ReturnType<typeof rankFields>>;
  const isOfOne = rank === undefined || ranks === undefined;
  return JSON.stringify(isOfOne ? others : { ...others, ...rankFields({ rank, ranks }) });
}
