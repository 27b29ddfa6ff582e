/** What an engine tells of its steps: how many tokens they computed, and that none has finished. */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import type { StepReport } from "../../../src/engine/step/step_report.ts";
import { device } from "../../support/devices/gpu.ts";
import { complete, openEngine } from "../../support/engines/engine.ts";
import { until } from "../../support/until.ts";

const steps: StepReport[] = [];
let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ onStep: (step) => steps.push(step), chunkedPrefillSize: 16 });
});
afterAll(() => engine.close());

const tokens = (count: number) => Array.from({ length: count }, (_, i) => (i % 60) + 3);
const sum = (name: Exclude<keyof StepReport, "speculation">) =>
  steps.reduce((total, step) => total + step[name], 0);

test("steps tell what they computed, and what the cache had", async () => {
  const sampling = { maxNewTokens: 6, ignoreEos: true, temperature: 0 };
  steps.length = 0;
  await complete(engine, { tokens: tokens(40), sampling });
  expect(steps.slice(0, 3).map(({ prompts, promptTokens }) => [prompts, promptTokens])).toEqual([
    [1, 16],
    [1, 16],
    [1, 8],
  ]);
  expect(sum("cachedTokens")).toBe(0);
  // The first token comes from the prompt's last row, and no row follows the last token.
  expect(sum("decodedTokens")).toBe(5);
  expect(sum("sampledTokens")).toBe(6);

  steps.length = 0;
  await complete(engine, { tokens: tokens(40), sampling });
  expect(sum("promptTokens")).toBe(1);
  expect(sum("cachedTokens")).toBe(39);
});

test("tokens come in chunks of the request's interval", async () => {
  const sampling = { maxNewTokens: 10, ignoreEos: true, temperature: 0 };
  const lengths: number[] = [];
  const request = { tokens: tokens(5), sampling, streamInterval: 4 };
  for await (const chunk of engine.generate(request)) lengths.push(chunk.tokens.length);
  expect(lengths).toEqual([0, 1, 4, 4, 1]);
  await expect(complete(engine, { ...request, streamInterval: 0 })).rejects.toThrow(
    "streamInterval must be a whole number of at least 1",
  );
});

test("a GPU that does not answer shows in the status, and no longer once it does", async () => {
  expect(engine.status().stalledFor).toBe(0);
  const buffer = device.createBuffer({ size: 4, usage: GPUBufferUsage.MAP_READ });
  const prototype = Object.getPrototypeOf(buffer) as GPUBuffer;
  buffer.destroy();
  const mapAsync = prototype.mapAsync;
  let answer = () => {};
  const silence = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const spy = vi.spyOn(prototype, "mapAsync").mockImplementation(function (
    this: GPUBuffer,
    ...args
  ) {
    const mapped = mapAsync.apply(this, args);
    return silence.then(() => mapped);
  });
  try {
    const generated = complete(engine, { tokens: tokens(5), sampling: { maxNewTokens: 3 } });
    await until(() => expect(engine.status().stalledFor).toBeGreaterThan(0.2));
    expect(engine.status()).toMatchObject({ healthy: true, runningRequests: 1 });
    answer();
    await generated;
  } finally {
    answer();
    spy.mockRestore();
  }
  await until(() => expect(engine.status().stalledFor).toBe(0));
});
