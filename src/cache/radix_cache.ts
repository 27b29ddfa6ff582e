/**
 * Remembers which pages hold which tokens, so that a prefix is computed once.
 *
 * A tree over token ids. It owns the pages in it; a sequence that uses some of them holds a lock on
 * the node where its use ends. A token's keys and values depend on all tokens before it, so a page
 * is found only by its whole prefix, and only whole pages are cached. The cache never takes pages
 * from the pool nor gives them back: its caller does.
 *
 * Nodes without locks stand in a list in the order of their last use, descendants always before
 * their ancestors, as every use of a node is one of its ancestors too. So the first of the list is
 * a leaf, and eviction searches nothing. The position in the list is the only clock.
 *
 * | what | cost |
 * |---|---|
 * | `match`, `insert` | tokens + nodes on the path; a split copies at most half of a node |
 * | `look` | tokens |
 * | `lock`, `unlock` | nodes on the path |
 * | `evict`, `flush` | pages freed |
 * | `nodes` | nodes taken, and those below nodes that are held |
 *
 * @module
 */
import { InvalidRequestError, KernelError } from "../errors.ts";
import { MAX_PAGE_SIZE } from "./page_pool.ts";
import { RadixNode, toRecords } from "./radix_node.ts";

export type { RadixNode };

export interface RadixCacheOptions {
  /** Tokens a page holds, 1 to 256. */
  readonly pageSize: number;
}

export interface PartitionOptions {
  /** Prefixes are shared only within one partition; the absent one is a partition too. */
  readonly partition?: string | undefined;
}

export interface MatchOptions extends PartitionOptions {
  /** Tokens at most, rounded down to whole pages. */
  readonly limit?: number | undefined;
}

export interface PrefixMatch {
  /** The pages that hold the prefix, in order. They belong to the cache. */
  readonly pages: readonly number[];
  /** Length of the prefix, a multiple of the page size. */
  readonly tokens: number;
  /** Where the prefix ends. Until it is locked it is good only up to the next eviction. */
  readonly node: RadixNode;
}

/** A cached prefix as it stands, for a comparison and no use. */
export interface PrefixLook {
  /** Length of the prefix, a multiple of the page size. */
  readonly tokens: number;
  /** The page of its last tokens. */
  readonly lastPage: number | undefined;
  /** The nodes that hold it, from the first token on; the last may hold more. */
  readonly path: readonly RadixNode[];
}

export interface Insertion {
  /** Where the inserted tokens end. Until it is locked it is good only up to the next eviction. */
  readonly node: RadixNode;
  /** Leading tokens that were there before, a multiple of the page size, and the cache's pages of them. */
  readonly present: number;
  readonly presentPages: readonly number[];
}

/** The start of a partition. It covers no token and is never evicted. */
class RadixRoot extends RadixNode {
  readonly partition: string | undefined;

  constructor(pageSize: number, partition: string | undefined) {
    super(pageSize, new Int32Array(0));
    this.partition = partition;
  }
}

export class RadixCache {
  readonly pageSize: number;
  /** Only partitions that hold pages. */
  readonly #roots = new Map<string | undefined, RadixRoot>();
  /** Closes the list of unlocked nodes to a ring: `newer` is the oldest of them, `older` the newest. */
  readonly #ring: RadixNode;
  #pageCount = 0;
  #evictablePages = 0;

  constructor({ pageSize }: RadixCacheOptions) {
    if (!Number.isInteger(pageSize) || pageSize < 1 || pageSize > MAX_PAGE_SIZE) {
      throw new InvalidRequestError(
        `Cannot use page size ${pageSize}: it is not a whole number from 1 to ${MAX_PAGE_SIZE}`,
        "page_size",
      );
    }
    this.pageSize = pageSize;
    this.#ring = new RadixNode(pageSize, new Int32Array(0));
  }

  /** Pages that the cache owns. */
  get pageCount(): number {
    return this.#pageCount;
  }

  /** Pages of them that `evict` would free if asked for all. */
  get evictablePages(): number {
    return this.#evictablePages;
  }

  /**
   * Finds the longest cached prefix. That is a use of it.
   *
   * @param tokens Token ids, or content ids at or above the vocabulary; whole numbers below 2^53.
   */
  match(tokens: ArrayLike<number>, options: MatchOptions = {}): PrefixMatch {
    const { limit = tokens.length, partition } = options;
    const root = this.#roots.get(partition) ?? new RadixRoot(this.pageSize, partition);
    const pages: number[] = [];
    const node = this.#walk(root, tokens, { limit: Math.min(limit, tokens.length), pages });
    this.#touch(node);
    return { pages, tokens: pages.length * this.pageSize, node };
  }

  /** Finds the longest cached prefix as `match` does, but changes nothing: it is no use of it. */
  look(tokens: ArrayLike<number>, options: MatchOptions = {}): PrefixLook {
    const { limit = tokens.length, partition } = options;
    const { pageSize } = this;
    const end = Math.min(limit, tokens.length);
    const path: RadixNode[] = [];
    let at = 0;
    let lastPage: number | undefined;
    let node: RadixNode | undefined = this.#roots.get(partition);
    while (node !== undefined && at + pageSize <= end) {
      const child = node.child(tokens, at);
      if (child === undefined) break;
      const count = child.match(tokens, at, end);
      path.push(child);
      lastPage = child.pageAt(count - 1);
      at += count * pageSize;
      node = count < child.pageCount ? undefined : child;
    }
    return { tokens: at, lastPage, path };
  }

