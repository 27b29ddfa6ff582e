/**
 * One node of the radix cache: a run of pages, with the tokens that they hold.
 *
 * Tokens and page numbers of a node lie in one typed array of records, each a page number followed
 * by the `pageSize` tokens of that page, so that a run is cut by cutting one array. Nothing is
 * shared between nodes: an array is replaced once less than half of it is in use.
 *
 * @module
 */

/** Mixes tokens into a child's key; the golden ratio times 2^32. */
const MIXER = 0x9e3779b1;
/** Keys stay small integers in every JavaScript engine. */
const KEY_MASK = 0x3fffffff;

/** A place in the tree. For every module but the cache itself a handle without contents. */
export class RadixNode {
  /** `null` for a root. */
  parent: RadixNode | null = null;
  /** Holders of this node and of all nodes below it. */
  locks = 0;
  /** Neighbours in the order of use, as long as the node is not locked. */
  older: RadixNode = this;
  newer: RadixNode = this;
  /** 0 for a root, and for a node whose pages were all evicted. */
  pageCount: number;
  readonly pageSize: number;
  /** Records; those of this node are `[first, first + pageCount)`. */
  #records: Int32Array | Float64Array;
  #first = 0;
  /** By the key of their first page; children of the same key are chained. */
  #children: Map<number, RadixNode> | undefined = undefined;
  #sibling: RadixNode | undefined = undefined;

  constructor(pageSize: number, records: Int32Array | Float64Array) {
    this.pageSize = pageSize;
    this.pageCount = records.length / (pageSize + 1);
    this.#records = records;
  }

  get isLeaf(): boolean {
    return this.#children === undefined;
  }

  /** How many of this node's first pages hold the tokens `[at, limit)`. */
  match(tokens: ArrayLike<number>, at: number, limit: number): number {
    const records = this.#records;
    const { pageSize } = this;
    const pages = Math.min(this.pageCount, Math.floor((limit - at) / pageSize));
    let record = this.#first * (pageSize + 1);
    let position = at;
    for (let page = 0; page < pages; page++) {
      for (let i = 0; i < pageSize; i++) {
        if (records[record + 1 + i] !== tokens[position + i]) return page;
      }
      record += pageSize + 1;
      position += pageSize;
    }
    return pages;
  }

