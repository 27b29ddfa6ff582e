import { describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { ExpertRecorder } from "../../../src/engine/experts/expert_recorder.ts";
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

const open = (ranks = 1, experts?: ExpertOptions) =>
  openEngine({
    maxTotalTokens: 512,
    maxRowsPerStep: 8,
    prefixCache: false,
    tensorParallelSize: ranks,
    experts,
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
