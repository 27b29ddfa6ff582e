/**
 * Storing prefixes beyond the life of an engine: what the caller decides about it, and what stored
 * prefixes depend on.
 *
 * @module
 */
import type { PageCodec } from "../../cache/page_codec.ts";
import { BLOCK_VERSION, rootKey } from "../../cache/prefix_block.ts";
import type { PrefixStorage } from "../../cache/prefix_storage.ts";
import { PrefixStore } from "../../cache/prefix_store.ts";
import { InvalidRequestError } from "../../errors.ts";
import type { GenerationRequest } from "../../generation.ts";

export interface PrefixStoreOptions {
  /** Where they are kept: `prefixFiles` of wisp-llm/node, `openPrefixStorage` of wisp-llm/browser. */
  readonly storage: PrefixStorage;
  /**
   * Bytes at most, of all models that are kept there; prefixes that were not used for longest go for
   * others. Default: what the storage says, else 1 GiB.
   */
  readonly maxBytes?: number | undefined;
  /**
   * Tokens from which on a prefix is stored once a second request has found it in the cache. Requests
   * with a salt store only what they ask for. Infinity stores only what is asked for. Default 128: a
   * shorter one is computed in a single step.
   */
  readonly minTokens?: number | undefined;
  /**
   * Seconds that a request waits at most for what is stored of its prompt. Default: as long as
   * computing that would take, as far as the engine has measured it.
   */
  readonly maxWait?: number | undefined;
  /** Told of a storage that does not work, once until it works again; no request fails for it. */
  readonly onProblem?: ((problem: string) => void) | undefined;
}

/** Tokens of a block at least, and of a request's `storePrefix`. */
export const BLOCK_TOKENS = 64;
const MIN_TOKENS = 128;
/** Of the package: another one's kernels may give other bits. */
export const LIBRARY_VERSION = "0.1.0";

/** @throws {InvalidRequestError} naming the option that is out of range. */
export function requirePrefixStore(
  { maxBytes, minTokens = MIN_TOKENS, maxWait, ...options }: PrefixStoreOptions,
  { prefixCache }: { readonly prefixCache: boolean },
): PrefixStoreOptions & { readonly minTokens: number } {
  const refuse = (field: string, problem: string): never => {
    throw new InvalidRequestError(
      `Cannot use prefixStore${field}: ${problem}`,
      `prefixStore${field}`,
    );
  };
  if (!prefixCache) refuse("", "prefixCache is false");
  if (maxBytes !== undefined && !(Number.isSafeInteger(maxBytes) && maxBytes >= 0)) {
    refuse(".maxBytes", `it must be a whole number of at least 0, got ${maxBytes}`);
  }
  if (!(minTokens >= 1)) refuse(".minTokens", `it must be at least 1, got ${minTokens}`);
  if (maxWait !== undefined && !(maxWait >= 0)) {
    refuse(".maxWait", `it must be at least 0, got ${maxWait}`);
  }
  return { ...options, maxBytes, minTokens, maxWait };
}

/**
 * Opens the store of a model. Its prefixes are found again only by the same version of this library
 * that runs the same model in the same way on the same adapter: the bits of another one may differ.
 * Engines that draft by the model's module and engines that do not share them.
 */
export function openPrefixStore(
  { storage, maxBytes, onProblem }: PrefixStoreOptions,
  {
    codec,
    device,
  }: { readonly codec: Pick<PageCodec, "layout" | "packedSizes">; readonly device: GPUDevice },
): Promise<PrefixStore> {
  const { pageSize } = codec.layout;
  const blockTokens = Math.ceil(BLOCK_TOKENS / pageSize) * pageSize;
  const { vendor, architecture, device: name, description } = device.adapterInfo;
  const facts = {
    block: BLOCK_VERSION,
    library: LIBRARY_VERSION,
    layout: codec.layout,
    blockTokens,
    adapter: [vendor, architecture, name, description],
  };
  return PrefixStore.open({
    storage,
    maxBytes,
    onProblem,
    blockTokens,
    packedSizes: codec.packedSizes(blockTokens / pageSize),
    rootOf: (partition) => rootKey({ ...facts, partition: partition ?? null }),
  });
}

/**
 * Tokens at a prompt's beginning that a request asks to store.
 *
 * @throws {InvalidRequestError} when they cannot be stored.
 */
export function requireStorable(
  { storePrefix = false }: GenerationRequest,
  {
    promptLength,
    isLasting,
    storesPrefixes = false,
  }: {
    readonly promptLength: number;
    /** Whether other processes know what the prompt is. */
    readonly isLasting: boolean;
    readonly storesPrefixes?: boolean | undefined;
  },
): number {
  const refuse = (problem: string): never => {
    throw new InvalidRequestError(`Cannot use storePrefix: ${problem}`, "storePrefix");
  };
  if (storePrefix === false) return 0;
  if (!storesPrefixes) refuse("the engine has no store of prefixes");
  if (!isLasting) refuse("the request has inputEmbeds, and embeddings are not stored");
  if (storePrefix === true) return promptLength;
  if (!(Number.isSafeInteger(storePrefix) && storePrefix >= BLOCK_TOKENS)) {
    refuse(
      `it must be a whole number of at least ${BLOCK_TOKENS}, or a boolean, got ${storePrefix}`,
    );
  }
  return Math.min(storePrefix, promptLength);
}