  /** Appends the numbers of the first `count` pages. */
  listPages(count: number, into: number[]): void {
    const stride = this.pageSize + 1;
    const end = (this.#first + count) * stride;
    for (let i = this.#first * stride; i < end; i += stride) into.push(this.#records[i]!);
  }

  /** The number of one page. */
  pageAt(index: number): number {
    return this.#records[(this.#first + index) * (this.pageSize + 1)]!;
  }

  /** The child whose first page holds the tokens from `at` on. */
  child(tokens: ArrayLike<number>, at: number): RadixNode | undefined {
    if (this.#children === undefined) return undefined;
    let child = this.#children.get(pageKey(tokens, at, this.pageSize));
    const limit = at + this.pageSize;
    while (child !== undefined && child.match(tokens, at, limit) === 0) child = child.#sibling;
    return child;
  }

  /** Every child, in no order. */
  *children(): Generator<RadixNode, void> {
    for (const first of this.#children?.values() ?? []) {
      for (let child: RadixNode | undefined = first; child; child = child.#sibling) yield child;
    }
  }

  /** The tokens of this node's pages, at most `limit`. */
  tokens(limit: number): number[] {
    const count = Math.min(limit, this.pageCount * this.pageSize);
    const begin = this.#first * (this.pageSize + 1);
    return Array.from({ length: count }, (_, i) => {
      return this.#records[begin + i + 1 + Math.floor(i / this.pageSize)]!;
    });
  }

  attach(child: RadixNode): void {
    const key = child.#key();
    this.#children ??= new Map();
    child.#sibling = this.#children.get(key);
    this.#children.set(key, child);
    child.parent = this;
  }

  detach(child: RadixNode): void {
    const key = child.#key();
    const children = this.#children!;
    let previous = children.get(key)!;
    if (previous !== child) {
      while (previous.#sibling !== child) previous = previous.#sibling!;
      previous.#sibling = child.#sibling;
    } else if (child.#sibling !== undefined) {
      children.set(key, child.#sibling);
    } else if (children.size > 1) {
      children.delete(key);
    } else {
      this.#children = undefined;
    }
    child.#sibling = undefined;
  }

  /**
   * Moves the first `count` pages into a new node between this one and its parent.
   *
   * This node keeps its identity and its end, so a handle to it goes on to cover what it covered.
   *
   * @throws {RangeError} when there is no memory for that; nothing has changed then.
   */
  split(count: number): RadixNode {
    const { parent } = this;
    const rest = this.pageCount - count;
    // One of the two keeps the array, the one with more of it.
    const keepsEnd = count < rest;
    const copied = keepsEnd ? this.#copy(0, count) : this.#copy(count, rest);
    parent!.detach(this);
    const upper = new RadixNode(this.pageSize, keepsEnd ? copied : this.#records);
    upper.#first = keepsEnd ? 0 : this.#first;
    upper.pageCount = count;
    upper.locks = this.locks;
    this.#first = keepsEnd ? this.#first + count : 0;
    this.pageCount = rest;
    if (!keepsEnd) this.#records = copied;
    (keepsEnd ? this : upper).#shrink();
    parent!.attach(upper);
    upper.attach(this);
    return upper;
  }

  /** Cuts `count` pages off the end and appends their numbers, last page first. */
  trim(count: number, into: number[]): void {
    const stride = this.pageSize + 1;
    const end = (this.#first + this.pageCount) * stride;
    for (let i = 1; i <= count; i++) into.push(this.#records[end - i * stride]!);
    this.pageCount -= count;
    this.#shrink();
  }

  #key(): number {
    return pageKey(this.#records, this.#first * (this.pageSize + 1) + 1, this.pageSize);
  }

  /** Leaves an array of which less than half is in use; one that there is no memory to copy stays. */
  #shrink(): void {
    if (2 * this.pageCount * (this.pageSize + 1) >= this.#records.length) return;
    try {
      this.#records = this.#copy(0, this.pageCount);
      this.#first = 0;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
  }

  /** The records of `count` pages from `first` on. */
  #copy(first: number, count: number): Int32Array | Float64Array {
    const stride = this.pageSize + 1;
    const begin = (this.#first + first) * stride;
    return this.#records.slice(begin, begin + count * stride);
  }
}

/** The child key of a page: its token when there is only one, else a hash, which is not unique. */
function pageKey(tokens: ArrayLike<number>, at: number, pageSize: number): number {
  if (pageSize === 1) return tokens[at]!;
  let key = 0;
  for (let i = 0; i < pageSize; i++) {
    key = Math.imul(key ^ tokens[at + i]!, MIXER);
    key ^= key >>> 15;
  }
  return key & KEY_MASK;
}

/**
 * The records of `pages` and of their tokens from `at` on.
 *
 * 32 bits a number hold every token id; the ids of contents need 64, whose 53 bits hold them.
 */
export function toRecords(
  tokens: ArrayLike<number>,
  pages: ArrayLike<number>,
  { pageSize, firstPage }: { readonly pageSize: number; readonly firstPage: number },
): Int32Array | Float64Array {
  const count = (pages.length - firstPage) * (pageSize + 1);
  let isWide = false;
  for (let i = firstPage * pageSize; i < tokens.length; i++) {
    const token = tokens[i]!;
    if (token !== (token | 0)) isWide = true;
  }
  const records = isWide ? new Float64Array(count) : new Int32Array(count);
  let record = 0;
  for (let page = firstPage; page < pages.length; page++) {
    records[record] = pages[page]!;
    for (let i = 0; i < pageSize; i++) records[record + 1 + i] = tokens[page * pageSize + i]!;
    record += pageSize + 1;
  }
  return records;
}
