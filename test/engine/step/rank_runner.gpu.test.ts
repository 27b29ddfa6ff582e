import { afterEach, expect, test, vi } from "vitest";
import { Engine, type LocalRequest } from "../../../src/engine/engine.ts";
import { Sampler } from "../../../src/engine/sample/sampler.ts";
import { ModelRunner } from "../../../src/engine/step/model_runner.ts";
import { InvalidRequestError } from "../../../src/errors.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { device, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { chat, complete, EMBEDDED_MODEL, openEngine } from "../../support/engines/engine.ts";
import { openLosingEngine } from "../../support/engines/losing_engine.ts";

const open = (tensorParallelSize: number) =>
  openEngine({ tensorParallelSize, maxRowsPerStep: 64, maxTotalTokens: 512, contextLength: 256 });
const GREEDY = { temperature: 0, maxNewTokens: 6, ignoreEos: true };

afterEach(() => vi.restoreAllMocks());

async function answersOf(size: number, requests: readonly LocalRequest[]) {
  const engine = await open(size);
  try {
    return await Promise.all(requests.map((request) => complete(engine, request)));
  } finally {
    await engine.close();
  }
}

test("a logit processor sees each row once, and an answer's log-probabilities come once", async () => {
  const calls: number[][] = [];
  const request = (): LocalRequest => ({
    requestId: "processed",
    messages: chat("How are you?"),
    sampling: GREEDY,
    logprobs: { topCount: 2, promptStart: 0 },
    logitProcessors: [
      ({ tokens, logits }) => {
        calls.push([tokens.length, logits[7]!]);
        logits[40 + tokens.length] = 1e6;
      },
    ],
  });
  const [alone] = await answersOf(1, [request()]);
  const seenAlone = calls.splice(0);
  const [shared] = await answersOf(2, [request()]);
  expect(shared).toEqual(alone);
  expect(calls).toEqual(seenAlone);
  expect(calls.length).toBe(GREEDY.maxNewTokens);
});

test("an answer by a grammar is that of one rank", async () => {
  const requests = (): LocalRequest[] => [
    {
      messages: chat("Write a person as JSON."),
      sampling: {
        maxNewTokens: 24,
        temperature: 0.7,
        seed: 7,
        jsonSchema: JSON.stringify({
          type: "object",
          properties: { name: { type: "string", maxLength: 12 }, age: { type: "integer" } },
          required: ["name", "age"],
        }),
      },
    },
  ];
  const [alone] = await answersOf(1, requests());
  const [shared] = await answersOf(2, requests());
  expect([shared!.text, shared!.tokens]).toEqual([alone!.text, alone!.tokens]);
});

test("what one rank has no memory for ends the request that asked, and no rank computes it", async () => {
  const engine = await open(2);
  const { makeRoom } = Sampler.prototype;
  const samplers = new Set<Sampler>();
  vi.spyOn(Sampler.prototype, "makeRoom").mockImplementation(function (this: Sampler, rows) {
    samplers.add(this);
    // The second rank has none for penalties.
    if ([...samplers].indexOf(this) !== 1) return makeRoom.call(this, rows);
    const sampled = rows.sampled.map((row) => {
      if (row.penalties === undefined) return row;
      row.fail?.(new RangeError("no memory here"));
      return { ...row, penalties: undefined };
    });
    return makeRoom.call(this, { ...rows, sampled });
  });
  const plain = { messages: chat("What is 12 + 7?"), sampling: GREEDY };
  const penalized = { ...plain, sampling: { ...GREEDY, repetitionPenalty: 1.5 } };
  const [kept, ended] = await Promise.allSettled([
    complete(engine, plain),
    complete(engine, penalized),
  ]);
  expect(samplers.size).toBe(2);
  expect(ended).toMatchObject({ status: "rejected", reason: { message: "no memory here" } });
  vi.restoreAllMocks();
  const [alone] = await answersOf(1, [plain]);
  expect(kept).toMatchObject({ status: "fulfilled", value: { tokens: alone!.tokens } });
  expect((await complete(engine, plain)).tokens).toEqual(alone!.tokens);
  await engine.close();
});

test("ranks that draw different tokens end the engine, and say so", async () => {
  const engine = await open(2);
  const { submit } = ModelRunner.prototype;
  const runners = new Set<ModelRunner>();
  vi.spyOn(ModelRunner.prototype, "submit").mockImplementation(async function (
    this: ModelRunner,
    ...given
  ) {
    runners.add(this);
    const step = await submit.apply(this, given);
    if ([...runners].indexOf(this) !== 1) return step;
    return { ...step, tokens: step.tokens.then((tokens) => tokens.map((token) => token + 1)) };
  });
  const request = { messages: chat("How are you?"), sampling: GREEDY };
  await expect(complete(engine, request)).rejects.toThrow(
    /ranks.*they drew \d+ and \d+ from row 0/,
  );
  await engine.close();
});

test.skipIf(smallestCaseOnly)("answers go on when the device of all ranks is lost", async () => {
  const given = { recoveryWaits: [0], maxTotalTokens: 512, contextLength: 256 };
  const losing = await openLosingEngine({ ...given, tensorParallelSize: 2 });
  const { engine } = losing;
  const request = { messages: chat("Tell me a story."), sampling: { ...GREEDY, maxNewTokens: 20 } };
  const { tokens } = await complete(engine, request);
  losing.lossesAfter = [7];
  expect((await complete(engine, request)).tokens).toEqual(tokens);
  expect(engine.status()).toMatchObject({ healthy: true, recoveries: 1, usedTokens: 0 });
  await engine.close();
});

test.each([0, 1.5, 65])("%d ranks are refused", async (tensorParallelSize) => {
  const load = Engine.load(folderSource(EMBEDDED_MODEL), { device, tensorParallelSize });
  await expect(load).rejects.toThrow(InvalidRequestError);
  await expect(load).rejects.toThrow(
    `Cannot use tensorParallelSize ${tensorParallelSize}: it must be a whole number from 1 to 64`,
  );
});

test("the memory of the device is that of all ranks", async () => {
  const [one, two] = [await open(1), await open(2)];
  const { weightBytes, deviceMemory, cacheTokens } = two.memoryPlan;
  expect(deviceMemory).toBe(one.memoryPlan.deviceMemory);
  expect(cacheTokens).toBe(one.memoryPlan.cacheTokens);
  // Both have first projections, router and norms, and what cannot be cut.
  expect(weightBytes).toBeGreaterThan(one.memoryPlan.weightBytes);
  expect(weightBytes).toBeLessThan(2 * one.memoryPlan.weightBytes);
  expect([one.unshared, two.unshared.map(({ name }) => name)]).toEqual([[], ["self_attn"]]);
  for (const engine of [one, two]) await engine.close();
});
