/**
 * Sequences and schedulers without an engine: token i is the letter i of the alphabet.
 *
 * @module
 */
import { expect } from "vitest";
import type { PageCopy } from "../../../src/cache/page_copier.ts";
import { PagePool } from "../../../src/cache/page_pool.ts";
import { RadixCache } from "../../../src/cache/radix_cache.ts";
import type { SequenceGrammar } from "../../../src/engine/grammar/sequence_grammar.ts";
import { resolveSampling } from "../../../src/engine/sample/sampling_params.ts";
import type { PageCarrier } from "../../../src/engine/schedule/retraction_memory.ts";
import { RetractionMemory } from "../../../src/engine/schedule/retraction_memory.ts";
import { Scheduler } from "../../../src/engine/schedule/scheduler.ts";
import type { SchedulerOptions } from "../../../src/engine/schedule/scheduler_options.ts";
import { Sequence } from "../../../src/engine/schedule/sequence.ts";
import type { DraftOptions } from "../../../src/engine/schedule/sequence_drafts.ts";
import { SequencePages } from "../../../src/engine/schedule/sequence_pages.ts";
import type { GenerationChunk } from "../../../src/generation.ts";
import type { SamplingParams } from "../../../src/sampling_params.ts";
import { Detokenizer } from "../../../src/text/detokenizer.ts";
import { Vocabulary } from "../../../src/text/vocabulary.ts";

export const EOS = 1;
/** Token i is the letter i of the alphabet, over and over. */
const pieces = new Map(Array.from({ length: 64 }, (_, i) => [i, Uint8Array.of(97 + (i % 26))]));
const vocabulary = new Vocabulary(pieces, []);

/** @param prompt Its tokens, or how many there are from `first` on. */
export function sequence(
  prompt: number | readonly number[],
  maxNewTokens: number,
  params: SamplingParams = {},
  {
    first = 2,
    partition,
    priority,
    grammar,
    drafts,
    onChunk = () => {},
    onError = (error) => {
      throw error;
    },
  }: {
    readonly first?: number;
    readonly partition?: string | undefined;
    readonly priority?: number | undefined;
    readonly grammar?: SequenceGrammar | undefined;
    readonly drafts?: DraftOptions | undefined;
    readonly onChunk?: (chunk: GenerationChunk) => void;
    readonly onError?: (error: unknown) => void;
  } = {},
) {
  const chunks: GenerationChunk[] = [];
  const sampling = resolveSampling(params, { vocabularySize: 64, seed: 0 });
  const made = new Sequence({
    requestId: "r",
    partition,
    priority,
    prompt:
      typeof prompt === "number"
        ? Array.from({ length: prompt }, (_, i) => 2 + ((first - 2 + i) % 60))
        : prompt,
    sampling,
    maxNewTokens,
    grammar,
    drafts,
    eosTokenIds: new Set([EOS]),
    detokenizer: new Detokenizer(vocabulary, sampling),
    onChunk: (chunk) => {
      chunks.push(chunk);
      onChunk(chunk);
    },
    onError,
  });
  return { sequence: made, chunks };
}

export function scheduler(
  pageCount: number,
  pageSize: number,
  {
    shared = false,
    promptsDiffer = false,
    retractionMemory,
    ...options
  }: Partial<SchedulerOptions> & {
    readonly shared?: boolean;
    readonly promptsDiffer?: boolean;
    readonly retractionMemory?: RetractionMemory;
  } = {},
) {
  const pool = new PagePool(pageCount, pageSize);
  const radix = shared ? new RadixCache({ pageSize }) : undefined;
  const pages = new SequencePages(pool, {
    radix,
    promptsDiffer,
    retractionMemory,
  });
  return {
    pool,
    pages,
    radix,
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

/** Moves the pages of a cache that is played by a map from slots to what is in them. */
export function slotCarrier(slots: Map<number, number>, pageSize: number): PageCarrier {
  const slotsOf = (pages: readonly number[]) =>
    pages.flatMap((page) => Array.from({ length: pageSize }, (_, i) => page * pageSize + i));
  return {
    packedBytes: (pageCount) => pageCount * pageSize * 4,
    readPages: async (pages) =>
      new Uint8Array(Uint32Array.from(slotsOf(pages), (slot) => slots.get(slot) ?? 0).buffer),
    writePages: async (bytes, pages, { skip }) => {
      await Promise.resolve(); // others may leave meanwhile
      const values = new Uint32Array(bytes.buffer).subarray(skip * pageSize);
      const places = slotsOf(pages);
      expect(values).toHaveLength(places.length);
      places.forEach((slot, i) => {
        slots.set(slot, values[i]!);
      });
    },
  };
}

/** Copies pages of such a cache. */
export function slotCopier(slots: Map<number, number>, pageSize: number) {
  return {
    copy: (copies: readonly PageCopy[]) => {
      for (const { from, to } of copies) {
        for (let i = 0; i < pageSize; i++) {
          slots.set(to * pageSize + i, slots.get(from * pageSize + i) ?? 0);
        }
      }
    },
  };
}

/** Host memory for that many slots. */
export function slotMemory(slotCount: number, slots: Map<number, number>, pageSize: number) {
  return new RetractionMemory(slotCount * 4, slotCarrier(slots, pageSize));
}
