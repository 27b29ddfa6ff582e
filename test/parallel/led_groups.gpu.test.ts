/** Attention groups whose ranks are led by orders, as those of other processes are, answer what one rank does. */
import { deserialize, serialize } from "node:v8";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { RebalanceEvent } from "../../src/engine/experts/expert_balancer.ts";
import {
  type GroupedOptions,
  loadGroupEngines,
  optionsOfGroup,
} from "../../src/engine/groups/attention_groups.ts";
import { ledAttentionGroups } from "../../src/engine/groups/led_groups.ts";
import { loadFollower } from "../../src/engine/ranks/follow_steps.ts";
import type { GenerationEngine, GenerationRequest } from "../../src/generation.ts";
import { localGroup } from "../../src/parallel/local.ts";
import { ReplicatedEngine } from "../../src/parallel/replicas/replicated_engine.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { device, smallestCaseOnly } from "../support/devices/gpu.ts";
import { openEngine } from "../support/engines/engine.ts";
import { answerOf } from "../support/mpi/engine_answers.ts";

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

/** Groups that the first of so many ranks leads, all in this process. */
async function openLed(
  { ranks, groups: attentionGroups }: Layout,
  options: Partial<GroupedOptions> = {},
) {
  const [first, ...others] = localGroup(ranks);
  const given = { ...GIVEN, device, ...options, attentionGroups };
  const led = ledAttentionGroups({ communicator: first!, format: FORMAT }, attentionGroups);
  const following = others.map(async (communicator) => {
    const own = { ...optionsOfGroup(given, 0), attentionGroups };
    return (await loadFollower(open(), { communicator, format: FORMAT }, own))();
  });
  const done = Promise.allSettled(following);
  const engine = new ReplicatedEngine(await loadGroupEngines(open, given, led));
  closeLast = async () => {
    await engine.close();
    await led.end().catch(() => {});
    await done;
  };
  return { engine, done };
}

const tokens = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 97 + i * i * 31) % 500));
const LENGTH = 10;
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
      sampling: { ...PLAIN, temperature: 0.8, seed: 8, frequencyPenalty: 0.6, logitBias: { 9: 2 } },
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
const CROWDED = { maxTotalTokens: 144, contextLength: 128, scheduleConservativeness: 0 };
const MOVING = { redundant: 4, rebalance: { everySteps: 3, minBalancedness: 1 } } as const;

const CASES: readonly (readonly [string, Layout, Partial<GroupedOptions>])[] = [
  ["four ranks, two groups", { ranks: 4, groups: 2 }, {}],
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
  ["four groups", { ranks: 4, groups: 4 }, { speculation: DRAFTS, wholeDenseLayers: true }],
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
    const { retractions, replicas } = engine.status();
    expect(retractions > 0).toBe(name.includes("retracted"));
    expect(replicas).toHaveLength(layout.groups);
    const moved = events.some((event) => event.kind === "finished" && event.moved > 0);
    expect(moved).toBe(options.experts !== undefined);
  });
});
