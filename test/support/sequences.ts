/**
 * Sequences and schedulers without an engine: token i is the letter i of the alphabet.
 *
 * @module
 */
import { PagePool } from "../../src/cache/page_pool.ts";
import { RadixCache } from "../../src/cache/radix_cache.ts";
import { resolveSampling } from "../../src/engine/sampling_params.ts";
import { Scheduler, type SchedulerOptions } from "../../src/engine/scheduler.ts";
import { Sequence } from "../../src/engine/sequence.ts";
import { SequencePages } from "../../src/engine/sequence_pages.ts";
import type { GenerationChunk, SamplingParams } from "../../src/generation.ts";
import { Detokenizer } from "../../src/text/detokenizer.ts";
import { Vocabulary } from "../../src/text/vocabulary.ts";

export const EOS = 1;
/** Token i is the letter i of the alphabet, over and over. */
const pieces = new Map(Array.from({ length: 64 }, (_, i) => [i, Uint8Array.of(97 + (i % 26))]));
const vocabulary = new Vocabulary(pieces, []);

export function sequence(
  promptLength: number,
  maxNewTokens: number,
  params: SamplingParams = {},
  {
    first = 2,
    partition,
  }: { readonly first?: number; readonly partition?: string | undefined } = {},
) {
  const chunks: GenerationChunk[] = [];
  const sampling = resolveSampling(params, { vocabularySize: 64, seed: 0 });
  const made = new Sequence({
    requestId: "r",
    partition,
    prompt: Array.from({ length: promptLength }, (_, i) => 2 + ((first - 2 + i) % 60)),
    sampling,
    maxNewTokens,
    eosTokenIds: new Set([EOS]),
    detokenizer: new Detokenizer(vocabulary, sampling),
    onChunk: (chunk) => chunks.push(chunk),
    onError: (error) => {
      throw error;
    },
  });
  return { sequence: made, chunks };
}

export function scheduler(
  pageCount: number,
  pageSize: number,
  {
    shared = false,
    promptsDiffer = false,
    ...options
  }: Partial<SchedulerOptions> & {
    readonly shared?: boolean;
    readonly promptsDiffer?: boolean;
  } = {},
) {
  const pool = new PagePool(pageCount, pageSize);
  const pages = new SequencePages(pool, {
    radix: shared ? new RadixCache({ pageSize }) : undefined,
    promptsDiffer,
  });
  return {
    pool,
    pages,
    scheduler: new Scheduler(pages, {
      maxRunningRequests: 4,
      maxQueuedRequests: 100,
      maxRows: 16,
      maxPrefillRows: 8,
      maxPrefillTokens: 1000,
      maxPrefillKeys: 1000,
      mixedChunks: false,
      policy: "fcfs",
      conservativeness: 1,
      ...options,
    }),
  };
}
