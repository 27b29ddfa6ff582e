import { expect, test } from "vitest";
import { PagePool } from "../../../src/cache/page_pool.ts";
import { RadixCache } from "../../../src/cache/radix_cache.ts";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import { type LoadedModel, loadModel } from "../../../src/engine/load/load.ts";
import { maxPrefillKeys } from "../../../src/engine/load/prefill_workspace.ts";
import { resolveSampling } from "../../../src/engine/sample/sampling_params.ts";
import { Scheduler } from "../../../src/engine/schedule/scheduler.ts";
import { Sequence } from "../../../src/engine/schedule/sequence.ts";
import { SequencePages } from "../../../src/engine/schedule/sequence_pages.ts";
import { Detokenizer } from "../../../src/text/detokenizer.ts";
import { Vocabulary } from "../../../src/text/vocabulary.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { device, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { complete, EMBEDDED_MODEL, openEngine } from "../../support/engines/engine.ts";

const PROMPT = Array.from({ length: 45 }, (_, i) => 3 + ((i * 31) % 2000));
const PARAMS = { maxNewTokens: 12, ignoreEos: true, temperature: 0.8, seed: 5 };
const PAGE_SIZE = 8;

/** One of two machines that serve a request together: a model, a cache and a scheduler of its own. */
async function machine(): Promise<{ readonly loaded: LoadedModel; readonly scheduler: Scheduler }> {
  const checkpoint = await Checkpoint.open(folderSource(EMBEDDED_MODEL));
  const options = { device, pageSize: PAGE_SIZE, maxTotalTokens: 512, retractionMemory: 1 };
  const loaded = await loadModel(checkpoint, options);
  const { options: resolved, memoryBudget, definition } = loaded;
  const pool = new PagePool(memoryBudget.cacheTokens / PAGE_SIZE, PAGE_SIZE);
  const { promptsDiffer } = definition.shape;
  const pages = new SequencePages(pool, {
    radix: new RadixCache({ pageSize: PAGE_SIZE }),
    promptsDiffer,
  });
  const scheduler = new Scheduler(pages, {
    ...resolved,
    policy: "fcfs",
    conservativeness: 1,
    maxPrefillKeys: maxPrefillKeys(memoryBudget.cacheTokens, resolved.maxRows),
  });
  return { loaded, scheduler };
}

async function turn({ loaded, scheduler }: Awaited<ReturnType<typeof machine>>): Promise<number> {
  const step = scheduler.schedule()!;
  const rows = step.sampled.map((sequence) => sequence.sampledRow());
  scheduler.commit(step, await loaded.runner.run(step.batch, rows));
  return step.batch.sources.length;
}

function sequence(maxNewTokens: number): Sequence {
  const params = { ...PARAMS, maxNewTokens };
  const sampling = resolveSampling(params, { vocabularySize: 2048, seed: 0 });
  return new Sequence({
    requestId: "handed over",
    prompt: PROMPT,
    sampling,
    maxNewTokens,
    eosTokenIds: new Set(),
    detokenizer: new Detokenizer(new Vocabulary(new Map(), []), sampling),
    onChunk: () => {},
    onError: (error) => {
      throw error;
    },
  });
}

test.skipIf(smallestCaseOnly)(
  "a prompt computed on one machine is decoded on another, to the same tokens",
  async () => {
    const engine = await openEngine({ pageSize: PAGE_SIZE });
    const { tokens: want } = await complete(engine, { tokens: PROMPT, sampling: PARAMS });
    await engine.close();

    const [prefill, decode] = [await machine(), await machine()];
    const first = sequence(1);
    prefill.scheduler.hold(first);
    prefill.scheduler.add(first);
    while (!prefill.scheduler.isHeld(first)) await turn(prefill);
    const bytes = await prefill.loaded.codec!.readPages(first.pageTable);
    prefill.scheduler.remove(first);

    // The second request finds its whole pages there, and only the last page travels.
    for (const cachedPages of [0, 5]) {
      const second = sequence(PARAMS.maxNewTokens);
      second.accept([first.tokens.at(-1)!]);
      const { pages, cachedTokens } = decode.scheduler.reserve(second, first.promptLength)!;
      expect(cachedTokens).toBe(cachedPages * PAGE_SIZE);
      await decode.loaded.codec!.writePages(bytes, pages, { skip: cachedPages });
      decode.scheduler.admit(second, first.promptLength);
      let rows = 0;
      while (second.finish === null) rows += await turn(decode);
      expect(second.tokens.slice(PROMPT.length)).toEqual(want);
      expect(rows).toBe(PARAMS.maxNewTokens - 1);
    }
    expect(decode.scheduler.hasWork).toBe(false);
    prefill.loaded.destroy();
    decode.loaded.destroy();
  },
);
