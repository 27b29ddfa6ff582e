/** Ranks that are led by orders, as ranks of other processes are, answer what one rank does. */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deserialize, serialize } from "node:v8";
import { describe, expect, test, vi } from "vitest";
import { Engine, type LocalRequest } from "../../src/engine/engine.ts";
import type { RebalanceEvent } from "../../src/engine/experts/expert_balancer.ts";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import { loadFollower } from "../../src/engine/ranks/follow_steps.ts";
import type { PlainFormat } from "../../src/engine/ranks/order_channel.ts";
import { ledRanks } from "../../src/engine/ranks/rank_leader.ts";
import { ModelRunner } from "../../src/engine/step/model_runner.ts";
import { GroupError } from "../../src/errors.ts";
import type { GenerationRequest } from "../../src/generation.ts";
import { ExpertMover } from "../../src/layers/moe/expert_mover.ts";
import { deviceFactory } from "../../src/node/device/device.ts";
import { prefixFiles } from "../../src/node/prefix_files.ts";
import { localGroup } from "../../src/parallel/local.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { device, fullTest, seeded, smallestCaseOnly } from "../support/devices/gpu.ts";
import { chat, complete, openEngine } from "../support/engines/engine.ts";
import { llama } from "../support/synthetic/llama.ts";
import { syntheticSource } from "../support/synthetic/source.ts";
import { until } from "../support/until.ts";

const FORMAT: PlainFormat = { pack: serialize, unpack: deserialize };
const GIVEN = {
  ...{ triesInvariance: false, maxTotalTokens: 512, contextLength: 256, maxRowsPerStep: 64 },
  ...{ pageSize: 4, chunkedPrefillSize: 16, maxRunningRequests: 4 },
};

const embedded = () => folderSource(EMBEDDED_MODEL);

/**
 * An engine on the first of two ranks, of which the other follows by orders.
 *
 * @param unpack How the other reads them.
 * @param others What the other has other than the first.
 */
async function openLed(
  options: Partial<LoadOptions> = {},
  unpack = FORMAT.unpack,
  others: Partial<LoadOptions> = {},
  source = embedded,
) {
  const [first, second] = localGroup(2);
  const given = { ...GIVEN, device, ...options };
  const link = { communicator: second!, format: { ...FORMAT, unpack } };
  const leading = ledRanks({ communicator: first!, format: FORMAT });
  const following = loadFollower(source(), link, { ...given, ...others });
  // It follows as soon as it can: an engine that adapts its drafts times steps while it is loaded.
  const done = following.then((follow) => follow());
  done.catch(() => {});
  const engine = await Engine.load(source(), {
    ...given,
    ...leading.options,
  });
  const close = async () => {
    await engine.close();
    await leading.end();
    await done;
  };
  return { engine, done, close };
}

const twoHeads = () => {
  const sizes = { hidden_size: 256, intermediate_size: 512, vocab_size: 512, head_dim: 64 };
  const heads = { num_attention_heads: 4, num_key_value_heads: 2, num_hidden_layers: 2 };
  return syntheticSource(llama({ ...sizes, ...heads, tie_word_embeddings: false }), 8);
};
const IDS = Array.from({ length: 150 }, (_, i) => 3 + ((31 * i) % 500));

const LONG = "Tell me about the sea, the wind and the weather of the north. ".repeat(3);
const SAMPLED = { temperature: 0.8, topK: 40, seed: 11, maxNewTokens: 12, ignoreEos: true };

/** Rows from elsewhere, which make orders longer than their first exchange. */
const embeddings = (hiddenSize: number) => {
  const random = seeded(3);
  return Array.from({ length: 12 }, () =>
    Float32Array.from({ length: hiddenSize }, () => random() - 0.5),
  );
};

