/**
 * Whatever fails while the engine runs, and whenever: one request ends with the error or none does,
 * nothing is left behind, and every other request has the answer that was to come.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { PagePool } from "../../src/cache/page_pool.ts";
import type { Engine, LocalRequest } from "../../src/engine/engine.ts";
import type { CreateGrammarService } from "../../src/engine/grammar/grammar_service.ts";
import { localGrammarService } from "../../src/engine/grammar/local_grammar_service.ts";
import { Suspects } from "../../src/engine/schedule/suspects.ts";
import { ModelRunner } from "../../src/engine/step/model_runner.ts";
import type { Batch } from "../../src/layers/batch.ts";
import { Detokenizer } from "../../src/text/detokenizer.ts";
import { device, fullTest, smallestCaseOnly } from "../support/devices/gpu.ts";
import { openEngine } from "../support/engines/engine.ts";
import { MemoryBlobs } from "../support/engines/memory_blobs.ts";
import { until } from "../support/until.ts";

const ERROR = new RangeError("no memory");
/** Places of one kind that are tried: all of them in the long run. */
const TRIED = fullTest ? Number.POSITIVE_INFINITY : 3;

/** Counts what happens, and makes one of it fail. */
class FaultPoint {
  #at = 0;
  #count = 0;

  /** Makes the `at`-th fail from now on. */
  arm(at: number): void {
    this.#at = at;
    this.#count = 0;
  }

  get count(): number {
    return this.#count;
  }

  pass(): void {
    this.#count += 1;
    if (this.#count === this.#at) throw ERROR;
  }
}

const KINDS = ["pages", "opening", "masks", "processors", "texts", "reads", "writes"] as const;
const points = Object.fromEntries(KINDS.map((kind) => [kind, new FaultPoint()])) as Readonly<
  Record<(typeof KINDS)[number], FaultPoint>
>;
/** Of these nothing depends: what is not stored is computed. */
const HARMLESS: readonly string[] = ["writes", "reads"];

const failingGrammars: CreateGrammarService = (model) => {
  const service = localGrammarService(model);
  return {
    open: async (constraint) => {
      points.opening.pass();
      const session = await service.open(constraint);
      return {
        compilation: session.compilation,
        advance: (tokens) => {
          points.masks.pass();
          return session.advance(tokens);
        },
        close: () => session.close(),
      };
    },
    close: () => service.close(),
  };
};

class FailingBlobs extends MemoryBlobs {
  override read(name: string) {
    points.reads.pass();
    return super.read(name);
  }

  override write(name: string, parts: readonly Uint8Array<ArrayBuffer>[]) {
    points.writes.pass();
    return super.write(name, parts);
  }

