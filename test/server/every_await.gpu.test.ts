/**
 * Whatever the engine, its cache and the server wait for may fail: each `await` of their sources. One
 * request ends with an error or none does, nothing is left behind, and every other request has the
 * answer that was to come. The same where a client leaves just then, and a load fails whole.
 */
import { afterAll, afterEach, beforeAll, describe, expect, onTestFailed, test, vi } from "vitest";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { device, fullTest, smallestCaseOnly } from "../support/devices/gpu.ts";
import { VISION_MODEL } from "../support/engines/vision_engine.ts";
import { LOADS } from "../support/faults/loads.ts";
import { NEVER_FAIL } from "../support/faults/never_fail.ts";
import { SCENARIOS } from "../support/faults/scenarios.ts";
import { GENERATING } from "../support/faults/sent_requests.ts";
import {
  BROKEN,
  openServed,
  type Scenario,
  type ServedEngine,
  type Told,
} from "../support/faults/served_engine.ts";
import {
  type AwaitHook,
  type WatchedSources,
  watchedSources,
} from "../support/faults/watched_awaits.ts";

const scenarios = SCENARIOS.filter(({ isLong = false }) => fullTest || !isLong);
/** Every so manieth site of a scenario is tried. */
const DISTANCE = fullTest ? 1 : 24;

/** What only a model that reads images passes, where there is none. */
const isOfImages = (site: string) =>
  VISION_MODEL === undefined && /image|vision|PromptEmbeddings.place/i.test(site);
/** What ranks that are processes pass, tried in test/parallel/led_awaits.gpu.test.ts. */
const OF_LED_RANKS =
  /^src\/engine\/ranks\/(rank_leader|led_group|page_leader|follow_steps|followed_pages|led_pages|led_times|meet_clocks|order_channel|page_outcomes)\.ts/;
/** Of pages that travel between engines, tried in test/engine/transfer/travelling_awaits.gpu.test.ts. */
const OF_TRAVELLING =
  /^src\/engine\/(transfer\/|start_sequence\.ts: (await grammar;|const (runs|session) = await ))/;