  /**
   * Adds tokens and their pages. That is a use of all of them.
   *
   * The cache has pages of its own for the first `present` tokens and keeps them. Where the caller's are other pages, they are duplicates and stay the caller's to give
   * back. The pages of all other tokens belong to the cache from now on.
   *
   * @param tokens Whole pages of them.
   * @param pages The pages that hold them, in order.
   * @throws {RangeError} when there is no memory for that; all pages are still the caller's.
   */
  insert(
    tokens: ArrayLike<number>,
    pages: ArrayLike<number>,
    { partition }: PartitionOptions = {},
  ): Insertion {
    const { pageSize } = this;
    if (tokens.length !== pages.length * pageSize) {
      throw invariant(`${tokens.length} tokens do not fill ${pages.length} pages of ${pageSize}`);
    }
    const root = this.#roots.get(partition) ?? new RadixRoot(pageSize, partition);
    const found: number[] = [];
    let node = this.#walk(root, tokens, { limit: tokens.length, pages: found });
    // Before anything can fail: what was split off stands in no list yet.
    this.#touch(node);
    const firstPage = found.length;
    if (firstPage < pages.length) {
      const leaf = new RadixNode(pageSize, toRecords(tokens, pages, { pageSize, firstPage }));
      node.attach(leaf);
      this.#roots.set(partition, root);
      this.#pageCount += leaf.pageCount;
      this.#evictablePages += leaf.pageCount;
      node = leaf;
      this.#touch(node);
    }
    return { node, present: firstPage * pageSize, presentPages: found };
  }

  /**
   * Keeps all pages up to the end of the node from eviction, until `unlock`.
   *
   * @throws {KernelError} when the node was evicted.
   */
  lock(node: RadixNode): void {
    if (node.parent !== null && node.pageCount === 0) throw invariant("a locked node was evicted");
    for (let at = node; ; at = at.parent) {
      if (at.locks === 0) {
        this.#evictablePages -= at.pageCount;
        unlink(at);
      }
      at.locks++;
      if (at.parent === null) return;
    }
  }

  /**
   * Undoes one `lock`. The last of them is a use.
   *
   * @throws {KernelError} when there is nothing to undo.
   */
  unlock(node: RadixNode): void {
    if (node.locks === 0) throw invariant("a node is unlocked more often than locked");
    for (let at = node; ; at = at.parent) {
      at.locks--;
      if (at.parent === null) return;
      if (at.locks === 0) {
        this.#evictablePages += at.pageCount;
        linkAfter(this.#ring.older, at);
      }
    }
  }

  /** Tokens up to the end of the node that a sequence holds. */
  lockedTokens(node: RadixNode): number {
    let pages = 0;
    for (let at: RadixNode | null = node; at !== null; at = at.parent) {
      if (at.locks > 0) pages += at.pageCount;
    }
    return pages * this.pageSize;
  }

  /**
   * Frees pages, those that have not been used for longest first, from the end of their prefixes.
   *
   * @returns The pages that the cache owned until now: `count`, or fewer when all others are locked.
   */
  evict(count: number): number[] {
    const freed: number[] = [];
    while (freed.length < count) {
      const leaf = this.#ring.newer;
      if (leaf === this.#ring) break;
      const { pageCount } = leaf;
      const wanted = count - freed.length;
      if (wanted < pageCount) leaf.trim(wanted, freed);
      else this.#remove(leaf, freed);
    }
    this.#pageCount -= freed.length;
    this.#evictablePages -= freed.length;
    return freed;
  }

  /** Frees every page that is not locked. */
  flush(): number[] {
    return this.evict(Number.POSITIVE_INFINITY);
  }

  /**
   * The nodes that hold pages, each behind its parent: first those that a sequence holds, then
   * those that were used last. Nothing may change meanwhile.
   */
  *nodes(): Generator<RadixNode, void> {
    const held: RadixNode[] = [...this.#roots.values()];
    for (const node of held) {
      if (node.parent !== null) yield node;
      for (const child of node.children()) if (child.locks > 0) held.push(child);
    }
    for (let node = this.#ring.older; node !== this.#ring; node = node.older) {
      if (node.pageCount > 0) yield node;
    }
  }

  /**
   * The node where the longest cached prefix ends, split off if need be; appends its pages.
   *
   * A node split off is in no list yet: a touch must follow.
   */
  #walk(
    root: RadixNode,
    tokens: ArrayLike<number>,
    { limit, pages }: { readonly limit: number; readonly pages: number[] },
  ): RadixNode {
    const { pageSize } = this;
    let node = root;
    let at = 0;
    while (at + pageSize <= limit) {
      const child = node.child(tokens, at);
      if (child === undefined) break;
      const count = child.match(tokens, at, limit);
      child.listPages(count, pages);
      if (count < child.pageCount) return child.split(count);
      node = child;
      at += count * pageSize;
    }
    return node;
  }

  /** Makes a node the newest but for its ancestors. */
  #touch(node: RadixNode): void {
    for (let at = node; at.parent !== null; at = at.parent) {
      if (at.locks > 0) return; // so are all above it
      unlink(at);
      linkAfter(this.#ring.older, at);
    }
  }

  #remove(leaf: RadixNode, freed: number[]): void {
    const parent = leaf.parent!;
    parent.detach(leaf);
    unlink(leaf);
    leaf.trim(leaf.pageCount, freed);
    if (parent instanceof RadixRoot && parent.isLeaf) this.#roots.delete(parent.partition);
  }
}

/** Takes a node out of the ring; nothing to do for one that is in none. */
function unlink(node: RadixNode): void {
  node.older.newer = node.newer;
  node.newer.older = node.older;
  node.older = node;
  node.newer = node;
}

function linkAfter(older: RadixNode, node: RadixNode): void {
  node.older = older;
  node.newer = older.newer;
  older.newer.older = node;
  older.newer = node;
}

function invariant(problem: string): KernelError {
  return new KernelError("radix cache", problem);
}
