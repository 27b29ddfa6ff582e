/** Random requests to the real engine, beside one whose bits they must not change. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { fuzzServer } from "../../support/server/fuzz_server.ts";
import { until } from "../../support/until.ts";

const CASES = process.env.WISP_TEST_FULL === "1" ? 20_000 : 160;

describe.skipIf(smallestCaseOnly)("a server of the embedded model", () => {
  let engine: Engine;

  beforeAll(async () => {
    // Short answers also of those that fill the context.
    engine = await openEngine({ contextLength: 64, maxRunningRequests: 8, grammarBackend: "auto" });
  });
  afterAll(() => engine.close());

  test(`answers ${CASES} random messages, and one other always the same`, async () => {
    const statuses = await fuzzServer(engine, {
      cases: CASES,
      seed: 2000,
      known: {
        text: "Once upon a time",
        sampling_params: { max_new_tokens: 8, ignore_eos: true, sampling_seed: 7 },
        return_logprob: true,
        top_logprobs_num: 3,
      },
      toolCallParser: "qwen25",
      reasoningParser: "qwen3",
    });
    expect(statuses.get(200)).toBeGreaterThan(CASES / 20);
    await until(() =>
      expect(engine.status()).toMatchObject({ runningRequests: 0, queuedRequests: 0 }),
    );
    expect(engine.status()).toMatchObject({ healthy: true, usedTokens: 0, queuedTokens: 0 });
    expect(await engine.flushCache()).toBe(true);
    expect(engine.status().cachedTokens).toBe(0);
  });
});
