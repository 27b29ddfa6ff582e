import { afterEach, expect, test, vi } from "vitest";
import { PageCodec } from "../../../src/cache/page_codec.ts";
import { ModelRunner } from "../../../src/engine/step/model_runner.ts";
import type { GenerationRequest } from "../../../src/generation.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { chat, complete, openEngine } from "../../support/engines/engine.ts";

const [COUNT, LENGTH, TOKENS] = smallestCaseOnly ? [3, 12, 48] : [4, 24, 72];
const ROOMY = { pageSize: 4, maxRunningRequests: COUNT };
/** Answers that do not fit at once, started as if they did. */
const TIGHT = { ...ROOMY, maxTotalTokens: TOKENS, contextLength: 44, scheduleConservativeness: 0 };

const requests = Array.from(
  { length: COUNT },
  (_, i): GenerationRequest => ({
    messages: chat(`Count to ${i + 3}!`),
    sampling: { maxNewTokens: LENGTH, ignoreEos: true, temperature: 0.8, topK: 40, seed: i },
    logprobs: { promptStart: i % 2 },
  }),
);

afterEach(() => {
  vi.restoreAllMocks();
});

/** All answers at once, and the rows that were computed for them. */
async function answers(options: Parameters<typeof openEngine>[0]) {
  const engine = await openEngine(options);
  const run = vi.spyOn(ModelRunner.prototype, "submit");
  const read = vi.spyOn(PageCodec.prototype, "readPages");
  const write = vi.spyOn(PageCodec.prototype, "writePages");
  const all = await Promise.all(requests.map((request) => complete(engine, request)));
  const { retractions, usedTokens } = engine.status();
  expect(usedTokens).toBe(0);
  await engine.close();
  const rows = run.mock.calls.reduce((sum, [batch]) => sum + batch.sources.length, 0);
  const moves = [read.mock.calls.length, write.mock.calls.length] as const;
  vi.restoreAllMocks();
  return {
    tokens: all.map(({ tokens }) => tokens),
    logprobs: all.map(({ last }) => last.logprobs),
    rows,
    retractions,
    moves,
  };
}

test.each(smallestCaseOnly ? [true] : [true, false])(
  "with room for them on the host, retracted requests compute nothing twice (shared prefixes: %s)",
  async (prefixCache) => {
    const want = await answers({ ...ROOMY, prefixCache });
    const again = await answers({ ...TIGHT, prefixCache });
    const kept = await answers({ ...TIGHT, prefixCache, retractionMemory: 2 ** 26 });
    for (const { tokens, logprobs, retractions } of [again, kept]) {
      expect(tokens).toEqual(want.tokens);
      expect(logprobs).toEqual(want.logprobs);
      expect(retractions).toBeGreaterThan(0);
    }
    expect(again.moves).toEqual([0, 0]);
    expect(again.rows).toBeGreaterThan(want.rows);
    expect(kept.moves[0]).toBe(kept.retractions);
    expect(kept.moves[1]).toBeGreaterThan(0);
    // Requests wait for one another, so they may share less of a prompt than with room.
    const promptRows = requests.length * 8;
    expect(kept.rows).toBeLessThanOrEqual(want.rows + (prefixCache ? promptRows : 0));
    expect(kept.rows).toBeLessThan(again.rows);
  },
);

test.skipIf(smallestCaseOnly)(
  "a budget for some of the pages keeps those, and the others are computed again",
  async () => {
    const want = await answers(ROOMY);
    const kept = await answers({ ...TIGHT, retractionMemory: 2 ** 14 });
    expect(kept.tokens).toEqual(want.tokens);
    expect(kept.retractions).toBeGreaterThan(0);
  },
);

test.skipIf(smallestCaseOnly)(
  "requests that leave while their pages move leave nothing behind",
  async () => {
    const engine = await openEngine({ ...TIGHT, retractionMemory: 2 ** 26 });
    const controllers = requests.map(() => new AbortController());
    const { readPages } = PageCodec.prototype;
    let left = 0;
    vi.spyOn(PageCodec.prototype, "readPages").mockImplementation(function (
      this: PageCodec,
      ...rest
    ) {
      // One more of them leaves at each retraction, while its pages are on their way.
      controllers[left]?.abort();
      left += 2;
      return readPages.apply(this, rest);
    });
    const results = await Promise.allSettled(
      requests.map((request, i) => {
        const local = { ...request, signal: controllers[i]!.signal };
        return complete(engine, local);
      }),
    );
    vi.restoreAllMocks();
    expect(left).toBeGreaterThan(0);
    expect(results.filter(({ status }) => status === "rejected").length).toBeGreaterThan(0);
    expect(engine.status()).toMatchObject({ usedTokens: 0, runningRequests: 0, healthy: true });
    const want = await openEngine(ROOMY);
    const [one, other] = [
      await complete(engine, requests[COUNT - 1]!),
      await complete(want, requests[COUNT - 1]!),
    ];
    expect(one.tokens).toEqual(other.tokens);
    await Promise.all([engine.close(), want.close()]);
  },
);