/** Chunks, cached prefixes, copies of partial pages, all that a row may be drawn by. */
const rounds = (hiddenSize: number): readonly (readonly GenerationRequest[])[] => [
  [{ messages: chat(LONG), sampling: { temperature: 0, maxNewTokens: 8 } }],
  [
    {
      messages: chat(`${LONG}Briefly.`),
      sampling: SAMPLED,
      logprobs: { topCount: 2, promptStart: 3 },
    },
    { messages: chat(`${LONG}Now!`), sampling: { ...SAMPLED, repetitionPenalty: 1.3, seed: 3 } },
    { messages: chat("Hello"), sampling: { ...SAMPLED, frequencyPenalty: 1 } },
    { messages: chat("Count."), sampling: { ...SAMPLED, regex: "[0-9]{4}( [a-z]{3})+", seed: 5 } },
    { messages: chat(LONG.slice(9)), sampling: { ...SAMPLED, minP: 0.05, minNewTokens: 9 } },
    { messages: chat("And then?"), sampling: { ...SAMPLED, presencePenalty: 0.7 } },
    { inputEmbeds: embeddings(hiddenSize), sampling: SAMPLED },
  ],
];

async function answers(engine: Engine) {
  const all = [];
  for (const round of rounds(engine.model.hiddenSize)) {
    const completions = await Promise.all(round.map((one) => complete(engine, one)));
    for (const { tokens, last } of completions) all.push([tokens, last.finish, last.logprobs]);
  }
  const { cachedTokens, retractions } = engine.status();
  return { all, hasCached: cachedTokens > 0, hasRetracted: retractions > 0 };
}

const CROWDED = { maxTotalTokens: 160, scheduleConservativeness: 0.1 };
const HOST = { retractionMemory: 2 ** 24 };
const DRAFTS = { algorithm: "EAGLE", numSteps: 3, eagleTopk: 1, numDraftTokens: 4 } as const;
/** Layers of the embedded model. */
const HAS_EXPERTS = [false, true, true, true, true];
/** Copies, and experts that move a few layers at a time. */
const MOVING = {
  redundant: 2,
  allToAll: "auto",
  rebalance: { everySteps: 3, layersAtOnce: 2, minBalancedness: 1 },
} as const;
const CASES: readonly (readonly [string, Partial<LoadOptions>])[] = [
  ["without drafts", {}],
  ["a crowded cache", CROWDED],
  [
    "a crowded cache, drafts, and host memory for both",
    { ...CROWDED, ...HOST, speculation: DRAFTS },
  ],
  ["drafts of the module", { speculation: DRAFTS }],
  ["drafts as many as pay", { speculation: { algorithm: "EAGLE", adaptive: "on" } }],
  ["experts that move, drafts", { speculation: DRAFTS, experts: MOVING }],
];

