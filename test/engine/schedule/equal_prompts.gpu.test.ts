import { expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import type { EngineOptions } from "../../../src/engine/engine_options.ts";
import type { GenerationRequest } from "../../../src/generation.ts";
import type { PromptLogprobs } from "../../../src/logprobs.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { StepWatch } from "../../support/engines/watch_steps.ts";

const [COUNT, LENGTH] = smallestCaseOnly ? [3, 19] : [4, 37];
const PROMPT = Array.from({ length: LENGTH }, (_, i) => 3 + ((i * 37) % 2000));
/** The first prompt token that the last of the samples is told about. */
const SCORED_FROM = LENGTH - 9;

/** Samples of one prompt; the last one also scores the prompt's end. */
const samples = Array.from({ length: COUNT }, (_, i): GenerationRequest => {
  const sampling = { temperature: 0.9, topK: 50, seed: i, maxNewTokens: 4 + i, ignoreEos: true };
  const isLast = i === COUNT - 1;
  return { tokens: PROMPT, sampling, logprobs: isLast ? { promptStart: SCORED_FROM } : {} };
});

interface Answer {
  readonly tokens: readonly number[];
  readonly logprobs: readonly PromptLogprobs[];
  readonly cachedTokens: number;
}

async function answer(engine: Engine, request: GenerationRequest): Promise<Answer> {
  const tokens: number[] = [];
  const logprobs: PromptLogprobs[] = [];
  let cachedTokens = 0;
  for await (const chunk of engine.generate(request)) {
    tokens.push(...chunk.tokens);
    logprobs.push(...(chunk.promptLogprobs ?? []), ...(chunk.logprobs ?? []));
    cachedTokens = chunk.cachedTokens;
  }
  return { tokens, logprobs, cachedTokens };
}

/** All samples, together or each on its own, and the prompt rows that were computed for them. */
async function answers(options: Partial<EngineOptions>, together: boolean) {
  const engine = await openEngine({ maxTotalTokens: 1024, maxRunningRequests: COUNT, ...options });
  const watch = new StepWatch();
  const all: Answer[] = [];
  if (together) all.push(...(await Promise.all(samples.map((one) => answer(engine, one)))));
  else for (const one of samples) all.push(await answer(engine, one));
  watch.stop();
  expect(engine.status().usedTokens).toBe(0);
  await engine.close();
  return {
    promptRows: watch.steps.reduce((sum, step) => sum + step.promptRows, 0),
    cached: all.map(({ cachedTokens }) => cachedTokens),
    bits: all.map(({ tokens, logprobs }) => ({ tokens, logprobs })),
  };
}

test("samples of a prompt compute it once, and have the bits that each has alone", async () => {
  const alone = await answers({ prefixCache: false }, false);
  expect(alone.promptRows).toBe(COUNT * LENGTH);
  const shared = LENGTH - 1;
  for (const pageSize of smallestCaseOnly ? [16] : [1, 16, 64]) {
    const { bits, cached, promptRows } = await answers({ pageSize }, true);
    expect(bits).toEqual(alone.bits);
    // The rows that are scored are computed, and at least the last one.
    expect(cached).toEqual([0, ...Array(COUNT - 2).fill(shared), SCORED_FROM]);
    expect(promptRows).toBe(LENGTH + (COUNT - 2) + (LENGTH - SCORED_FROM));
  }
});

test.skipIf(smallestCaseOnly)("without shared prefixes each computes its prompt", async () => {
  const { promptRows, cached } = await answers({ prefixCache: false, pageSize: 16 }, true);
  expect(promptRows).toBe(COUNT * LENGTH);
  expect(cached).toEqual([0, 0, 0, 0]);
});
