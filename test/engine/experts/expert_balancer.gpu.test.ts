import { describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import type { RebalanceEvent } from "../../../src/engine/experts/expert_balancer.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { fullTest } from "../../support/devices/gpu.ts";
import { complete, openEngine } from "../../support/engines/engine.ts";
import {
  answersOfOne,
  closeRanks,
  expectAlike,
  expectBits,
} from "../../support/engines/rank_answers.ts";

const OPTIONS = { maxTotalTokens: 512, maxRowsPerStep: 16, prefixCache: false } as const;
const REBALANCE = { everySteps: 4, minBalancedness: 1 };
const SCHEMA = { type: "object", properties: { a: { type: "integer" } }, required: ["a"] };

/** Requests that come one after the other while others run. */
async function answers(engine: Engine): Promise<unknown[]> {
  const requests = [5, 9, 7].map((length, i) =>
    complete(engine, {
      tokens: Array.from({ length }, (_, t) => 20 * i + t + 3),
      sampling: { temperature: 1, seed: i, maxNewTokens: 14, ignoreEos: true },
      logprobs: { topCount: 2 },
    }),
  );
  const constrained = complete(engine, {
    tokens: [40, 41, 42],
    sampling: { temperature: 1, seed: 9, maxNewTokens: 14, jsonSchema: SCHEMA },
  });
  const all = await Promise.all([...requests, constrained]);
  return all.map(({ tokens, text, last }) => ({ tokens, text, finish: last.finish }));
}

async function answersOf(options: Partial<LoadOptions>): Promise<unknown[]> {
  const engine = await openEngine({ ...OPTIONS, ...options });
  const all = await answers(engine);
  await engine.close();
  return all;
}

describe("experts that move while answers are made", () => {
  const cases: readonly (readonly [string, Partial<LoadOptions>])[] = [
    [
      "copies, all layers at once, a rank for each row",
      { experts: { redundant: 4, allToAll: "normal", rebalance: REBALANCE } },
    ],
    [
      "no copies, a layer at a time, any slot",
      { experts: { dispatch: "dynamic", rebalance: { ...REBALANCE, layersAtOnce: 1 } } },
    ],
    [
      "drafts of the module, by each step",
      {
        experts: { redundant: 2, balance: "deepseek_vec", rebalance: REBALANCE },
        speculation: { algorithm: "NEXTN" },
      },
    ],
  ];

  test.each(fullTest ? cases : cases.slice(0, 2))("%s: the same answers", async (_, options) => {
    const { experts: _experts, ...alone } = options;
    const want = await answersOf(alone);
    const events: RebalanceEvent[] = [];
    const onRebalance = (event: RebalanceEvent) => events.push(event);
    const got = await answersOf({ ...options, tensorParallelSize: 2, onRebalance });
    expect(got).toEqual(want);
    const finished = events.filter((event) => event.kind === "finished");
    expect(finished.length).toBeGreaterThan(1);
    expect(finished[0]!.moved).toBeGreaterThan(0);
  });

  test("what ranks have to do becomes more even", async () => {
    const events: RebalanceEvent[] = [];
    const engine = await openEngine({
      ...OPTIONS,
      tensorParallelSize: 4,
      experts: { redundant: 4, rebalance: { everySteps: 8, minBalancedness: 0.99 } },
      onRebalance: (event) => events.push(event),
    });
    const measure = async () => {
      await engine.recordExperts("start");
      await complete(engine, {
        tokens: [7, 7, 7],
        sampling: { temperature: 0, maxNewTokens: 10, ignoreEos: true },
      });
      return engine.recordExperts("dump");
    };
    await measure();
    const moved = events.find((event) => event.kind === "finished")!;
    expect(moved.after).toBeGreaterThan(moved.before + 0.05);
    await engine.close();
  });

  test("a load that is even enough moves nothing", async () => {
    const events: RebalanceEvent[] = [];
    await answersOf({
      tensorParallelSize: 2,
      experts: { rebalance: { everySteps: 4, minBalancedness: 0 } },
      onRebalance: (event) => events.push(event),
    });
    expect(new Set(events.map(({ kind }) => kind))).toEqual(new Set(["skipped"]));
  });

  test("is refused where every rank has all experts", async () => {
    const opening = openEngine({ ...OPTIONS, experts: { rebalance: REBALANCE } });
    await expect(opening).rejects.toThrow(
      "Cannot move experts between ranks: every rank has all of them",
    );
  });
});

/** Any placement and back again, over all that an expert may consist of. */
describe.runIf(fullTest)("slots hold what they should after moves", () => {
  const PLACED = [7, 6, 5, 4, 3, 2, 1, 0, 7, 6, 5, 4];
  const GQA = { hidden_size: 64, intermediate_size: 64, num_attention_heads: 4, vocab_size: 264 };
  const models = [
    ["FP8 in blocks", randomDeepseek({ config: { n_routed_experts: 8 }, dtype: "FP8" })],
    [
      "MXFP4 with biases",
      randomGqa({ family: "gptOss", config: { ...GQA, num_local_experts: 8 } }),
    ],
  ] as const;

  test.each(models)("%s", async (_, source) => {
    const want = await answersOfOne(source);
    for (const size of [2, 4]) {
      const ranks = await expectAlike(source, want, { size, experts: { redundant: 4 } });
      const { layers } = ranks[0]!.session.loaded.definition.shape;
      for (const after of [PLACED, [...PLACED].reverse()]) {
        for (let layer = 0; layer < layers; layer++) {
          await Promise.all(
            ranks.map(({ session }) => session.loaded.runner.moveExperts(layer, after)),
          );
        }
        await expectBits(ranks, want);
      }
      closeRanks(ranks);
    }
  });

  test("moves that fail leave no step to be computed", async () => {
    const source = randomDeepseek({ config: { n_routed_experts: 8 } });
    const options = { size: 2, experts: { redundant: 4 } };
    const ranks = await expectAlike(source, await answersOfOne(source), options);
    const [first, second] = ranks.map(({ session }) => session);
    second!.close();
    const { runner } = first!.loaded;
    await expect(runner.moveExperts(1, [...PLACED])).rejects.toThrow("its model is not loaded");
    const part = { sequence: first!.sequence([1, 2]), phase: "prefill", count: 2 } as const;
    await expect(first!.run([part])).rejects.toThrow("they could not be moved");
    first!.close();
  });
});