describe.skipIf(smallestCaseOnly)("orders", () => {
  test.each(CASES)("%s", async (name, options) => {
    const { experts: _, ...plain } = options;
    const alone = await openEngine({ ...GIVEN, ...plain });
    const want = await answers(alone);
    await alone.close();
    expect(want).toMatchObject({ hasCached: true, hasRetracted: name.includes("crowded") });
    const events: RebalanceEvent[] = [];
    const { engine, close } = await openLed({ ...options, onRebalance: (one) => events.push(one) });
    await engine.recordExperts("start");
    expect(await answers(engine)).toEqual(want);
    const { passes, logicalCount } = await engine.recordExperts("dump");
    expect(passes).toBeGreaterThan(9);
    expect(logicalCount.map((layer) => layer.some((count) => count > 0))).toEqual(HAS_EXPERTS);
    await close();
    const moved = events.map((event) => (event.kind === "finished" ? event.moved : 0));
    expect(moved.some((slots) => slots > 0)).toBe(options.experts !== undefined);
  });

  test.each([
    ["latents, which the first rank has", embedded],
    ["keys and values, of which each rank has a head", twoHeads],
  ])("stored prefixes are brought back into the pages of both: %s", async (_, source) => {
    const storage = prefixFiles(await mkdtemp(join(tmpdir(), "wisp-prefixes-")));
    const problems: string[] = [];
    const prefixStore = { storage, maxWait: 60, onProblem: (one: string) => problems.push(one) };
    const ask = async (
      engine: Engine,
      more: Partial<GenerationRequest> = { storePrefix: true },
    ) => {
      const sampling = { temperature: 0, maxNewTokens: 6, ignoreEos: true };
      const logprobs = { topCount: 1 };
      const { tokens, last } = await complete(engine, { tokens: IDS, sampling, logprobs, ...more });
      return [tokens, last.logprobs];
    };
    const answers = [];
    const restored = [];
    for (let turn = 0; turn < 2; turn++) {
      const { engine, close } = await openLed({ prefixStore }, FORMAT.unpack, {}, source);
      answers.push(await ask(engine));
      restored.push(engine.status().prefixStore!.restoredTokens);
      await close();
      expect(problems).toEqual([]);
    }
    const alone = await Engine.load(source(), { ...GIVEN, device });
    const right = await ask(alone, {});
    expect(answers).toEqual([right, right]);
    expect(restored).toEqual([0, expect.any(Number)]);
    expect(restored[1]).toBeGreaterThan(63);
    // As ranks of one process have them.
    const ranks = { prefixStore, tensorParallelSize: 2 };
    const local = await Engine.load(source(), { ...GIVEN, device, ...ranks });
    expect(await ask(local)).toEqual(right);
    expect(local.status().prefixStore!.restoredTokens).toBe(restored[1]);
    await Promise.all([alone.close(), local.close()]);
  });

  test("a logit processor ends its own request: no function goes to another process", async () => {
    const { engine, close } = await openLed();
    const request = { messages: chat("Hello"), sampling: { ...SAMPLED, maxNewTokens: 4 } };
    const [processed, other] = await Promise.allSettled([
      complete(engine, { ...request, logitProcessors: [() => {}] } as LocalRequest),
      complete(engine, request),
    ]);
    expect(processed).toMatchObject({ reason: { field: "logitProcessors" } });
    expect(other).toMatchObject({ value: { tokens: { length: 4 } } });
    await close();
  });

  test("a rank that draws another token ends the group", async () => {
    const misread = (bytes: Uint8Array) => {
      const order = deserialize(bytes);
      for (const row of order.rows ?? []) row.sampling.temperature = 2;
      return order;
    };
    // The next step begins with what the first rank has drawn.
    const { engine, done } = await openLed({ overlapSchedule: false }, misread);
    const ended = expect(done).rejects.toThrow(/the first has drawn \d+ from row 0, this one \d+/);
    const answer = complete(engine, {
      messages: chat("Hello"),
      sampling: { temperature: 0, maxNewTokens: 64, ignoreEos: true },
    });
    await expect(answer).rejects.toBeInstanceOf(GroupError);
    await ended;
    expect(engine.status().healthy).toBe(false);
    await engine.close();
  });

  test("a step of the first rank that fails behind its submission ends the group", async () => {
    const { engine, done } = await openLed();
    const ended = expect(done).rejects.toThrow("its step failed: no memory to read it into");
    const { submit } = ModelRunner.prototype;
    vi.spyOn(ModelRunner.prototype, "submit").mockImplementation(async function (
      this: ModelRunner,
      ...given
    ) {
      const submitted = await submit.apply(this, given);
      // Only the first rank delivers log-probabilities.
      if (given[1][0]?.logprobs === undefined) return submitted;
      const tokens = submitted.tokens.then(() => {
        throw new RangeError("no memory to read it into");
      });
      // Of a step that no caller waits for any more, as the runner's own.
      tokens.catch(() => {});
      return { ...submitted, tokens };
    });
    const request = { messages: chat("Hello"), sampling: SAMPLED, logprobs: { topCount: 1 } };
    await expect(complete(engine, request)).rejects.toThrow("no memory to read it into");
    await ended;
    vi.restoreAllMocks();
    expect(engine.status().healthy).toBe(false);
    await engine.close();
  });

  test.each([["tensorParallelSize", { tensorParallelSize: 2 }]])(
    "%s is refused",
    async (field, options) => {
      const [first] = localGroup(2);
      const leading = ledRanks({ communicator: first!, format: FORMAT });
      const given = { ...GIVEN, device, ...leading.options, ...(options as Partial<LoadOptions>) };
      const load = Engine.load(folderSource(EMBEDDED_MODEL), given);
      await expect(load).rejects.toMatchObject({ code: "unsupported", field });
    },
  );
});

