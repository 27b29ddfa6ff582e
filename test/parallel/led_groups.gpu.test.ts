/** Attention groups whose ranks are led by orders, as those of other processes are, answer what one rank does. */
import { setTimeout } from "node:timers/promises";
import { deserialize, serialize } from "node:v8";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { RebalanceEvent } from "../../src/engine/experts/expert_balancer.ts";
import { localGrammarService } from "../../src/engine/grammar/local_grammar_service.ts";
import {
  type GroupedOptions,
  loadGroupEngines,
  optionsOfGroup,
} from "../../src/engine/groups/attention_groups.ts";
import { ledAttentionGroups } from "../../src/engine/groups/led_groups.ts";
import { loadFollower } from "../../src/engine/ranks/follow_steps.ts";
import { OrderChannel } from "../../src/engine/ranks/order_channel.ts";
import type { RankOrder } from "../../src/engine/ranks/rank_orders.ts";
import { ModelRunner } from "../../src/engine/step/model_runner.ts";
import { GroupError, SpoiledError } from "../../src/errors.ts";
import type { GenerationEngine, GenerationRequest } from "../../src/generation.ts";
import { ExpertMover } from "../../src/layers/moe/expert_mover.ts";
import { deviceFactory } from "../../src/node/device/device.ts";
import { localGroup } from "../../src/parallel/local.ts";
import { ReplicatedEngine } from "../../src/parallel/replicas/replicated_engine.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { device, smallestCaseOnly } from "../support/devices/gpu.ts";
import { complete, openEngine } from "../support/engines/engine.ts";
import { answerOf } from "../support/mpi/engine_answers.ts";
import { until } from "../support/until.ts";

const FORMAT = { pack: serialize, unpack: deserialize };
const GIVEN = {
  ...{ triesInvariance: false, maxTotalTokens: 512, contextLength: 256, maxRowsPerStep: 64 },
  ...{ pageSize: 4, chunkedPrefillSize: 32, maxRunningRequests: 8 },
};
const open = () => folderSource(EMBEDDED_MODEL);

interface Layout {
  readonly ranks: number;
  readonly groups: number;
}

let closeLast: (() => Promise<unknown>) | undefined;
afterEach(async () => {
  vi.restoreAllMocks();
  await closeLast?.();
  closeLast = undefined;
});

/**
 * Groups that the first of so many ranks leads, all in this process.
 *
 * @param options Of all ranks. @param ofRank What a rank has of its own.
 */
async function openLed(
  { ranks, groups: attentionGroups }: Layout,
  options: Partial<GroupedOptions> = {},
  ofRank: (rank: number) => Partial<GroupedOptions> = () => ({}),
) {
  const [first, ...others] = localGroup(ranks);
  const given = { ...GIVEN, device, ...options, attentionGroups };
  const led = ledAttentionGroups({ communicator: first!, format: FORMAT }, attentionGroups);
  const following = others.map(async (communicator) => {
    const own = { ...optionsOfGroup(given, 0), ...ofRank(communicator.rank), attentionGroups };
    return (await loadFollower(open(), { communicator, format: FORMAT }, own))();
  });
  const done = Promise.allSettled(following);
  const engines = await loadGroupEngines(open, { ...given, ...ofRank(0) }, led);
  const engine = new ReplicatedEngine(engines);
  closeLast = async () => {
    await engine.close();
    await led.end().catch(() => {});
    await done;
  };
  return { engine, engines, end: () => led.end(), done };
}

const tokens = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 97 + i * i * 31) % 500));
const LENGTH = 10;
/** A token that only prompts of culprits have. */
const MARK = 2047;
const PLAIN = { maxNewTokens: LENGTH, ignoreEos: true };

/** All that a row can be drawn by. */
function requests(): readonly GenerationRequest[] {
  return [
    { tokens: tokens(1, 90), sampling: { ...PLAIN, temperature: 0 }, logprobs: { topCount: 2 } },
    {
      tokens: [...tokens(1, 80), ...tokens(2, 13)],
      sampling: { ...PLAIN, temperature: 0.9, topP: 0.95, topK: 40, seed: 5 },
      logprobs: { promptStart: 70, topCount: 1 },
    },
    {
      tokens: tokens(3, 21),
      sampling: { ...PLAIN, temperature: 1, seed: 6, minP: 0.02, repetitionPenalty: 1.3 },
      logprobs: { topCount: 1, promptStart: 0 },
    },
    {
      tokens: tokens(4, 9),
      sampling: {
        maxNewTokens: 2 * LENGTH,
        temperature: 0.7,
        seed: 7,
        regex: "[0-9]{2}( [a-z]+)+",
      },
      logprobs: { topCount: 40, tokenIds: [7, 9] },
    },
    {
      tokens: tokens(5, 33),
      sampling: {
        ...PLAIN,
        temperature: 0.8,
        seed: 8,
        frequencyPenalty: 0.6,
        logitBias: { 9: 99 },
      },
      logprobs: { topCount: 2 },
    },
  ];
}

