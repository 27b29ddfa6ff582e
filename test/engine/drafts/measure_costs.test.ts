import { describe, expect, test, vi } from "vitest";
import { type MeasuredModel, measureCosts } from "../../../src/engine/drafts/measure_costs.ts";
import type { StepOptions } from "../../../src/engine/step/step_runner.ts";
import type { Batch } from "../../../src/layers/batch.ts";

interface Sizes {
  readonly cacheTokens: number;
  readonly pageSize: number;
  readonly maxDrafts: number;
  readonly draftSteps: number;
  readonly maxRunningRequests: number;
}

/** The steps that are timed of a model, each of which takes a millisecond by a clock of their own. */
async function timedSteps({ cacheTokens, ...sizes }: Sizes) {
  const steps: { readonly batch: Batch; readonly options: StepOptions }[] = [];
  const clock = vi.spyOn(performance, "now").mockImplementation(() => steps.length);
  const model = {
    options: { ...sizes, maxGeneratedRows: 64 },
    memoryBudget: { cacheTokens },
    definition: { shape: { vocabularySize: 512 } },
    runner: {
      async submit(batch: Batch, _: unknown, options: StepOptions) {
        steps.push({ batch, options });
        return { tokens: Promise.resolve(new Uint32Array()), drafts: Promise.resolve([]) };
      },
    },
  } as unknown as MeasuredModel;
  try {
    await measureCosts(model);
  } finally {
    clock.mockRestore();
  }
  return steps;
}

const SMALL = { cacheTokens: 2048, pageSize: 4, maxDrafts: 3, draftSteps: 3 };

describe("steps that are timed", () => {
  test.each([
    ["more sequences than rows of a size", { ...SMALL, maxRunningRequests: 64 }, 64],
    ["sequences of several rows", { ...SMALL, maxRunningRequests: 5 }, 16],
    [
      "a cache for fewer sequences than may run",
      { ...SMALL, cacheTokens: 52, maxRunningRequests: 64 },
      16,
    ],
    [
      "a cache that is full of one sequence",
      { ...SMALL, cacheTokens: 8, maxRunningRequests: 64 },
      4,
    ],
    ["pages of a token", { ...SMALL, pageSize: 1, maxRunningRequests: 64 }, 64],
    ["drafts of what was said before", { ...SMALL, draftSteps: 0, maxRunningRequests: 16 }, 64],
  ])("have pages of their own for each sequence: %s", async (_, sizes, mostRows) => {
    const { cacheTokens, pageSize, maxRunningRequests, draftSteps } = sizes;
    const steps = await timedSteps(sizes);
    expect(Math.max(...steps.map(({ batch }) => batch.sources.length))).toBe(mostRows);
    expect(steps.some(({ options }) => options.drafts?.steps === draftSteps)).toBe(draftSteps > 0);
    for (const { batch, options } of steps) {
      const { sequences, sources } = batch;
      expect(sequences.length).toBeLessThanOrEqual(maxRunningRequests);
      const pages = sequences.flatMap(({ pageTable }) => [...pageTable]);
      expect(new Set(pages).size).toBe(pages.length);
      expect(Math.max(...pages)).toBeLessThan(cacheTokens / pageSize);
      let rows = 0;
      const short = sequences.filter(({ queryStart, queryLength, position, pageTable }) => {
        const isBehind = queryStart === rows;
        rows += queryLength;
        // Its drafts are written behind its rows.
        const written = position + queryLength + (options.drafts?.steps ?? 0);
        return !isBehind || pageTable.length * pageSize < written;
      });
      expect(short).toEqual([]);
      expect(rows).toBe(sources.length);
    }
  });
});