/** What attention groups pass, tried in test/parallel/attention_groups.gpu.test.ts. */
const OF_GROUPS =
  /^src\/engine\/(groups\/|ranks\/rank_runner\.ts: .*runner\.idle|step\/model_runner\.ts: (await this\.#meet\(step, |await this\.plan\.run\(step\)))/;
/** What scenarios need not pass, by the reason. */
const ELSEWHERE: Readonly<Record<string, readonly string[]>> = {
  "the way to another device, tried in test/engine/recovery_awaits.gpu.test.ts": [
    "engine/step/step_loop.ts: if (model.isRecovering) await this.#recover();",
    "engine/step/step_loop.ts: await model.recover({ isBusy: () => scheduler.hasWork, finding });",
    "engine/load/recovery.ts: this.#current = await this.#replacement(isBusy);",
    "engine/load/recovery.ts: await orAborted(signal, pause(seconds, signal));",
    "engine/load/recovery.ts: loaded = await orAborted(signal, this.#load());",
    "engine/load/recovery.ts: const one = await (options.device as Exclude<DeviceSource, GPUDevice>)(which);",
    "engine/load/recovery.ts: const loaded = await (options.loadRanks ?? loadRanks)(await Checkpoint.open(source), {",
    "engine/load/recovery.ts: const loaded = await (options.loadRanks ?? loadRanks)(await Checkpoint.open(source), { (2)",
    "engine/load/recovery.ts: return await Promise.race([work, aborted]);",
  ],
  "a step that fails, and the way on from there, tried below": [
    "engine/step/step_loop.ts: await this.#survive(error, inFlight);",
  ],
  "images that programs give, tried in test/engine/images/image_inputs.test.ts": [
    "engine/images/image_inputs.ts: else if (isBlob(image)) seen.push(await bytesOf(image, index));",
    "engine/images/image_inputs.ts: return new Uint8Array(await blob.arrayBuffer());",
  ],
  "what pages have drawn, tried in test/browser/image_worker.test.ts": [
    "engine/images/opened_picture.ts: let image: ImageSource | undefined = isDrawing(given) ? await readDrawing!(given) : given;",
  ],
  "called by tools alone": [
    "engine/step/model_runner.ts: const counts = await this.plan.countLaunches(this.#step);",
    "engine/step/model_runner.ts: await this.#read!();",
  ],
};

const now = performance.now.bind(performance);
/** What a slow machine takes between two looks at the clock: more than a slice of long work. */
const SLICE_MS = 5;

let sources: WatchedSources;
/** Sites that have been passed. */
const passed = new Set<string>();

beforeAll(async () => {
  if (!smallestCaseOnly) sources = await watchedSources();
});
afterEach(() => {
  sources?.setHook(undefined);
  sources?.setAllocationHook(undefined);
});

/** Counts how often each site is passed. */
function counting(): { readonly hook: AwaitHook; readonly counts: Map<string, number> } {
  const counts = new Map<string, number>();
  const hook: AwaitHook = (site, awaited) => {
    counts.set(site, (counts.get(site) ?? 0) + 1);
    passed.add(site);
    return awaited;
  };
  return { hook, counts };
}

/** Counts how often each allocation happens, and has one of them fail. */
class Allocations {
  readonly counts = new Map<string, number>();
  #wanted: { readonly site: string; readonly at: number; readonly error: Error } | undefined;

  readonly hook = (site: string): void => {
    const count = (this.counts.get(site) ?? 0) + 1;
    this.counts.set(site, count);
    const { site: wanted, at, error } = this.#wanted ?? {};
    if (site === wanted && count === at) throw error;
  };

  arm(site: string, at: number, error: Error): void {
    this.counts.clear();
    this.#wanted = { site, at, error };
  }
}

/** Does something when a site is passed for the `at`-th time, and waits for it there. */
function hookAt(wanted: string, at: number, act: () => void): AwaitHook {
  let count = 0;
  return (site, awaited) => {
    passed.add(site);
    if (site !== wanted || ++count !== at) return awaited;
    return Promise.resolve(awaited).then((value) => {
      act();
      return value;
    });
  };
}

/** Sites of the server that have been tried: to them options of the engine are nothing. */
const tried = {
  fail: new Set<string>(),
  leave: new Set<string>(),
  allocate: new Set<string>(),
};

/** Those of some sites that are tried, each at its first and at its last time. */
function* chosen(
  counts: ReadonlyMap<string, number>,
  { only, varies = false }: Scenario,
  mode: keyof typeof tried,
): Generator<readonly [string, number]> {
  const sites = [...counts].filter(([site]) => {
    const isAbout = only === undefined || only.includes(site.slice("src/".length));
    return isAbout && !NEVER_FAIL.includes(site) && !tried[mode].has(site);
  });
  for (const [site] of sites) {
    if (/^src\/(server|http)\//.test(site)) tried[mode].add(site);
  }
  for (let i = 0; i < sites.length; i += DISTANCE) {
    const [site, count] = sites[i]!;
    yield [site, 1];
    if (fullTest && count > 1 && !varies) yield [site, count];
  }
}

/** @returns Makes everything as it was. */
function prepare({ isSlow = false }: Scenario): () => void {
  // A scheduler that learned from retractions would have none the next time.
  const { NewTokenEstimate } = sources.modules["engine/schedule/new_token_estimate"];
  vi.spyOn(NewTokenEstimate.prototype, "retracted").mockImplementation(() => {});
  let late = 0;
  if (isSlow) vi.spyOn(performance, "now").mockImplementation(() => now() + SLICE_MS * ++late);
  return () => vi.restoreAllMocks();
}

describe.skipIf(smallestCaseOnly).each(scenarios)("$name", (scenario) => {
  let served: ServedEngine;
  let want: ReadonlyMap<string, Told>;
  const { hook, counts } = counting();
  /** Of the first requests that the engine has had. */
  const first = counting();
  /** Errors of the server in every run. */
  const usual = new Set<string>();
  /** What is being tried, for the message of a failure. */
  let trial = "nothing";

  beforeAll(async () => {
    prepare(scenario);
    served = await openServed(sources, scenario);
    await served.run(first.hook);
    want = await served.run(hook);
    const failed = [...want].filter(([, told]) => told.status !== 200 || isFailure(told));
    expect(failed.map(([name]) => name)).toEqual(scenario.refused ?? []);
    for (const site of scenario.only ?? []) expect([...counts.keys()]).toContain(`src/${site}`);
    for (const error of served.errors) usual.add(String(error));
    served.errors.length = 0;
  });
  afterAll(async () => {
    vi.restoreAllMocks();
    await served.close();
  });

  /** Requests that have failed and do not in every run. */
  function newFailures(got: ReadonlyMap<string, Told>): readonly (readonly [string, Told])[] {
    return [...got].filter(([name, told]) => {
      return isFailure(told) && JSON.stringify(want.get(name)) !== JSON.stringify(told);
    });
  }

  /** Errors of the server since the last call, but for those of every run. */
  function newErrors({ errors }: ServedEngine): readonly string[] {
    return errors
      .splice(0)
      .map(String)
      .filter((error) => !usual.has(error));
  }

  /** That answers are as they have to be, but for one that may have failed. */
  function check(got: ReadonlyMap<string, Told>, isSpared: (name: string, told: Told) => boolean) {
    const others = [...got].filter(([name, told]) => !isSpared(name, told));
    const names = others.map(([name]) => name);
    expect([trial, new Map(others)]).toEqual([
      trial,
      new Map(names.map((name) => [name, want.get(name)])),
    ]);
    const { healthy, usedTokens, runningRequests, queuedRequests } = served.status();
    const left = usedTokens + runningRequests + queuedRequests;
    expect([trial, healthy, left]).toEqual([trial, true, 0]);
  }

  async function fail(from: ServedEngine, site: string, at: number) {
    trial = `${site} for the ${at}. time`;
    const error = new RangeError(`the wait fails: ${trial}`);
    let isTried = false;
    const got = await from.run(
      hookAt(site, at, () => {
        isTried = true;
        throw error;
      }),
    );
    if (scenario.only !== undefined) expect([trial, isTried]).toEqual([trial, true]);
    const failed = newFailures(got);
    expect([trial, ...failed.slice(1)]).toEqual([trial]);
    check(got, (name) => failed[0]?.[0] === name);
    expect(newErrors(from).filter((text) => !text.includes(trial))).toEqual([]);
  }

  test("each await may fail", async () => {
    onTestFailed(() => console.log(`Tried: ${trial}`));
    for (const [site, at] of chosen(counts, scenario, "fail")) {
      // A store that could not write does not for a while, and would not come there again.
      const fresh = scenario.only && (await openServed(sources, scenario));
      await fail(fresh ?? served, site, at);
      await fresh?.close();
    }
    check(await served.run(), () => false);
  });

  test("each await of what is done once may fail", async () => {
    onTestFailed(() => console.log(`Tried: ${trial}`));
    const once = new Map([...first.counts].filter(([site]) => !counts.has(site)));
    for (const [site] of chosen(once, scenario, "fail")) {
      const fresh = await openServed(sources, scenario);
      await fail(fresh, site, 1);
      await fresh.close();
    }
  });

  /** What is allocated while these requests run. */
  async function allocated(from: ServedEngine): Promise<Map<string, number>> {
    const allocations = new Allocations();
    sources.setAllocationHook(allocations.hook);
    await from.run();
    sources.setAllocationHook(undefined);
    return new Map(allocations.counts);
  }

  async function failAllocation(from: ServedEngine, site: string, at: number) {
    trial = `allocation ${site} for the ${at}. time`;
    const error = new RangeError(`no memory: ${trial}`);
    const allocations = new Allocations();
    allocations.arm(site, at, error);
    sources.setAllocationHook(allocations.hook);
    const got = await from.run();
    sources.setAllocationHook(undefined);
    const failed = newFailures(got);
    expect([trial, ...failed.slice(1)]).toEqual([trial]);
    check(got, (name) => failed[0]?.[0] === name);
    expect(newErrors(from).filter((text) => !text.includes(trial))).toEqual([]);
  }

  test("each allocation may fail", async () => {
    onTestFailed(() => console.log(`Tried: ${trial}`));
    const again = await allocated(served);
    for (const [site, at] of chosen(again, scenario, "allocate"))
      await failAllocation(served, site, at);
    check(await served.run(), () => false);
  });

  test("each allocation of what is done once may fail", async () => {
    onTestFailed(() => console.log(`Tried: ${trial}`));
    const fresh = await openServed(sources, scenario);
    const first = await allocated(fresh);
    const again = await allocated(fresh);
    await fresh.close();
    const once = new Map([...first].filter(([site, count]) => count > (again.get(site) ?? 0)));
    for (const [site] of chosen(once, scenario, "allocate")) {
      const other = await openServed(sources, scenario);
      await failAllocation(other, site, 1);
      await other.close();
    }
  });

  test("a client may leave at each await", async () => {
    onTestFailed(() => console.log(`Tried: ${trial}`));
    const names = Object.keys(scenario.waves[0]!);
    let turn = 0;
    for (const [site, at] of chosen(counts, scenario, "leave")) {
      const name = names[turn++ % names.length]!;
      trial = `${name} leaves at ${site} for the ${at}. time`;
      const leaving = new AbortController();
      const leave = hookAt(site, at, () => leaving.abort());
      const got = await served.run(leave, { name, signal: leaving.signal });
      check(got, (other) => other === name);
      expect([trial, newErrors(served)]).toEqual([trial, []]);
    }
  });
});

test.skipIf(smallestCaseOnly)(
  "a step that fails, and then the way on from there, ends every request with the error",
  async () => {
    const [scenario] = SCENARIOS;
    const served = await openServed(sources, scenario!);
    const error = new RangeError("the way on fails");
    let isBroken = false;
    const got = await served.run((site, awaited) => {
      const isStep = !isBroken && site.startsWith("src/engine/step/step_loop.ts: turn = await");
      const isWayOn =
        site === "src/engine/step/step_loop.ts: await this.#survive(error, inFlight);";
      isBroken ||= isStep;
      if (!isStep && !isWayOn) return awaited;
      return Promise.resolve(awaited).then(() => {
        throw error;
      });
    });
    const generating = [...got].filter(([name]) => Object.hasOwn(GENERATING, name));
    expect(generating.filter(([, told]) => !isFailure(told))).toEqual([]);
    expect(served.status()).toMatchObject({ healthy: false, runningRequests: 0, usedTokens: 0 });
    await served.close();
  },
);

test.skipIf(!fullTest || smallestCaseOnly)(
  "each await is passed, or stands among others",
  async () => {
    const { hook, counts } = counting();
    for (const own of Object.values(LOADS)) {
      const { source = folderSource(EMBEDDED_MODEL), options } = await own();
      const given = { device, contextLength: 128, maxTotalTokens: 512, ...options } as LoadOptions;
      sources.setHook(hook);
      const { Engine } = sources.modules["engine/engine"];
      const engine = await Engine.load(source, given);
      await engine.close();
      sources.setHook(undefined);
    }
    for (const scenario of SCENARIOS) {
      const restore = prepare(scenario);
      sources.setHook(hook);
      const served = await openServed(sources, scenario);
      await served.run(hook);
      await served.run(hook);
      // Clients that leave pass what others do not.
      for (const [at, name] of Object.keys(scenario.waves[0]!).entries()) {
        const leaving = new AbortController();
        let waits = 0;
        const leave: AwaitHook = (site, awaited) => {
          if (++waits === 20 * (at + 1)) leaving.abort();
          return hook(site, awaited);
        };
        await served.run(leave, { name, signal: leaving.signal });
      }
      restore();
      sources.setHook(hook);
      await served.close();
      sources.setHook(undefined);
    }
    const known = new Set(Object.values(ELSEWHERE).flat());
    const left = sources.sites.filter((site) => !counts.has(site) && !NEVER_FAIL.includes(site));
    const isKnown = (site: string) =>
      known.has(site.slice("src/".length)) ||
      [OF_LED_RANKS, OF_TRAVELLING, OF_GROUPS].some((of) => of.test(site)) ||
      isOfImages(site);
    const unknown = left.filter((site) => !isKnown(site));
    const gone = [...known].filter((site) => !sources.sites.includes(`src/${site}`));
    const passedAll = [...known].filter((site) => counts.has(`src/${site}`));
    expect({ unknown, gone, passedAll }).toEqual({ unknown: [], gone: [], passedAll: [] });
  },
);

/** Whether an answer tells of an error: by its status, by its last event, or by breaking off. */
function isFailure({ status, text }: Told): boolean {
  return status >= 500 || status === BROKEN || text.includes('data: {"error":');
}
