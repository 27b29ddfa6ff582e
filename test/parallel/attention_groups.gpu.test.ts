/**
 * Attention groups of one model: what one of them does, or does not, changes nothing for the others.
 */
import { afterEach, expect, test, vi } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { localGrammarService } from "../../src/engine/grammar/local_grammar_service.ts";
import { type GroupedOptions, loadGroupEngines } from "../../src/engine/groups/attention_groups.ts";
import { ModelRunner } from "../../src/engine/step/model_runner.ts";
import { InvalidRequestError, UnsupportedError } from "../../src/errors.ts";
import type { GenerationRequest } from "../../src/generation.ts";
import { deviceFactory } from "../../src/node/device/device.ts";
import { parseOptions } from "../../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../../src/node/options/options.ts";
import { startGroups } from "../../src/node/replicas/start_groups.ts";
import { quietReport } from "../../src/node/serve/start_report.ts";
import { ReplicatedEngine } from "../../src/parallel/replicas/replicated_engine.ts";
import type { Profile } from "../../src/profile.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { device, smallestCaseOnly } from "../support/devices/gpu.ts";
import { complete, openEngine } from "../support/engines/engine.ts";
import { until } from "../support/until.ts";

const OPTIONS = { maxTotalTokens: 2048, triesInvariance: false };
const open = () => folderSource(EMBEDDED_MODEL);

let engine: ReplicatedEngine | undefined;
/** Of each group. */
let engines: readonly Engine[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  await engine?.close();
  engine = undefined;
});

async function openGroups(options: Partial<GroupedOptions> = {}): Promise<ReplicatedEngine> {
  const sizes = { tensorParallelSize: 2, attentionGroups: 2 };
  engines = await loadGroupEngines(open, { device, ...OPTIONS, ...sizes, ...options });
  engine = new ReplicatedEngine(engines);
  return engine;
}

/** One request of each kind for a group. */
const request = (rank: number, more: Partial<GenerationRequest> = {}): GenerationRequest => ({
  prompt: "Once upon a time",
  sampling: { maxNewTokens: 24, ignoreEos: true, temperature: 0.8, seed: 4 },
  dataParallelRank: rank,
  ...more,
});

async function wanted(): Promise<string> {
  const alone = await openEngine(OPTIONS);
  const { dataParallelRank: _, ...own } = request(0);
  const { text } = await complete(alone, own);
  await alone.close();
  return text;
}

test("a request that is aborted, and one that ends early, leave the other group's as it is", async () => {
  const want = await wanted();
  const groups = await openGroups();
  const aborted = complete(groups, { ...request(0), requestId: "aborted" });
  const short = complete(groups, request(0, { sampling: { maxNewTokens: 2 } }));
  const other = complete(groups, request(1));
  await short;
  groups.abort("aborted");
  expect((await aborted).last.finish).toMatchObject({ type: "abort" });
  expect((await other).text).toBe(want);
  // And the group goes on.
  expect((await complete(groups, request(0))).text).toBe(want);
});

test("a group whose requests wait for a mask stalls alone, and goes on with the same bits", async () => {
  const want = await wanted();
  const gate = { open: () => {} };
  const opened = new Promise<void>((resolve) => {
    gate.open = resolve;
  });
  const groups = await openGroups({
    grammarService: (model) => {
      const service = localGrammarService(model);
      return {
        ...service,
        close: () => service.close(),
        open: async (...given) => {
          await opened;
          return service.open(...given);
        },
      };
    },
  });
  const regex = { kind: "regex", source: "[a-z]{3}( [a-z]{2,4})+" } as const;
  let isOver = false;
  const stalled = complete(groups, request(1, { constraint: regex })).finally(() => {
    isOver = true;
  });
  for (let i = 0; i < 2; i++) expect((await complete(groups, request(0))).text).toBe(want);
  expect(isOver).toBe(false);
  gate.open();
  const beside = await stalled;
  expect(beside.text).toMatch(/^[a-z]{3}( [a-z]{2,4})+ ?[a-z]*$/);
  expect((await complete(groups, request(0, { constraint: regex }))).text).toBe(beside.text);
});