/** Twice, so that each group gets each of them. */
const answers = async (engine: GenerationEngine) => {
  const all = [];
  for (let round = 0; round < 2; round++) {
    all.push(...(await Promise.all(requests().map((one) => answerOf(engine, one)))));
  }
  return all;
};

let wanted: Promise<unknown> | undefined;
function want() {
  wanted ??= (async () => {
    const alone = await openEngine({ ...GIVEN, prefixCache: false });
    const all = await answers(alone);
    await alone.close();
    return all;
  })();
  return wanted;
}

const DRAFTS = { algorithm: "EAGLE", numSteps: 3, eagleTopk: 1, numDraftTokens: 4 } as const;
const TREES = { ...DRAFTS, eagleTopk: 2, numDraftTokens: 6 } as const;
const CROWDED = { maxTotalTokens: 144, contextLength: 128, scheduleConservativeness: 0 };
const MOVING = { redundant: 4, rebalance: { everySteps: 3, minBalancedness: 1 } } as const;

const CASES: readonly (readonly [string, Layout, Partial<GroupedOptions>])[] = [
  [
    "four ranks, two groups, drafts of what was said before",
    { ranks: 4, groups: 2 },
    { speculation: { algorithm: "NGRAM", numDraftTokens: 4 } },
  ],
  [
    "two groups of one rank, drafts, retracted to host memory",
    { ranks: 2, groups: 2 },
    { ...CROWDED, speculation: DRAFTS, retractionMemory: 2 ** 24 },
  ],
  [
    "four ranks, two groups, drafts, retracted to host memory, heads of their own, experts that move",
    { ranks: 4, groups: 2 },
    {
      ...{ ...CROWDED, speculation: DRAFTS, retractionMemory: 2 ** 24 },
      ...{ headByGroup: true, experts: MOVING },
    },
  ],
  [
    "four groups, trees of drafts",
    { ranks: 4, groups: 4 },
    { speculation: TREES, wholeDenseLayers: true },
  ],
  [
    "two groups, drafts of another model",
    { ranks: 2, groups: 2 },
    { speculation: { ...DRAFTS, algorithm: "STANDALONE" }, draftModel: open() },
  ],
];

describe.skipIf(smallestCaseOnly)("groups that are led", () => {
  test.each(CASES)("%s", async (name, layout, options) => {
    const events: RebalanceEvent[] = [];
    const onRebalance = (event: RebalanceEvent) => void events.push(event);
    const { engine } = await openLed(layout, { ...options, onRebalance });
    await engine.recordExperts!("start");
    expect(await answers(engine)).toEqual(await want());
    const { logicalCount } = await engine.recordExperts!("dump");
    expect(logicalCount.flat().some((count) => count > 0)).toBe(true);
    const { retractions, replicas, speculation } = engine.status();
    expect(speculation!.proposedDrafts).toBeGreaterThan(0);
    expect(retractions > 0).toBe(name.includes("retracted"));
    expect(replicas).toHaveLength(layout.groups);
    const moved = events.some((event) => event.kind === "finished" && event.moved > 0);
    expect(moved).toBe(options.experts !== undefined);
  });
});

const TWO: Layout = { ranks: 2, groups: 2 };
/** Of a group. */
const asked = (group: number, more: Partial<GenerationRequest> = {}): GenerationRequest => ({
  prompt: "Once upon a time",
  sampling: { maxNewTokens: 24, ignoreEos: true, temperature: 0.8, seed: 4 },
  dataParallelRank: group,
  ...more,
});

let story: Promise<string> | undefined;
function wantedStory() {
  story ??= (async () => {
    const alone = await openEngine(GIVEN);
    const { dataParallelRank: _, ...own } = asked(0);
    const { text } = await complete(alone, own);
    await alone.close();
    return text;
  })();
  return story;
}

test.skipIf(smallestCaseOnly)(
  "devices of any rank are replaced for all groups, and requests go on",
  async () => {
    const want = await wantedStory();
    const devices: GPUDevice[][] = [[], [], [], []];
    const factory = (rank: number) => {
      const next = deviceFactory();
      return async () => {
        devices[rank]!.push(await next());
        return devices[rank]!.at(-1)!;
      };
    };
    // Four groups of one: that of the last rank is idle when it loses its device.
    const { engine } = await openLed({ ranks: 4, groups: 4 }, { recoveryWaits: [0] }, (rank) => ({
      device: factory(rank),
    }));
    for (const [loser, recoveries] of [
      [3, 1],
      [0, 2],
    ] as const) {
      const running = [0, 1].map((group) => complete(engine, asked(group)));
      await until(() => expect(engine.status().usedTokens).toBeGreaterThan(10));
      devices[loser]!.at(-1)!.destroy();
      for (const one of await Promise.all(running)) expect(one.text).toBe(want);
      await until(() => {
        const replicas = engine.status().replicas!;
        expect(replicas.map((one) => one.recoveries)).toEqual(Array(4).fill(recoveries));
      });
    }
  },
);