/** A factory of devices, the newest of which a test may lose. */
function losing() {
  const open = deviceFactory();
  let newest: GPUDevice | undefined;
  let opened = 0;
  return {
    device: async () => {
      newest = await open();
      opened += 1;
      return newest;
    },
    lose: () => newest!.destroy(),
    opened: () => opened,
  };
}

describe.skipIf(smallestCaseOnly)("a device that is lost", () => {
  test("of either rank, is replaced with those of all, and answers go on", async () => {
    const options = { ...CROWDED, ...HOST, recoveryWaits: [0, 0], speculation: DRAFTS };
    const alone = await openEngine({ ...GIVEN, ...options });
    const want = await answers(alone);
    await alone.close();
    const devices = [losing(), losing()] as const;
    let steps = 0;
    const { engine, close } = await openLed(
      {
        ...options,
        device: devices[0].device,
        onStep: () => {
          steps += 1;
          // Once each, with steps of several requests in flight.
          if (steps === 9) devices[1].lose();
          if (steps === 21) devices[0].lose();
        },
      },
      FORMAT.unpack,
      { device: devices[1].device },
    );
    expect(await answers(engine)).toEqual(want);
    expect(engine.status()).toMatchObject({ healthy: true, recoveries: 2 });
    expect(devices.map(({ opened }) => opened())).toEqual([3, 3]);
    // While no step runs: the first rank's at once, another one's at the next step.
    devices[0].lose();
    await until(() => expect(engine.status().recoveries).toBe(3));
    devices[1].lose();
    const { tokens } = await complete(engine, rounds(0)[0]![0]!);
    expect(tokens).toEqual(want.all[0]![0]);
    expect(engine.status().recoveries).toBe(4);
    await close();
  });

  test.each(fullTest ? [0, 1] : [1])(
    "of rank %i while experts move, is replaced too",
    async (loser) => {
      const options = { recoveryWaits: [0], experts: MOVING };
      const alone = await openEngine(GIVEN);
      const want = await answers(alone);
      await alone.close();
      const devices = [losing(), losing()] as const;
      const { move } = ExpertMover.prototype;
      let moves = 0;
      vi.spyOn(ExpertMover.prototype, "move").mockImplementation(function (
        this: ExpertMover,
        ...given
      ) {
        moves += 1;
        if (moves === 3) devices[loser]!.lose();
        return move.apply(this, given);
      });
      const first = { ...options, device: devices[0].device };
      const { engine, close } = await openLed(first, FORMAT.unpack, { device: devices[1].device });
      expect(await answers(engine)).toEqual(want);
      expect(moves).toBeGreaterThan(8);
      expect(engine.status()).toMatchObject({ healthy: true, recoveries: 1 });
      await close();
      vi.restoreAllMocks();
    },
  );

  test("is replaced before the group ends, where its engine is closed meanwhile", async () => {
    const devices = [losing(), losing()] as const;
    let open = () => {};
    const isOpen = new Promise<void>((resolve) => {
      open = resolve;
    });
    const slow = async () => {
      if (devices[1].opened() > 0) await isOpen;
      return devices[1].device();
    };
    const { engine, done, close } = await openLed(
      { device: devices[0].device, recoveryWaits: [0] },
      FORMAT.unpack,
      { device: slow },
    );
    devices[0].lose();
    await until(() => expect(devices[0].opened()).toBe(2));
    // The order to load again is with the other rank, which waits for its device.
    await new Promise((resolve) => setTimeout(resolve, 100));
    const closed = close();
    await engine.close();
    open();
    await closed;
    await done;
    expect(devices[1].opened()).toBe(2);
  });

  test("and that nothing replaces ends the group", async () => {
    const devices = [losing(), losing()] as const;
    const { engine, done } = await openLed({ device: devices[0].device }, FORMAT.unpack, {
      device: await devices[1].device(),
    });
    const ended = expect(done).rejects.toThrow("Cannot replace the device: nothing opens another");
    devices[1].lose();
    await expect(complete(engine, rounds(0)[0]![0]!)).rejects.toThrow("nothing opens another");
    await ended;
    expect(engine.status().healthy).toBe(false);
    await engine.close();
  });
});
