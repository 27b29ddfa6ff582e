/**
 * What callers see of the prefix cache: how it stands, what is stored of it, how it is emptied.
 *
 * @module
 */

export interface PrefixStoreStatus {
  readonly bytes: number;
  /** Tokens that this engine has stored, and that it has restored into the cache. */
  readonly storedTokens: number;
  readonly restoredTokens: number;
}

export interface FlushOptions {
  /** Deletes also what the store of prefixes has, of all models. Default false. */
  readonly stored?: boolean;
}

export interface CacheTreeOptions {
  /** Nodes at most. Default 256. */
  readonly maxNodes?: number;
}

/** Tokens that follow each other in the prefix cache, up to where prompts have gone apart. */
export interface CacheTreeNode {
  /** Index of the node that holds what comes before; -1 where nothing does. */
  readonly parent: number;
  /** Nodes of different ones share nothing: they are of requests with different salts. */
  readonly partition: number;
  readonly tokens: number;
  /** Pages of the KV cache that hold them. */
  readonly pages: number;
  /** Requests that use it now; without any it goes when its pages are needed. */
  readonly holders: number;
  /** The text of its first tokens, special ones by their names. Empty where they have none. */
  readonly label: string;
}

/** The prefix cache as it stands. */
export interface CacheTree {
  /** Tokens of a page. */
  readonly pageSize: number;
  /**
   * Each behind its parent: first those in use, then those that were used last. The last one of them
   * is the first to go.
   */
  readonly nodes: readonly CacheTreeNode[];
  /** Whether those are all. */
  readonly isComplete: boolean;
}
