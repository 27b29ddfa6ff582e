/** Real replicas of which one loses its device, for a while or for good: the other goes on meanwhile. */
import { afterEach, expect, test } from "vitest";
import { DeviceError } from "../../../src/errors.ts";
import type { GenerationEngine, GenerationRequest } from "../../../src/generation.ts";
import { deviceFactory } from "../../../src/node/device/device.ts";
import { ReplicatedEngine } from "../../../src/parallel/replicas/replicated_engine.ts";
import { complete, openEngine } from "../../support/engines/engine.ts";
import { openLosingEngine } from "../../support/engines/losing_engine.ts";
import { until } from "../../support/until.ts";

let engine: ReplicatedEngine | undefined;
afterEach(async () => {
  await engine?.close();
});

const request = (rank?: number): GenerationRequest => ({
  prompt: "The capital of Japan is",
  sampling: { temperature: 0, maxNewTokens: 24, ignoreEos: true },
  ...(rank !== undefined && { dataParallelRank: rank }),
});

/** Who answers, and with what. */
async function answer(of: GenerationEngine, rank?: number) {
  const { tokens, last } = await complete(of, request(rank));
  return { tokens, rank: last.dataParallelRank };
}

test("a replica whose device is replaced gets nothing new meanwhile, and its requests go on", async () => {
  const gate = { open: () => {} };
  const opened = new Promise<void>((resolve) => {
    gate.open = resolve;
  });
  const open = deviceFactory();
  const losing = await openLosingEngine({}, () => opened.then(open));
  engine = new ReplicatedEngine([losing.engine, await openEngine()]);
  const [first, second] = [await answer(engine), await answer(engine)];
  expect([first.rank, second.rank]).toEqual([0, 1]);
  expect(first.tokens).toEqual(second.tokens);
  losing.lossesAfter.push(3);
  const interrupted = answer(engine, 0);
  await until(() => expect(engine!.status().replicas![0]!.recovering).toBe(true));
  expect(engine.status()).toMatchObject({ healthy: true, recovering: false, recoveries: 0 });
  const meanwhile = [await answer(engine), await answer(engine), await answer(engine)];
  expect(meanwhile.map(({ rank }) => rank)).toEqual([1, 1, 1]);
  gate.open();
  expect(await interrupted).toEqual({ tokens: first.tokens, rank: 0 });
  expect(engine.status()).toMatchObject({ recovering: false, recoveries: 1 });
  const after = [await answer(engine), await answer(engine)];
  expect(after.map(({ rank }) => rank)).toEqual([0, 1]);
  for (const one of [...meanwhile, ...after]) expect(one.tokens).toEqual(first.tokens);
});

test("a replica that is gone for good fails its requests, and later ones go to the other", async () => {
  const device = await deviceFactory()();
  engine = new ReplicatedEngine([await openEngine({ device }), await openEngine()]);
  const { tokens } = await answer(engine, 1);
  const failing = engine.generate(request(0))[Symbol.asyncIterator]();
  await failing.next();
  device.destroy();
  const rest = (async () => {
    for (;;) if ((await failing.next()).done) return;
  })();
  await expect(rest).rejects.toThrow(DeviceError);
  expect(engine.status()).toMatchObject({ healthy: true, recovering: false });
  const later = [await answer(engine), await answer(engine)];
  expect(later).toEqual([0, 1].map(() => ({ tokens, rank: 1 })));
  await expect(answer(engine, 0)).rejects.toThrow(DeviceError);
  expect(await engine.flushCache()).toBe(true);
});