test.skipIf(smallestCaseOnly)(
  "a device that is lost is replaced for all groups at once",
  async () => {
    const want = await wanted();
    const next = deviceFactory();
    const devices: GPUDevice[] = [];
    const groups = await openGroups({
      device: async () => {
        devices.push(await next());
        return devices.at(-1)!;
      },
      recoveryWaits: [0, 0, 0],
    });
    const running = [0, 1].map((rank) => complete(groups, request(rank)));
    await until(() => expect(groups.status().usedTokens).toBeGreaterThan(10));
    devices[0]!.destroy();
    for (const one of await Promise.all(running)) expect(one.text).toBe(want);
    expect(devices).toHaveLength(2);
    const replicas = groups.status().replicas!;
    expect(replicas.map(({ recoveries }) => recoveries)).toEqual([1, 1]);
  },
);

/** A token that only prompts of culprits have. */
const MARK = 2047;

test("a request whose rows fail steps ends alone: those of the other group go on", async () => {
  const want = await wanted();
  const groups = await openGroups();
  const { submit } = ModelRunner.prototype;
  vi.spyOn(ModelRunner.prototype, "submit").mockImplementation(async function (
    this: ModelRunner,
    ...given
  ) {
    const submitted = await submit.apply(this, given);
    if (!given[0].sources.includes(MARK)) return submitted;
    const tokens = submitted.tokens.then(() => Promise.reject(new Error("a row that fails")));
    tokens.catch(() => {});
    return { ...submitted, tokens };
  });
  const { prompt: _, ...unasked } = request(0);
  const culprit = complete(groups, { ...unasked, tokens: [3, MARK, 9] }).then(
    () => "answered",
    ({ message }: Error) => message,
  );
  const others = [0, 1, 1].map((rank) => complete(groups, request(rank)));
  for (const one of await Promise.all(others)) expect(one.text).toBe(want);
  expect(await culprit).toMatch(/fail/);
});

test("a step that fails in one group's ranks fails for all that were in it, and both go on", async () => {
  const want = await wanted();
  const groups = await openGroups();
  const { submit } = ModelRunner.prototype;
  let left = 6;
  vi.spyOn(ModelRunner.prototype, "submit").mockImplementation(async function (
    this: ModelRunner,
    ...given
  ) {
    left -= 1;
    // Before its part of the step: the other ranks wait for it.
    if (left === 0) throw new Error("a rank that fails");
    return submit.apply(this, given);
  });
  const answers = [0, 1].map((rank) => complete(groups, request(rank)));
  for (const one of await Promise.all(answers)) expect(one.text).toBe(want);
  expect(left).toBeLessThan(0);
});

test("a group that fails while it is idle fails the step of the other, which goes on", async () => {
  const want = await wanted();
  const groups = await openGroups();
  const { idle } = ModelRunner.prototype;
  let left = 3;
  vi.spyOn(ModelRunner.prototype, "idle").mockImplementation(async function (this: ModelRunner) {
    left -= 1;
    if (left === 0) throw new Error("an idle rank that fails");
    return idle.call(this);
  });
  expect((await complete(groups, request(0))).text).toBe(want);
  expect(left).toBeLessThan(0);
});

test("a profile that ends while its group is idle is over, and answers stay as they are", async () => {
  const want = await wanted();
  const groups = await openGroups();
  let isWaited = false;
  let profile: Promise<Profile> | undefined;
  const idled = new Promise<void>((resolve) => {
    const { idle } = ModelRunner.prototype;
    vi.spyOn(ModelRunner.prototype, "idle").mockImplementation(async function (this: ModelRunner) {
      if (isWaited) {
        isWaited = false;
        resolve();
        await profile;
      }
      return idle.call(this);
    });
  });
  profile = engines[0]!.profile(async () => {
    await complete(groups, request(0));
    isWaited = true;
    complete(groups, request(1)).catch(() => {});
    await idled;
  });
  expect((await profile).steps).toBeGreaterThan(0);
  for (const rank of [0, 1]) expect((await complete(groups, request(rank))).text).toBe(want);
});