  override list() {
    points.writes.pass();
    return super.list();
  }
}

const prompt = (first: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((first + 31 * i) % 2000));
const sampling = { temperature: 0.9, seed: 3, maxNewTokens: 5, ignoreEos: true };
const logitBias = Object.fromEntries(Array.from({ length: 600 }, (_, i) => [i + 3, -1]));
const REQUESTS = {
  plain: { tokens: prompt(5, 9), sampling },
  twin: { tokens: prompt(5, 9), sampling: { ...sampling, seed: 4 } },
  penalized: { tokens: prompt(6, 9), sampling: { ...sampling, repetitionPenalty: 1.2 } },
  biased: { tokens: prompt(7, 9), sampling: { ...sampling, logitBias } },
  scored: {
    tokens: prompt(8, 20),
    sampling,
    logprobs: { promptStart: 0, topCount: 9, tokenIds: prompt(9, 99) },
  },
  constrained: { tokens: prompt(9, 9), sampling: { ...sampling, regex: "[a-z ]{90}" } },
  processed: {
    tokens: prompt(10, 9),
    sampling,
    logitProcessors: [() => points.processors.pass()],
  },
  stored: { tokens: prompt(11, 70), sampling, storePrefix: true },
} as const satisfies Readonly<Record<string, LocalRequest>>;
type Name = keyof typeof REQUESTS;
const ALL = Object.keys(REQUESTS) as Name[];

describe.skipIf(smallestCaseOnly)("faults", () => {
  const storage = new FailingBlobs();
  let engine: Engine;
  let want: ReadonlyMap<Name, readonly number[]>;

  beforeAll(async () => {
    engine = await openEngine({
      ...{ pageSize: 4, contextLength: 128, maxTotalTokens: 1024 },
      grammarService: failingGrammars,
      prefixStore: { storage, maxWait: 60 },
    });
    want = (await run(ALL)).answers;
    expect([...want.values()].map(({ length }) => length)).toEqual(ALL.map(() => 5));
  });
  afterAll(() => engine.close());
  afterEach(() => {
    vi.restoreAllMocks();
  });

  async function run(names: readonly Name[], isStored = false) {
    if (isStored) await until(() => expect(storage.blobs.size).toBeGreaterThan(0));
    // Waits until all of the last run is stored.
    expect(await engine.flushCache({ stored: !isStored })).toBe(true);
    const answers = new Map<Name, readonly number[]>();
    const errors = new Map<Name, unknown>();
    const one = async (name: Name) => {
      const tokens: number[] = [];
      try {
        for await (const chunk of engine.generate(REQUESTS[name])) tokens.push(...chunk.tokens);
        answers.set(name, tokens);
      } catch (error) {
        errors.set(name, error);
      }
    };
    await Promise.all(names.map(one));
    return { answers, errors };
  }

  /** That one request or none has ended with the error, and all else is as it should be. */
  async function check({ answers, errors }: Awaited<ReturnType<typeof run>>, failed: number) {
    expect([...errors.values()]).toEqual(Array(failed).fill(ERROR));
    for (const [name, tokens] of answers) expect([name, tokens]).toEqual([name, want.get(name)]);
    await until(() => {
      // Pages of a prefix that is being stored are given back when it is.
      const { healthy, usedTokens, queuedTokens, ...status } = engine.status();
      const running = status.runningRequests + status.queuedRequests;
      expect([healthy, usedTokens, queuedTokens, running]).toEqual([true, 0, 0, 0]);
    });
  }

  test.each(KINDS)("any of the %s may fail", async (kind) => {
    const { allocate } = PagePool.prototype;
    vi.spyOn(PagePool.prototype, "allocate").mockImplementation(function (
      this: PagePool,
      ...given
    ) {
      points.pages.pass();
      return allocate.apply(this, given);
    });
    const { push } = Detokenizer.prototype;
    vi.spyOn(Detokenizer.prototype, "push").mockImplementation(function (
      this: Detokenizer,
      ...given
    ) {
      points.texts.pass();
      return push.apply(this, given);
    });
    const point = points[kind];
    const isStored = kind === "reads";
    point.arm(0);
    await check(await run(ALL, isStored), 0);
    const { count } = point;
    expect(count).toBeGreaterThan(0);
    const distance = Math.max(1, Math.ceil(count / TRIED));
    for (let at = 1; at <= count; at += distance) {
      point.arm(at);
      const outcome = await run(ALL, isStored);
      // After a write that failed, nothing is written for a while.
      const isReached = point.count >= at;
      point.arm(0);
      await check(outcome, isReached && !HARMLESS.includes(kind) ? 1 : 0);
      expect(isReached || kind === "writes").toBe(true);
    }
    point.arm(0);
    await check(await run(ALL), 0);
  });

  test("steps that fail with one request's rows end it alone, and one that fails once ends none", async () => {
    const isOfPrompt = ({ phase }: { readonly phase: string }) => phase === "prefill";
    const { submit } = ModelRunner.prototype;
    /** Fails the steps that say so, before or behind their launches. */
    const failing = (isFailing: (batch: Batch) => boolean, isBehind: boolean) =>
      vi.spyOn(ModelRunner.prototype, "submit").mockImplementation(async function (
        this: ModelRunner,
        ...given
      ) {
        const fails = isFailing(given[0]);
        if (fails && !isBehind) throw ERROR;
        const submitted = await submit.apply(this, given);
        return fails ? { ...submitted, tokens: Promise.reject(ERROR) } : submitted;
      });
    for (const isBehind of [false, true]) {
      let steps = 0;
      failing(() => ++steps === 3, isBehind);
      await check(await run(ALL), 0);
      vi.restoreAllMocks();
      const { tokens } = REQUESTS.penalized;
      failing(
        ({ sequences, sources }) =>
          sequences.some((one) => isOfPrompt(one) && sources[one.queryStart] === tokens[0]),
        isBehind,
      );
      const outcome = await run(ALL);
      vi.restoreAllMocks();
      expect([...outcome.errors.keys()]).toEqual(["penalized"]);
      await check(outcome, 1);
      await check(await run(ALL), 0);
    }
  });

  test("steps that all fail end the engine", async () => {
    const other = await openEngine({ maxTotalTokens: 128 });
    vi.spyOn(ModelRunner.prototype, "submit").mockRejectedValue(ERROR);
    vi.spyOn(Suspects.prototype, "lost").mockReturnValue(undefined);
    const chunks = other.generate(REQUESTS.plain);
    await expect(chunks.next()).resolves.toMatchObject({ value: { tokens: [] } });
    await expect(chunks.next()).rejects.toBe(ERROR);
    expect(other.status().healthy).toBe(false);
    vi.restoreAllMocks();
    await other.close();
  });

  test.each([
    ["log-probability tokens", "scored"],
    ["token counts", "penalized"],
    ["logit biases", "biased"],
    ["readback", "processed"],
  ] as const)(
    "memory of the device for %s is a matter of the request alone",
    async (label, name) => {
      const before = engine;
      engine = await openEngine({ maxTotalTokens: 128 });
      try {
        const create = device.createBuffer.bind(device);
        vi.spyOn(device, "createBuffer").mockImplementation((descriptor) => {
          if (descriptor.label === label) throw ERROR;
          return create(descriptor);
        });
        const outcome = await run(["plain", name, "twin"]);
        vi.restoreAllMocks();
        expect([...outcome.errors.keys()]).toEqual([name]);
        await check(outcome, 1);
        await check(await run(["plain", name, "twin"]), 0);
      } finally {
        await engine.close();
        engine = before;
      }
    },
  );
});
