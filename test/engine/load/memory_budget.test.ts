import { describe, expect, test } from "vitest";
import { budgetMemory } from "../../../src/engine/load/memory_budget.ts";

/**
 * 100 bytes a token and layer, 2 layers; 1000 bytes of weights; half of 22,400 bytes to use, of which
 * a slot is for padding.
 */
const OPTIONS = {
  deviceMemory: 22_400,
  memFractionStatic: 0.5,
  weightBytes: 1000,
  workspace: {
    expandedEntry: undefined,
    splitLength: 2,
    chunkedPrefix: true,
    chunkedPrefixThreshold: 0,
  },
  maxRows: 4,
  contextLength: 1000,
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
])("budgetMemory caches %s", (_, options, tokens) => {
  const budget = budgetMemory({ ...OPTIONS, ...options });
  expect(budget).toMatchObject({
    cacheTokens: tokens,
    cacheBytes: (tokens + 1) * 200,
    budget: 11_200,
  });
});

test("budgetMemory keeps room for a picture beside weights and cache", () => {
  const vision = { weightBytes: 400, activationBytes: 2000 };
  const budget = budgetMemory({ ...OPTIONS, vision });
  expect(budget).toMatchObject({ cacheTokens: 40, weightBytes: 1000, vision });
  const full = () => budgetMemory({ ...OPTIONS, vision: { ...vision, activationBytes: 10_300 } });
  expect(full).toThrow(/its weights take 0\.0 MiB and pictures 0\.0 MiB, but only/);
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
])("budgetMemory refuses %s, with the figures that are to blame", (_, options, message) => {
  expect(() => budgetMemory({ ...OPTIONS, ...options })).toThrow(message);
});

describe("budgetMemory with a workspace of 50 bytes an entry", () => {
  const expandedEntry = { bytes: 50, widest: 30 };
  const workspace = { ...OPTIONS.workspace, expandedEntry };

  test("counts it beside weights and cache", () => {
    const budget = budgetMemory({ ...OPTIONS, workspace });
    // Two splits of two; what is left holds 49 slots and the one for padding.
    expect(budget).toMatchObject({ prefillCapacity: 4, workspaceBytes: 200, cacheTokens: 49 });
    expect(budget.weightBytes + budget.workspaceBytes + budget.cacheBytes).toBe(budget.budget);
    expect(budgetMemory(OPTIONS)).toMatchObject({ prefillCapacity: 0, workspaceBytes: 0 });
  });

  test("gives it an eighth of what weights leave at most", () => {
    const budget = budgetMemory({ ...OPTIONS, workspace: { ...workspace, chunkedPrefix: false } });
    // 10,200 bytes are left: 1275 hold 25 entries, whole splits are 24.
    expect(budget).toMatchObject({ prefillCapacity: 24, workspaceBytes: 1200, cacheTokens: 44 });
  });

  test("takes from it what a given number of tokens needs", () => {
    const given = { ...OPTIONS, wantedIsGiven: true };
    const whole = { ...workspace, chunkedPrefix: false };
    const budget = budgetMemory({ ...given, workspace: whole, wantedTokens: 48 });
    expect(budget).toMatchObject({ prefillCapacity: 8, cacheTokens: 48 });
    // One split there must be.
    const most = budgetMemory({ ...given, workspace: whole, wantedTokens: 49 });
    expect(most).toMatchObject({ prefillCapacity: 4, cacheTokens: 49 });
    expect(() => budgetMemory({ ...given, workspace: whole, wantedTokens: 50 })).toThrow(
      "beside weights of 0.0 MiB and 0.0 MiB to expand prompts in there is room for 49",
    );
    const full = { ...OPTIONS, weightBytes: 11_150 };
    expect(() => budgetMemory({ ...full, workspace })).toThrow("there is room for 0 ");
  });

  test("needs no more of it than the cache can come to hold", () => {
    const whole = { ...workspace, chunkedPrefix: false };
    // Keys of 12 tokens (11 and padding) and twice four rows.
    const budget = budgetMemory({ ...OPTIONS, workspace: whole, wantedTokens: 11 });
    expect(budget).toMatchObject({ prefillCapacity: 20, cacheTokens: 11 });
  });
});