test("pages of a group are those of its own ranks: of one, as of a model without ranks", async () => {
  const storing = { retractionMemory: 2 ** 20 };
  const alone = await openEngine({ ...OPTIONS, ...storing });
  const layout = alone.pageLayout;
  await alone.close();
  expect(layout).toBeDefined();
  await openGroups(storing);
  for (const { pageLayout } of engines) expect(pageLayout).toEqual(layout);
  // They have their numbers among those of all groups.
  const numbers = engines.map((one) => one.status().ranks!.map(({ rank }) => rank));
  expect(numbers).toEqual([[0], [1]]);
});

/** Two groups, of which the second fails. */
const failing: Readonly<Record<string, () => Promise<unknown>>> = {
  program: () => {
    let opened = 0;
    const openFirst = () => {
      opened += 1;
      if (opened === 2) throw new Error("no second one");
      return open();
    };
    const sizes = { tensorParallelSize: 2, attentionGroups: 2 };
    return loadGroupEngines(openFirst, { device, ...OPTIONS, ...sizes });
  },
  server: () => {
    const { values } = parseOptions(LAUNCH_OPTIONS, ["--tp", "2", "--dp", "2"]);
    const start = startGroups(async (_options, _report, part) => {
      const { replica, group } = part!;
      if (replica === 1) throw new Error("no second one");
      const { loadRanks } = group!;
      return Engine.load(open(), { device, ...OPTIONS, tensorParallelSize: 2, loadRanks });
    }, values);
    return start(values, quietReport({ write: () => {} }));
  },
};

test.each(Object.keys(failing))("where a %s cannot load a group, none is left", async (where) => {
  const close = vi.spyOn(Engine.prototype, "close");
  const destroy = vi.spyOn(ModelRunner.prototype, "destroy");
  await expect(failing[where]!()).rejects.toThrow("no second one");
  expect(close).toHaveBeenCalledTimes(1);
  // The part of the other one too.
  await until(() => expect(destroy).toHaveBeenCalledTimes(2));
});

test("groups draw by seeds of their own", async () => {
  const load = vi.spyOn(Engine, "load");
  await openGroups({ randomSeed: 2 ** 32 - 1 });
  const seeds = load.mock.calls.map(([, { randomSeed }]) => randomSeed);
  expect(seeds).toEqual([2 ** 32 - 1, 0]);
});

test.each([
  [{ attentionGroups: 3 }, "attentionGroups", "3 groups cannot share 2 ranks"],
  [{ attentionGroups: 0 }, "attentionGroups", "0 groups cannot share 2 ranks"],
  [{ maxRunningRequests: 1 }, "maxRunningRequests", "1 leave none to one of 2 groups"],
  [
    { chunkedPrefillSize: 40, pageSize: 16 },
    "chunkedPrefillSize",
    "20 tokens of each of 2 groups are not divisible by pages of 16",
  ],
  [
    { experts: { recorderMode: "per_pass" } },
    "experts.recorderMode",
    "attention groups record stat alone",
  ],
] as const)("%j is refused", async (options, field, why) => {
  const refused = await openGroups(options as Partial<GroupedOptions>).catch((error) => error);
  expect([InvalidRequestError, UnsupportedError]).toContain(refused.constructor);
  expect(refused).toMatchObject({ field, message: expect.stringContaining(why) });
});

test("one engine has no groups", async () => {
  const refused = openEngine({ tensorParallelSize: 2, attentionGroups: 2 });
  await expect(refused).rejects.toThrow("Cannot use attentionGroups 2 for one engine");
});