test("a device may be lost while experts move, and steps wait behind the move", async () => {
  const want = await wantedStory();
  const devices: GPUDevice[][] = [[], []];
  const open = deviceFactory();
  let spoiled = 0;
  const { move } = ExpertMover.prototype;
  vi.spyOn(ExpertMover.prototype, "move").mockImplementation(async function (
    this: ExpertMover,
    ...given
  ) {
    if (spoiled === TWO.ranks) return move.apply(this, given);
    // As both ranks hear of it.
    spoiled += 1;
    devices[1]!.at(-1)!.destroy();
    throw new SpoiledError("rank 1 has no part of it");
  });
  const { engine } = await openLed(TWO, { recoveryWaits: [0], experts: MOVING }, (rank) => ({
    device: async () => {
      devices[rank]!.push(await open());
      return devices[rank]!.at(-1)!;
    },
  }));
  const both = await Promise.all([0, 1].map((group) => complete(engine, asked(group))));
  expect(both.map(({ text }) => text)).toEqual([want, want]);
  expect(spoiled).toBe(TWO.ranks);
  expect(engine.status().replicas!.map((one) => one.recoveries)).toEqual([1, 1]);
});

test("a request that is aborted leaves the other group's as it is", async () => {
  const want = await wantedStory();
  const { engine } = await openLed(TWO);
  const aborted = complete(engine, { ...asked(1), requestId: "aborted" });
  const other = complete(engine, asked(0));
  await until(() => expect(engine.status().runningRequests).toBe(2));
  engine.abort("aborted");
  expect((await aborted).last.finish).toMatchObject({ type: "abort" });
  expect((await other).text).toBe(want);
  expect((await complete(engine, asked(1))).text).toBe(want);
});

test("a group that stalls holds no other up, and no other of its requests", async () => {
  const want = await wantedStory();
  const gate = { open: () => {} };
  const opened = new Promise<void>((resolve) => {
    gate.open = resolve;
  });
  const { engine } = await openLed(TWO, {
    grammarService: (model) => {
      const service = localGrammarService(model);
      const open: typeof service.open = async (...given) => {
        await opened;
        return service.open(...given);
      };
      return { ...service, close: () => service.close(), open };
    },
  });
  const regex = { kind: "regex", source: "[a-z]{3}( [a-z]{2,4})+" } as const;
  const stalled = complete(engine, asked(1, { constraint: regex }));
  for (const group of [0, 1]) expect((await complete(engine, asked(group))).text).toBe(want);
  gate.open();
  const { text } = await stalled;
  expect(text).toMatch(/^[a-z]{3}( [a-z]{2,4})+ ?[a-z]*$/);
  expect((await complete(engine, asked(0, { constraint: regex }))).text).toBe(text);
});

test("a rank whose step fails ends all groups, and every request hears why", async () => {
  const { engine, done } = await openLed(TWO);
  const { submit } = ModelRunner.prototype;
  vi.spyOn(ModelRunner.prototype, "submit").mockImplementation(async function (
    this: ModelRunner,
    ...given
  ) {
    // Of the second group alone, whose ranks have no requests of their own to fail.
    if (given[0].sources.includes(MARK)) throw new Error("a row that fails");
    return submit.apply(this, given);
  });
  const { prompt: _, ...unasked } = asked(1);
  const outcomes = await Promise.allSettled([
    complete(engine, { ...unasked, tokens: [3, MARK, 9] }),
    complete(engine, asked(0)),
  ]);
  for (const one of outcomes) {
    const reason = (one as PromiseRejectedResult).reason as Error;
    expect(reason).toBeInstanceOf(GroupError);
    expect(reason.message).toContain("a row that fails");
  }
  const [ended] = await done;
  expect(ended).toMatchObject({ status: "rejected", reason: { message: "a row that fails" } });
  expect(engine.status().healthy).toBe(false);
});

test("nothing is ordered behind the end, though no engine waits for the results of a last step", async () => {
  const { engine, end, done } = await openLed(TWO);
  closeLast = undefined;
  const orders: string[] = [];
  const { send } = OrderChannel.prototype;
  vi.spyOn(OrderChannel.prototype, "send").mockImplementation(async function (
    this: OrderChannel,
    order: RankOrder,
  ) {
    // Steps of the first group alone, which knows its tokens by itself, run ahead of their results.
    if (order.type === "results") await setTimeout(100);
    orders.push(order.type);
    return send.call(this, order);
  });
  const sampling = { maxNewTokens: 4, ignoreEos: true };
  await complete(engine, asked(0, { sampling }));
  await engine.close();
  await end();
  await setTimeout(300);
  expect(orders.at(-1)).toBe("end");
  expect(await done).toEqual([{ status: "fulfilled", value: undefined }]);
});

test("a profile of the first group has the launches of all ranks", async () => {
  const { engine, engines } = await openLed(TWO);
  const profile = await engines[0]!.profile(async () => {
    await Promise.all([0, 1].map((group) => complete(engine, asked(group))));
  });
  expect(profile.steps).toBeGreaterThan(20);
  expect(profile.otherRanks).toHaveLength(1);
  expect(profile.otherRanks![0]!.launches.length).toBeGreaterThan(100);
});
