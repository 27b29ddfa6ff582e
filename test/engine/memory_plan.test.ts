import { expect, test } from "vitest";
import { planMemory } from "../../src/engine/memory_plan.ts";

/**
 * 100 bytes a token and layer, 2 layers; 1000 bytes of weights; half of 22,400 bytes to use, of which
 * a slot is for padding.
 */
const OPTIONS = {
  deviceMemory: 22_400,
  memFractionStatic: 0.5,
  weightBytes: 1000,
  cache: { layers: 2, entryWidth: 50, dtype: "bf16" },
  pageSize: 1,
  wantedTokens: 1000,
  wantedIsGiven: false,
  maxTensorBytes: 1e6,
} as const;

test.each([
  ["what is wanted", { wantedTokens: 20 }, 20],
  ["what memory holds", {}, 50],
  ["what one binding holds", { maxTensorBytes: 3100 }, 30],
  ["whole pages", { pageSize: 16 }, 48],
])("planMemory caches %s", (_, options, tokens) => {
  const plan = planMemory({ ...OPTIONS, ...options });
  expect(plan).toMatchObject({
    cacheTokens: tokens,
    cacheBytes: (tokens + 1) * 200,
    budget: 11_200,
  });
});

test.each([
  ["weights", { weightBytes: 12_000 }, "its weights take"],
  ["more tokens than memory holds", { wantedIsGiven: true }, "there is room for 50"],
  [
    "more tokens than a binding holds",
    { wantedIsGiven: true, maxTensorBytes: 3100 },
    "that this adapter binds at once hold a layer's keys and values for 30",
  ],
  ["a cache that no sequence fits into", { weightBytes: 10_800 }, "there is room for 1 "],
])("planMemory refuses %s, with the figures that are to blame", (_, options, message) => {
  expect(() => planMemory({ ...OPTIONS, ...options })).toThrow(message);
});
