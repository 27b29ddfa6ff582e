/**
 * What carries pages of a loaded model to the host and back, where an option asks for it.
 *
 * @module
 */
import type { KvCache } from "../../cache/kv_cache.ts";
import { PageCodec } from "../../cache/page_codec.ts";
import { type EntryShares, rankFields } from "../../cache/page_form.ts";
import type { AttentionFacts, Model } from "../../models/model.ts";
import { attentionRanks, type Communicator } from "../../parallel/communicator.ts";
import type { PreparedLoad } from "./prepare_load.ts";

/** What of a load it is made with. */
interface Carried {
  readonly prepared: PreparedLoad;
  readonly communicator: Communicator;
  /** What goes with the model. */
  readonly owned: { destroy(): void }[];
}

export function movesPages({ options }: Pick<PreparedLoad, "options">): boolean {
  const { retractionMemory, prefixStore, transfersPages } = options;
  return retractionMemory > 0 || prefixStore !== undefined || transfersPages;
}

export function openCodec(
  { prepared, communicator, owned }: Carried,
  made: {
    readonly model: Model;
    readonly cache: KvCache;
    readonly matrices: string | undefined;
    readonly hash: string | undefined;
  },
): PageCodec | undefined {
  if (!movesPages(prepared)) return undefined;
  const { model, cache, matrices, hash } = made;
  const { device, options, uploadTo, oneForm, cacheShape, definition } = prepared;
  const { pageSize, quantizeActivations } = options;
  // Others have pages of other requests.
  const { rank, size: ranks } = attentionRanks(communicator);
  const shares = ranks > 1 ? sharesOf(definition.facts.attention, ranks) : undefined;
  const codec = new PageCodec(device, {
    cache,
    draftLayers: cacheShape.layers - definition.shape.layers,
    pageSize,
    modelHash: hash!,
    numerics: JSON.stringify({
      classes: model.numericClasses,
      matrices,
      uploadTo,
      quantizeActivations,
      oneForm,
      ...(shares && rankFields(shares, rank)),
    }),
    shares,
  });
  owned.push(codec);
  return codec;
}

/** Every rank has a latent whole, and of keys and values those of its heads. */
function sharesOf(attention: AttentionFacts, ranks: number): EntryShares {
  if (attention.kind === "mla") return { ranks, heads: 1, parts: 1 };
  return { ranks, heads: attention.kvHeads, parts: 2 };
}
