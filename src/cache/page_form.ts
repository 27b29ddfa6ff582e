/**
 * Pages of several ranks as one rank would have them, and back: what travels between engines whose
 * models are shared out over different numbers of ranks.
 *
 * An entry has parts, such as keys and values, each with a vector of every head. A rank has vectors of
 * some heads in a row; where there are fewer heads than ranks, ranks in a row have the same one. A
 * latent is one vector, which all ranks have. Of ranks that have the same the first one's are read, and
 * written to all of them.
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

export const UNSHARED: EntryShares = { ranks: 1, heads: 1, parts: 1 };

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
    const owners = ownersOf(this.shares);
    if (owners.length === 1) return bytes;
    const parts = owners.map((_, i) => splitPacked(partOf(bytes, i, owners.length)));
    const { bytes: joined, payload } = allocatePacked({ ...parts[0]!.header, ...this.whole });
    for (const [i, part] of parts.entries()) {
      this.#eachRun(owners[i]!, part, (own, whole, length) => {
        payload.set(part.payload.subarray(own, own + length), whole);
      });
    }
    seal(joined);
    return joined;
  }

  /**
   * @param bytes Pages as one rank has them.
   * @returns Pages of all ranks, one behind the other, as `RankPages` writes them.
   * @throws {TransferError} naming what is wrong with them, where they are cut.
   */
  cut(bytes: Bytes): Bytes {
    const owners = ownersOf(this.shares);
    if (owners.length === 1) return bytes;
    const { header, payload } = openPacked(bytes, this.whole);
    const parts = owners.map((rank) => {
      const numerics = numericsOf(this.#layout, rank);
      const part = allocatePacked({ ...header, ...this.#layout, numerics });
      this.#eachRun(rank, { header }, (own, whole, length) => {
        part.payload.set(payload.subarray(whole, whole + length), own);
      });
      seal(part.bytes);
      return part.bytes;
    });
    const all = new Uint8Array(parts.length * parts[0]!.length);
    for (const [i, part] of parts.entries()) all.set(part, i * part.length);
    return all;
  }

  /** Bytes of a rank that stand together in the entries of all heads too. */
  #eachRun(
    rank: number,
    { header }: Pick<PackedPages, "header">,
    move: (own: number, whole: number, length: number) => void,
  ): void {
    const { ranks, heads, parts } = this.shares;
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

function partOf(bytes: Bytes, part: number, parts: number): Bytes {
  const length = bytes.length / parts;
  return bytes.subarray(part * length, (part + 1) * length);
}

/** The first rank of those that have the same heads, for each of these. */
export function ownersOf({ ranks, heads }: EntryShares): readonly number[] {
  const count = Math.min(ranks, heads);
  return Array.from({ length: count }, (_, part) => part * (ranks / count));
}

/** Which of the parts a rank has that `ownersOf` names the ranks of. */
export function partOfRank({ ranks, heads }: EntryShares, rank: number): number {
  return heads >= ranks ? rank : Math.floor((rank * heads) / ranks);
}

/**
 * What says in `numerics` which of how many ranks has the pages, by the first of those that have the
 * same: all ranks' have as many bytes. Nothing where one rank would have the same too.
 */
export function rankFields(shares: EntryShares, rank: number): Partial<RankFields> {
  const owners = ownersOf(shares);
  return owners.length === 1 ? {} : fieldsOf(owners[partOfRank(shares, rank)]!, shares.ranks);
}

interface RankFields {
  readonly rank: string;
  readonly ranks: number;
}

const fieldsOf = (rank: number, ranks: number): RankFields => ({
  rank: `${rank}`.padStart(2),
  ranks,
});

/** @param rank Undefined: of one that has all. */
function numericsOf({ numerics }: PageLayout, rank: number | undefined): string {
  const { rank: _, ranks, ...others } = JSON.parse(numerics) as Partial<RankFields>;
  const isOfOne = rank === undefined || ranks === undefined;
  return JSON.stringify(isOfOne ? others : { ...others, ...fieldsOf(rank, ranks) });
}
