/**
 * Pages of a prompt as a cache with another page size has them. A page is its tokens' entries, one behind
 * the other, so pages are cut and joined at tokens, and no entry changes.
 *
 * @module
 */
import { TransferError } from "../errors.ts";
import { entryBytes } from "./kv_cache.ts";
import {
  allocatePacked,
  openPacked,
  type PageHeader,
  type PageLayout,
  seal,
} from "./page_header.ts";

export interface PageSizesOptions {
  /** Of the pages that come. */
  readonly given: PageLayout;
  /** Tokens of a page that is made. */
  readonly pageSize: number;
  /** Of the prompt whose pages they are: behind them pages hold nothing. */
  readonly tokens: number;
  /** The first page that is wanted. */
  readonly first: number;
}

/** Neighbouring pages, as the page codec packs them. */
interface Pages {
  readonly first: number;
  readonly count: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Entries of tokens `[start, end)`, layer by layer. */
interface Entries {
  readonly start: number;
  readonly end: number;
  readonly payload: Uint8Array<ArrayBuffer>;
}

const NONE: Entries = { start: 0, end: 0, payload: new Uint8Array(0) };

export class PageSizes {
  readonly #options: PageSizesOptions;
  readonly #entry: number;
  /** The first page that is needed of those that come. */
  readonly first: number;
  /** The next one that comes, and the next one that is made. */
  #given: number;
  #made: number;
  /** What has come of the next page that is made. */
  #rest = NONE;
  #layers: Pick<PageHeader, "firstLayer" | "layerCount"> | undefined;

  constructor(options: PageSizesOptions) {
    const { given, pageSize, tokens, first } = options;
    this.#options = options;
    this.#entry = entryBytes(given);
    const isAll = first * pageSize >= tokens;
    this.first = isAll
      ? Math.ceil(tokens / given.pageSize)
      : Math.floor((first * pageSize) / given.pageSize);
    this.#given = this.first;
    this.#made = first;
  }

  /**
   * Takes the next pages that come.
   *
   * @returns The pages that they complete, if any. Behind the prompt's tokens they are zero.
   * @throws {TransferError} naming what is wrong with them.
   */
  take({ first, count, bytes }: Pages): Pages | undefined {
    const { given, pageSize, tokens } = this.#options;
    const { header, payload } = openPacked(bytes, given);
    if (first !== this.#given || count !== header.pageCount) {
      refuse("order", `they are ${count} from page ${first} on, and page ${this.#given} is next`);
    }
    const { firstLayer, layerCount } = this.#layers ?? header;
    if (header.firstLayer !== firstLayer || header.layerCount !== layerCount) {
      refuse("layerCount", `others had ${layerCount} layers from ${firstLayer} on`);
    }
    this.#layers = header;
    this.#given += count;
    const start = first * given.pageSize;
    const come = { start, end: start + count * given.pageSize, payload };
    const end = Math.min(come.end, tokens);
    const isLast = end === tokens;
    const madeEnd = isLast ? Math.ceil(tokens / pageSize) : Math.floor(end / pageSize);
    const made = madeEnd - this.#made;
    const next = Math.max(this.#made, madeEnd) * pageSize;
    const pages = made > 0 ? this.#make(made, { header, end }, [this.#rest, come]) : undefined;
    this.#rest = isLast ? NONE : this.#keep({ start: next, end }, [this.#rest, come]);
    this.#made += Math.max(made, 0);
    return pages;
  }

  #make(
    count: number,
    { header, end }: { readonly header: PageHeader; readonly end: number },
    sources: readonly Entries[],
  ): Pages {
    const { pageSize } = this.#options;
    const first = this.#made;
    const packed = allocatePacked({ ...header, pageSize, pageCount: count });
    const start = first * pageSize;
    const into = { start, end: start + count * pageSize, payload: packed.payload };
    for (const source of sources) this.#copy(source, into, end);
    seal(packed.bytes);
    return { first, count, bytes: packed.bytes };
  }

  #keep({ start, end }: Omit<Entries, "payload">, sources: readonly Entries[]): Entries {
    if (start >= end) return NONE;
    const { layerCount } = this.#layers!;
    const rest = { start, end, payload: new Uint8Array(layerCount * (end - start) * this.#entry) };
    for (const source of sources) this.#copy(source, rest, end);
    return rest;
  }

  /** Copies entries of tokens before `end` that both have. */
  #copy(from: Entries, to: Entries, end: number): void {
    const first = Math.max(from.start, to.start);
    const bytes = (Math.min(from.end, to.end, end) - first) * this.#entry;
    if (bytes <= 0) return;
    const { layerCount } = this.#layers!;
    for (let layer = 0; layer < layerCount; layer++) {
      const at = this.#at(from, layer, first);
      to.payload.set(from.payload.subarray(at, at + bytes), this.#at(to, layer, first));
    }
  }

  #at({ start, end }: Entries, layer: number, token: number): number {
    return (layer * (end - start) + token - start) * this.#entry;
  }
}

function refuse(field: string, problem: string): never {
  throw new TransferError("cache pages", field, problem);
}
