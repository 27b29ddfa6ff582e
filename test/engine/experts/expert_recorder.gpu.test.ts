import { describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import type { BalanceReport } from "../../../src/engine/experts/balance_watch.ts";
import {
  ExpertRecorder,
  MAX_RECORDED_NUMBERS,
} from "../../../src/engine/experts/expert_recorder.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { ExpertCounts } from "../../../src/engine/step/expert_counter.ts";
import { UnsupportedError } from "../../../src/errors.ts";
import { Readback } from "../../../src/gpu/readback.ts";
import type { ExpertOptions } from "../../../src/parallel/experts/expert_options.ts";
import { randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { device } from "../../support/devices/gpu.ts";
import { complete, openEngine } from "../../support/engines/engine.ts";
import { ModelSession } from "../../support/engines/model_session.ts";

const EXPERTS = 8;
const CHOSEN = 3;
/** The first is dense. */
const CONFIG = {
  hidden_size: 64,
  n_routed_experts: EXPERTS,
  num_experts_per_tok: CHOSEN,
  num_hidden_layers: 3,
  vocab_size: 264,
};
const PROMPTS = [
  [1, 2, 3, 4, 5, 6, 7, 8, 9],
  [11, 12, 13, 14],
  [21, 22],
];
const NEW_TOKENS = 6;
/** The last token of an answer is never a row. */
const ROWS = PROMPTS.reduce((rows, { length }) => rows + length + NEW_TOKENS - 1, 0);

/** Of the embedded model: five layers, of which the first is dense. */
const EMBEDDED = { layers: 5, chosen: 2 };

const open = (ranks = 1, experts?: ExpertOptions, others: Partial<LoadOptions> = {}) =>
  openEngine({
    maxTotalTokens: 512,
    maxRowsPerStep: 8,
    prefixCache: false,
    tensorParallelSize: ranks,
    experts,
    ...others,
  });

/** Together: steps have rows of padding, and prompts are cut. */
async function answer(engine: Engine): Promise<(readonly number[])[]> {
  const all = await Promise.all(
    PROMPTS.map((tokens, i) => {
      const sampling = { temperature: 1, seed: i, maxNewTokens: NEW_TOKENS, ignoreEos: true };
      return complete(engine, { tokens, sampling });
    }),
  );
  return all.map(({ tokens }) => tokens);
}

const sum = (list: Iterable<number>) => [...list].reduce((total, count) => total + count, 0);

describe("what a step has chosen", () => {
  test("equals a count of its choices by hand", async () => {
    const session = await ModelSession.open(randomDeepseek({ config: CONFIG }));
    const { recorder } = session.loaded.runner;
    const rows = 7;
    const readback = new Readback(device, rows * (CHOSEN + 1) * 4, 2);
    for (const tokens of [PROMPTS[0]!, [200, 201, 202, 203, 204, 205, 206]]) {
      const chosen: (() => Promise<ArrayBuffer>)[] = [];
      let counted: ExpertCounts | undefined;
      await session.run([{ sequence: session.sequence(tokens), phase: "prefill", count: rows }], {
        onTap: (name, tensor) => {
          if (!/^layer[12]\.experts$/.test(name)) return;
          chosen.push(readback.record(recorder, tensor, rows * (CHOSEN + 1) * 4));
        },
        onExperts: (counts) => {
          counted = counts;
        },
      });
      const byHand = await Promise.all(
        chosen.map(async (read) => {
          const counts = Array<number>(EXPERTS + 1).fill(0);
          for (const expert of new Uint32Array(await read())) counts[expert]! += 1;
          // The last is the shared expert, which all rows have.
          return counts.slice(0, EXPERTS);
        }),
      );
      expect(counted!.layers).toEqual([1, 2]);
      expect([...counted!.counts]).toEqual(byHand.flat());
      expect(sum(counted!.counts)).toBe(2 * rows * CHOSEN);
      // What is not counted is not in the next counts either.
      await session.run([{ sequence: session.sequence([5, 6]), phase: "prefill", count: 2 }]);
    }
    readback.destroy();
    session.close();
  });
});

describe("recordExperts", () => {
  test.each([1, 2])("%i ranks: all rows of all steps, and none of padding", async (ranks) => {
    const engine = await open(ranks);
    const silent = await answer(engine);
    expect(await engine.recordExperts("dump")).toEqual({
      ...{ mode: "stat", records: [], placement: expect.any(Array) },
      isRecording: false,
      passes: 0,
      logicalCount: Array.from({ length: EMBEDDED.layers }, () => Array(EXPERTS).fill(0)),
      balancedness: null,
    });
    expect(await engine.recordExperts("start")).toMatchObject({ isRecording: true, passes: 0 });
    expect(await answer(engine)).toEqual(silent);
    const record = await engine.recordExperts("dump");
    expect(record.isRecording).toBe(true);
    const each = ROWS * EMBEDDED.chosen;
    expect(record.logicalCount.map(sum)).toEqual([0, each, each, each, each]);
    expect(record.passes).toBeGreaterThan(NEW_TOKENS);
    if (ranks === 1) expect(record.balancedness).toBe(1);
    else expect(record.balancedness).toBeLessThan(1);
    // A dump begins anew.
    expect((await engine.recordExperts("dump")).passes).toBe(0);
    await engine.recordExperts("stop");
    await answer(engine);
    expect((await engine.recordExperts("dump")).passes).toBe(0);
    await engine.close();
  });

  test.each([1, 2])("%i ranks, per_pass: the rows of each slot in each step", async (ranks) => {
    const redundant = 2;
    const engine = await open(ranks, { recorderMode: "per_pass", redundant });
    await answer(engine);
    await engine.recordExperts("start");
    await answer(engine);
    const { records, placement, logicalCount, passes } = await engine.recordExperts("dump");
    expect(records).toHaveLength(passes);
    const numbers = records.map(({ forwardPass }) => forwardPass);
    expect(numbers[0]).toBeGreaterThan(NEW_TOKENS);
    expect(numbers).toEqual(numbers.map((_, i) => numbers[0]! + i));
    expect(placement.map(({ length }) => length)).toEqual(
      Array(EMBEDDED.layers).fill(EXPERTS + redundant),
    );
    // Slots of an expert together have what was counted of it.
    const sums = logicalCount.map((layer) => layer.map(() => 0));
    for (const { slotCounts, rows } of records) {
      expect(rows).toBeUndefined();
      slotCounts!.forEach((counts, layer) => {
        counts.forEach((count, slot) => {
          sums[layer]![placement[layer]![slot]!]! += count;
        });
      });
    }
    expect(sums).toEqual(logicalCount);
    const copied = records.some(({ slotCounts }) => slotCounts!.some((one) => one.at(-1)! > 0));
    // One rank has its own first slot of each expert.
    expect(copied).toBe(ranks > 1);
    await engine.close();
  });

  test.each([
    [1, {}],
    [2, { speculation: { algorithm: "NEXTN" } }],
  ] as const)(
    "%i ranks, per_token: what each row is and where it goes, %j",
    async (ranks, given) => {
      const engine = await open(ranks, { recorderMode: "per_token" }, given);
      await engine.recordExperts("start");
      const answers = await answer(engine);
      const { records, logicalCount, placement } = await engine.recordExperts("dump");
      const sums = logicalCount.map((layer) => layer.map(() => 0));
      const seen = new Set<string>();
      for (const { rows } of records) {
        const { tokens, positions, slots, perRow, extendLengths, forwardMode } = rows!;
        expect(perRow).toBe(EMBEDDED.chosen);
        expect(slots.map(({ length }) => length)).toEqual(
          Array(EMBEDDED.layers).fill(tokens.length * perRow),
        );
        expect(new Set(slots[0])).toEqual(new Set([-1]));
        slots.slice(1).forEach((list, i) => {
          for (const slot of list) sums[i + 1]![placement[i + 1]![slot]!]! += 1;
        });
        for (const [row, token] of tokens.entries()) seen.add(`${positions[row]}: ${token}`);
        const isPrompt = forwardMode === "extend" || forwardMode === "mixed";
        expect(sum(extendLengths) > 0).toBe(isPrompt);
      }
      expect(sums).toEqual(logicalCount);
      // Every row of prompts and answers but the last, also those whose tokens only the GPU knew.
      PROMPTS.forEach((prompt, i) => {
        const all = [...prompt, ...answers[i]!].slice(0, -1);
        expect(all.map((token, at) => `${at}: ${token}`).filter((one) => !seen.has(one))).toEqual(
          [],
        );
      });
      await engine.close();
    },
  );

  test("tells after every step how even it was", async () => {
    const reports: BalanceReport[] = [];
    const onExpertBalance = (report: BalanceReport) => reports.push(report);
    const engine = await open(2, {}, { onExpertBalance });
    await answer(engine);
    await engine.close();
    expect(sum(reports.map(({ choices }) => choices))).toBe(4 * ROWS * EMBEDDED.chosen);
    expect(reports.map(({ forwardPass }) => forwardPass)).toEqual(reports.map((_, i) => i));
    const { last10, last100, last1000 } = reports.at(-1)!;
    const all = reports.map(({ current }) => current);
    const mean = (list: readonly number[]) => sum(list) / list.length;
    expect(Math.max(...all)).toBeLessThan(1);
    expect(last10).toBeCloseTo(mean(all.slice(-10)), 12);
    expect(last100).toBeCloseTo(mean(all), 12);
    expect(last1000).toBe(last100);
  });

  test("records of steps are kept up to a size, the newest of them", () => {
    const rows = 2 ** 12;
    const steps = 2 * (MAX_RECORDED_NUMBERS / (rows * 10));
    const recorder = new ExpertRecorder({
      ...{ layers: 2, experts: 4, passes: 10_000, mode: "per_token" },
      layout: () => undefined,
    });
    recorder.record("start");
    const choices = {
      ...{ rows, tokens: new Int32Array(rows), positions: new Uint32Array(rows) },
      slots: new Uint32Array(2 * rows * 4),
    };
    for (let step = 0; step < steps; step++) {
      const take = recorder.nextStep({ sequences: [] });
      take!({ layers: [0, 1], counts: new Uint32Array(8), choices });
    }
    const { records, passes } = recorder.record("dump");
    expect(passes).toBe(Math.floor(MAX_RECORDED_NUMBERS / (rows * 10)));
    expect(records.at(-1)!.forwardPass).toBe(Math.ceil(steps) - 1);
  });

  test("keeps the last steps only", async () => {
    const engine = await open(1, { recordedPasses: 2 });
    await engine.recordExperts("start");
    await answer(engine);
    const { passes, logicalCount } = await engine.recordExperts("dump");
    expect(passes).toBe(2);
    // Of the last two steps of three answers.
    expect(sum(logicalCount[1]!)).toBeLessThanOrEqual(2 * PROMPTS.length * EMBEDDED.chosen);
    await engine.close();
  });

  test("is refused of a model without experts", async () => {
    const session = await ModelSession.open(randomGqa());
    const { layers } = session.loaded.definition.shape;
    const { experts } = session.loaded.definition.facts;
    const recorder = new ExpertRecorder({
      ...{ layers, experts: experts?.routed, passes: 1 },
      layout: () => undefined,
    });
    expect(() => recorder.record("start")).toThrow(UnsupportedError);
    session.close();
  });
});
