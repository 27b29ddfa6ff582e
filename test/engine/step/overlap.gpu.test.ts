import { afterEach, describe, expect, test, vi } from "vitest";
import { FROM_SAMPLED } from "../../../kernels/embedding/embedding.ts";
import type { Engine, LocalRequest } from "../../../src/engine/engine.ts";
import type { EngineOptions } from "../../../src/engine/engine_options.ts";
import { MOST_IN_FLIGHT } from "../../../src/engine/schedule/lookahead.ts";
import { ModelRunner } from "../../../src/engine/step/model_runner.ts";
import { chat, complete, openEngine } from "../../support/engines/engine.ts";
import { StepWatch } from "../../support/engines/watch_steps.ts";

const prompt = (seed: number, length = 9) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 97 + i * 31) % 2000));
const LONG = { maxNewTokens: 24, ignoreEos: true, temperature: 0.9 };

afterEach(() => {
  vi.restoreAllMocks();
});

/**
 * What the engine gave to the GPU: rows, those of them that the host did not know yet, steps in
 * flight.
 */
function watchSteps() {
  const seen = { rows: 0, unknown: 0, most: 0, inFlight: 0 };
  const { submit } = ModelRunner.prototype;
  vi.spyOn(ModelRunner.prototype, "submit").mockImplementation(async function (
    this: ModelRunner,
    batch,
    ...rest
  ) {
    const running = await submit.call(this, batch, ...rest);
    seen.rows += batch.sources.length;
    seen.unknown += batch.sources.filter((source) => (source & FROM_SAMPLED) !== 0).length;
    seen.inFlight += 1;
    seen.most = Math.max(seen.most, seen.inFlight);
    running.tokens.finally(() => {
      seen.inFlight -= 1;
    });
    return running;
  });
  return seen;
}

async function answers(options: Partial<EngineOptions>, requests: readonly LocalRequest[]) {
  const engine = await openEngine(options);
  const seen = watchSteps();
  const all = await Promise.all(requests.map((request) => complete(engine, request)));
  expect(engine.status().usedTokens).toBe(0);
  await engine.close();
  vi.restoreAllMocks();
  return { seen, answers: all.map(({ tokens, last }) => ({ tokens, logprobs: last.logprobs })) };
}

describe("steps ahead of the one that runs", () => {
  test("change no token and no log-probability, and compute no row too many", async () => {
    const penalties = { repetitionPenalty: 1.3, frequencyPenalty: 0.2, presencePenalty: 0.4 };
    const requests: LocalRequest[] = [
      { tokens: prompt(1), sampling: { ...LONG, seed: 1 }, logprobs: { topCount: 2 } },
      { tokens: prompt(2, 40), sampling: { ...LONG, ...penalties, seed: 2 } },
      { tokens: prompt(3, 3), sampling: { ...LONG, temperature: 0, maxNewTokens: 5 } },
      { tokens: prompt(4), sampling: { ...LONG, logitBias: { 77: 4 }, minNewTokens: 9, seed: 3 } },
    ];
    const alone = await answers({ overlapSchedule: false }, requests);
    const ahead = await answers({}, requests);
    expect(ahead.answers).toEqual(alone.answers);
    expect(alone.seen).toMatchObject({ most: 1, unknown: 0 });
    expect(ahead.seen.most).toBeGreaterThan(1);
    expect(ahead.seen.most).toBeLessThanOrEqual(MOST_IN_FLIGHT);
    // All generated tokens but the last of each go on from the GPU's memory.
    const generated = 3 * LONG.maxNewTokens + 5;
    expect(ahead.seen.unknown).toBe(generated - requests.length);
    expect(ahead.seen.rows).toBe(alone.seen.rows);
  });

  test("are only prepared for requests whose next row needs no token on the host", async () => {
    const processed = vi.fn();
    const requests: LocalRequest[] = [
      { tokens: prompt(1), sampling: { ...LONG, seed: 1 } },
      {
        tokens: prompt(2),
        sampling: { ...LONG, temperature: 0 },
        logitProcessors: [
          ({ tokens, logits }) => {
            processed(tokens.length);
            logits[50 + tokens.length] = 1e6;
          },
        ],
      },
    ];
    const { answers: got, seen } = await answers({}, requests);
    const lengths = Array.from({ length: LONG.maxNewTokens }, (_, i) => prompt(2).length + i);
    expect(processed.mock.calls.flat()).toEqual(lengths);
    expect(got[1]!.tokens).toEqual(lengths.map((length) => 50 + length));
    const [alone] = (await answers({ overlapSchedule: false }, requests.slice(0, 1))).answers;
    expect(got[0]).toEqual(alone);
    expect(seen.unknown).toBe(LONG.maxNewTokens - 1);
  });

  test("verify drafts that the host has not seen, where no row before them asks for more", async () => {
    const options = { prefixCache: false };
    const speculation = { algorithm: "EAGLE", adaptive: "off" } as const;
    const processor = () => {};
    const sampling = { ...LONG, temperature: 0, maxNewTokens: 40 };
    const requests: LocalRequest[] = [
      { messages: chat("Tell me a story."), sampling, logprobs: { topCount: 2 } },
      { messages: chat("How are you?"), sampling: { ...sampling, temperature: 0.7, seed: 5 } },
      // They wait for the host, at first or always.
      { messages: chat("Hello!"), sampling: { ...sampling, minNewTokens: 9 } },
      { messages: chat("Who are you?"), sampling: { ...sampling, frequencyPenalty: 0.3 } },
      { messages: chat("What can you do?"), sampling, logitProcessors: [processor] },
    ].map((request, i) => ({ ...request, requestId: `${i}` }));
    const continued = async (more: Partial<EngineOptions>) => {
      const watch = new StepWatch();
      const { answers: got, seen } = await answers({ ...options, ...more }, requests);
      const requestIds = new Set(watch.steps.flatMap((step) => step.continued));
      return { got, most: seen.most, requestIds: [...requestIds].sort() };
    };
    const plain = await continued({});
    const alone = await continued({ speculation, overlapSchedule: false });
    const ahead = await continued({ speculation });
    expect(alone.got).toEqual(plain.got);
    expect(ahead.got).toEqual(plain.got);
    expect(plain.requestIds).toEqual([]);
    expect(alone.requestIds).toEqual([]);
    expect(ahead.requestIds).toEqual(["0", "1", "2"]);
    expect(ahead.most).toBeGreaterThan(1);
  });

  test("cost a request that ends unforeseen a few rows, and leave nothing behind", async () => {
    const end = {
      ...LONG,
      ignoreEos: false,
      temperature: 0,
      logitBias: { 77: 1e6 },
      stopTokenIds: [77],
    };
    const requests = (engine: Engine) =>
      Promise.all([
        complete(engine, { tokens: prompt(1), sampling: end }),
        complete(engine, { tokens: prompt(2), sampling: { ...LONG, seed: 1 } }),
      ]);
    const engine = await openEngine({ prefixCache: false });
    const seen = watchSteps();
    const [ended, other] = await requests(engine);
    expect(ended.tokens).toEqual([77]);
    const needed = 2 * prompt(1).length + LONG.maxNewTokens - 1;
    expect(seen.rows).toBeGreaterThan(needed);
    expect(seen.rows).toBeLessThan(needed + MOST_IN_FLIGHT);
    expect(engine.status().usedTokens).toBe(0);
    expect((await requests(engine))[1].tokens).toEqual(other.tokens);
    await engine.close();
  });
});
