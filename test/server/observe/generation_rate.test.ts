import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { GenerationChunk } from "../../../src/generation.ts";
import { GenerationRate } from "../../../src/server/observe/generation_rate.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Sends chunks of that many tokens, one every so many milliseconds. */
function generate(rate: GenerationRate, count: number, tokens: number, every: number): void {
  const request = rate.observer({ prompt: "a" });
  for (let i = 0; i < count; i++) {
    vi.advanceTimersByTime(every);
    request.chunk({ tokens: new Array(tokens).fill(5) } as unknown as GenerationChunk);
  }
  request.end({ type: "finished", finish: { type: "stop", matched: 1 } });
}

test("GenerationRate tells the tokens of a second, also of short runs and after a pause", () => {
  const rate = new GenerationRate();
  expect(rate.tokensPerSecond()).toBe(0);
  generate(rate, 7, 1, 100);
  expect(rate.tokensPerSecond()).toBeCloseTo(10);
  vi.advanceTimersByTime(60_000);
  expect(rate.tokensPerSecond()).toBeCloseTo(10);
  generate(rate, 100, 3, 20);
  expect(rate.tokensPerSecond()).toBeCloseTo(150);
});

test("GenerationRate counts what requests generate together, not chunks without tokens", () => {
  const rate = new GenerationRate();
  for (let i = 0; i < 30; i++) {
    generate(rate, 1, 2, 25);
    generate(rate, 1, 2, 25);
    generate(rate, 1, 0, 0);
  }
  expect(rate.tokensPerSecond()).toBeCloseTo(80);
});

test("GenerationRate tells the replicas apart", () => {
  const rate = new GenerationRate();
  const request = rate.observer({ prompt: "a" });
  const chunk = (dataParallelRank: number, count: number) =>
    ({ tokens: new Array(count).fill(5), dataParallelRank }) as unknown as GenerationChunk;
  for (let i = 0; i < 7; i++) {
    vi.advanceTimersByTime(100);
    request.chunk(chunk(0, 1));
    request.chunk(chunk(1, 3));
  }
  expect(rate.tokensPerSecond(0)).toBeCloseTo(10);
  expect(rate.tokensPerSecond(1)).toBeCloseTo(30);
  expect(rate.tokensPerSecond(2)).toBe(0);
});
