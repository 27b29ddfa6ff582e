/**
 * A server's host side over a model that computes nothing: scheduler, batches, sampler, text.
 *
 * @module
 */
import { performance } from "node:perf_hooks";
import { KvCache } from "../../src/cache/kv_cache.ts";
import { PagePool } from "../../src/cache/page_pool.ts";
import { RadixCache } from "../../src/cache/radix_cache.ts";
import { resolveBuckets } from "../../src/engine/load/decode_buckets.ts";
import { maxPrefillKeys } from "../../src/engine/load/prefill_workspace.ts";
import { resolveSampling } from "../../src/engine/sample/sampling_params.ts";
import { Scheduler } from "../../src/engine/schedule/scheduler.ts";
import { Sequence } from "../../src/engine/schedule/sequence.ts";
import { SequencePages } from "../../src/engine/schedule/sequence_pages.ts";
import { ModelRunner } from "../../src/engine/step/model_runner.ts";
import { DeviceMemory } from "../../src/gpu/memory.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import type { ModelShape } from "../../src/models/model.ts";
import { ONE_RANK } from "../../src/parallel/communicator.ts";
import { Detokenizer } from "../../src/text/detokenizer.ts";
import { Vocabulary } from "../../src/text/vocabulary.ts";

const VOCABULARY = 4096;
const MAX_ROWS = 256;

export interface HostTimes {
  /** Milliseconds of a step, the median of each part. */
  readonly schedule: number;
  readonly rows: number;
  readonly submit: number;
  readonly commit: number;
}

/** Decodes `steps` tokens of each sequence and takes the time of everything but the waits. */
export async function nullServer(
  device: GPUDevice,
  { sequences: count, context, steps }: Readonly<Record<"sequences" | "context" | "steps", number>>,
): Promise<HostTimes> {
  const contextLength = context + steps + 8;
  const slots = count * contextLength;
  const memory = new DeviceMemory(device.limits, device);
  const recorder = new Recorder(device);
  const cache = new KvCache(device, { layers: 0, entryWidth: 2, dtype: "bf16" }, slots);
  const shape: ModelShape = {
    vocabularySize: VOCABULARY,
    hiddenSize: 4,
    contextLength,
    layers: 0,
    draftLayers: 0,
    cacheEntryWidth: 2,
    cacheEntryFp8Bytes: 2,
    splitLength: 256,
    expandedEntry: undefined,
    promptsDiffer: false,
    prefillRowTile: 16,
    maxRowBytes: { row: 16, decodeRow: () => 16 },
  };
  const runner = new ModelRunner({
    recorder,
    memory,
    model: {
      specs: [],
      weightFormats: new Map(),
      numericClasses: { prefill: "fma128", decode: "fma128" },
      findsBest: false,
      unshared: [],
      ignores: () => false,
      compile: () => () => () => {},
      asDraft: () => {
        throw new Error("nothing is drafted");
      },
    },
    shape,
    cache,
    pageSize: 1,
    contextLength,
    maxRows: MAX_ROWS,
    maxLogitRows: count + 1,
    maxSampledRows: count,
    maxSequences: count,
    maxDrafts: 0,
    communicator: ONE_RANK,
    prefillCapacity: 0,
    sharesReads: false,
    oneForm: false,
    buckets: resolveBuckets({}),
  });
  await recorder.pipelines.ready();
  const pool = new PagePool(slots, 1);
  const scheduler = new Scheduler(
    new SequencePages(pool, { radix: new RadixCache({ pageSize: 1 }) }),
    {
      maxRunningRequests: count,
      maxQueuedRequests: count,
      maxRows: MAX_ROWS,
      maxPrefillRows: MAX_ROWS,
      maxPrefillTokens: MAX_ROWS,
      maxPrefillKeys: maxPrefillKeys(contextLength, MAX_ROWS),
      mixedChunks: false,
      policy: "fcfs",
      conservativeness: 0,
    },
  );
  const pieces = Array.from({ length: VOCABULARY }, (_, i) => {
    return [i, new TextEncoder().encode(` ${i.toString(36)}`)] as const;
  });
  const vocabulary = new Vocabulary(new Map(pieces), []);
  let characters = 0;
  for (let s = 0; s < count; s++) {
    const params = { temperature: 0.7, topP: 0.9, topK: 40, seed: s, stop: ["never said"] };
    const sampling = resolveSampling(params, { vocabularySize: VOCABULARY, seed: 0 });
    scheduler.add(
      new Sequence({
        requestId: `${s}`,
        prompt: Array.from({ length: context }, (_, i) => (s * 977 + i * 31) % VOCABULARY),
        sampling,
        maxNewTokens: steps + 1,
        eosTokenIds: new Set([VOCABULARY - 1]),
        detokenizer: new Detokenizer(vocabulary, sampling),
        onChunk: ({ text }) => {
          characters += text.length;
        },
        onError: (error) => {
          throw error;
        },
      }),
    );
  }
  const times = { schedule: [], rows: [], submit: [], commit: [] } as Record<
    keyof HostTimes,
    number[]
  >;
  for (let decoded = 0; scheduler.hasWork; ) {
    const marks = [performance.now()];
    const step = scheduler.schedule()!;
    marks.push(performance.now());
    const rows = step.sampled.map((sequence) => sequence.sampledRow());
    marks.push(performance.now());
    const submitted = runner.submit(step.batch, rows);
    marks.push(performance.now());
    const tokens = await (await submitted).tokens;
    const committing = performance.now();
    scheduler.commit(step, tokens);
    const done = performance.now();
    if (step.batch.sequences.some(({ phase }) => phase === "prefill")) continue;
    decoded += 1;
    if (decoded <= steps / 4) continue; // the compiler's turn
    times.schedule.push(marks[1]! - marks[0]!);
    times.rows.push(marks[2]! - marks[1]!);
    times.submit.push(marks[3]! - marks[2]!);
    times.commit.push(done - committing);
  }
  if (characters < count * steps) throw new Error("tokens were lost");
  runner.destroy();
  cache.destroy();
  memory.destroy();
  const median = (all: readonly number[]) => all.toSorted((a, b) => a - b)[all.length >> 1]!;
  return {
    schedule: median(times.schedule),
    rows: median(times.rows),
    submit: median(times.submit),
    commit: median(times.commit),
  };
}
