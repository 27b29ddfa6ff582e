/**
 * Whatever pages that travel between two engines wait for may fail: the request ends with an error or is
 * answered, no page is left in use on either side, and the next request has the answer that was to come.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import type { PageRun, PageSource, PageTaker } from "../../../src/engine/transfer/page_routes.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { device, smallestCaseOnly } from "../../support/devices/gpu.ts";
import {
  type AwaitHook,
  type WatchedSources,
  watchedSources,
} from "../../support/faults/watched_awaits.ts";
import { until } from "../../support/until.ts";

/** Whose waits are tried; those of `bring` end with the request, which tells of them. */
const TRAVELLING = /^src\/engine\/(transfer\/|start_sequence\.ts)/;

const REQUEST = {
  tokens: Array.from({ length: 41 }, (_, i) => 5 + 7 * i),
  sampling: { maxNewTokens: 6, temperature: 0, ignoreEos: true, regex: "[a-z ]{1,40}" },
};

let sources: WatchedSources;
let prefill: Engine;
let decode: Engine;
let load: () => Promise<Engine>;

beforeAll(async () => {
  if (smallestCaseOnly) return;
  sources = await watchedSources();
  const { Engine } = sources.modules["engine/engine"];
  load = () =>
    Engine.load(folderSource(EMBEDDED_MODEL), {
      ...{ device, transfersPages: true, pageSize: 4, maxTotalTokens: 256, contextLength: 128 },
      ...{ triesInvariance: false, chunkedPrefillSize: 16, prefixCache: false },
      reservedDecodeTokens: 0,
      ...{ grammarBackend: "auto" as const },
    }) as Promise<Engine>;
  [prefill, decode] = [await load(), await load()];
});
afterEach(() => sources?.setHook(undefined));
afterAll(async () => {
  await prefill?.close();
  await decode?.close();
});

/** One request's way from an engine to another, within this process. */
class Route implements PageTaker, PageSource {
  readonly #over = new AbortController();
  readonly #runs: PageRun[] = [];
  #first: number | undefined;
  #isDone = false;
  #news: (() => void)[] = [];

  get signal(): AbortSignal {
    return this.#over.signal;
  }

  announce(): void {}

  async begin(): Promise<number> {
    await this.#until(() => this.#first !== undefined);
    return this.#first!;
  }

  async take(run: PageRun): Promise<void> {
    this.#runs.push(run);
    this.#tell();
    await this.#until(() => this.#runs.length < 2);
  }

  end(): void {
    this.#isDone = true;
    this.#tell();
  }

  fail(error: unknown): void {
    this.#over.abort(error);
    this.#tell();
  }

  leave(): void {
    if (!this.#isDone) this.fail(new Error("it has left"));
  }

  async *pages(first: number): AsyncGenerator<PageRun, void> {
    this.#first = first;
    this.#tell();
    for (;;) {
      await this.#until(() => this.#runs.length > 0 || this.#isDone);
      const run = this.#runs.shift();
      if (run === undefined) return;
      yield run;
      this.#tell();
    }
  }

  #tell(): void {
    for (const one of this.#news.splice(0)) one();
  }

  async #until(isSo: () => boolean): Promise<void> {
    for (;;) {
      if (this.#over.signal.aborted) throw this.#over.signal.reason;
      if (isSo()) return;
      await new Promise<void>((resolve) => this.#news.push(resolve));
    }
  }
}

/** The answer, or the error that the request has ended with. */
async function run(hook?: AwaitHook): Promise<readonly number[] | Error> {
  const route = new Route();
  sources.setHook(hook);
  const tokensOf = async (engine: Engine, request: Parameters<Engine["generate"]>[0]) => {
    const tokens: number[] = [];
    for await (const chunk of engine.generate(request)) tokens.push(...chunk.tokens);
    return tokens;
  };
  const prefilling = tokensOf(prefill, { ...REQUEST, pageTaker: route }).catch((error: unknown) =>
    route.fail(error),
  );
  const answer = await tokensOf(decode, { ...REQUEST, pageSource: route }).catch(
    (error: unknown) => {
      route.fail(error);
      return error as Error;
    },
  );
  await prefilling;
  sources.setHook(undefined);
  return answer;
}

async function nothingLeft(): Promise<void> {
  await until(() => {
    for (const engine of [prefill, decode]) {
      expect(engine.status()).toMatchObject({ usedTokens: 0, runningRequests: 0, healthy: true });
      expect(engine.travellers).toEqual({ leaving: 0, waiting: 0, arriving: 0 });
    }
  });
}

test.skipIf(smallestCaseOnly)("each wait may fail", async () => {
  const counts = new Map<string, number>();
  const right = await run((site, awaited) => {
    if (TRAVELLING.test(site)) counts.set(site, (counts.get(site) ?? 0) + 1);
    return awaited;
  });
  expect(right).toHaveLength(REQUEST.sampling.maxNewTokens);
  await nothingLeft();
  const sites = [...counts.keys()].map((site) => site.slice("src/engine/".length));
  expect(sites).toEqual(
    expect.arrayContaining([
      "transfer/page_departures.ts: first = await taker.begin(prompt);",
      "transfer/page_departures.ts: bytes = await this.#options.codec.readPages(pages);",
      "transfer/page_departures.ts: await taker.take({ first: next, count, bytes });",
      "transfer/page_arrivals.ts: const cachedTokens = await this.#place(sequence, prompt, source);",
      "transfer/page_arrivals.ts: await this.#options.codec.writePages(run.bytes, target);",
      "start_sequence.ts: await grammar;",
    ]),
  );
  let failed = 0;
  for (const [site, count] of counts) {
    for (const at of new Set([1, count])) {
      let passed = 0;
      const got = await run((other, awaited) => {
        if (other !== site || ++passed !== at) return awaited;
        return Promise.resolve(awaited).then(() => {
          throw new Error(`broken: ${site}`);
        });
      });
      if (got instanceof Error) failed += 1;
      else expect(got, `${site} (${at})`).toEqual(right);
      await nothingLeft();
      expect(await run(), `behind ${site} (${at})`).toEqual(right);
    }
  }
  expect(failed).toBeGreaterThan(counts.size / 2);
  await nothingLeft();
});

/** A request whose prompt takes 25 of the 64 pages, unless it is a shorter one. */
const asked = (first: number, length = 100) => ({
  tokens: Array.from({ length }, (_, i) => first + 3 * i),
  sampling: { maxNewTokens: 1, temperature: 0, ignoreEos: true },
});

/** Takes pages, but not before it is let. */
function holding() {
  const over = new AbortController();
  let release = () => {};
  const isFree = new Promise<void>((resolve) => {
    release = resolve;
  });
  const state = { isLeaving: false };
  const taker: PageTaker = {
    signal: over.signal,
    begin: async () => 0,
    take: () => {
      state.isLeaving = true;
      return isFree;
    },
    end: () => {},
    fail: (error) => over.abort(error),
  };
  return { taker, state, release };
}

/** Gives no pages, until it is left. */
class Silent implements PageSource {
  hasPlace = false;
  #end = (_: Error) => {};
  readonly #over = new Promise<never>((_, reject) => {
    this.#end = reject;
  });

  announce(): void {}

  pages(): AsyncIterable<PageRun> {
    this.hasPlace = true;
    return { [Symbol.asyncIterator]: () => ({ next: () => this.#over }) };
  }

  leave(): void {
    this.#over.catch(() => {});
    this.#end(new Error("it has left"));
  }
}

async function endOf(engine: Engine, request: Parameters<Engine["generate"]>[0]): Promise<unknown> {
  try {
    let finish: unknown;
    for await (const chunk of engine.generate(request)) finish = chunk.finish;
    return finish;
  } catch (error) {
    return (error as Error).message;
  }
}

test.skipIf(smallestCaseOnly)(
  "a prompt that waits for pages gets those that have left",
  async () => {
    const [one, other] = [holding(), holding()];
    const ends = [one, other].map(({ taker }, i) =>
      endOf(prefill, { ...asked(5 + i), pageTaker: taker }),
    );
    await until(() => expect([one, other].every(({ state }) => state.isLeaving)).toBe(true));
    await Promise.all(ends);
    const waiting = endOf(prefill, asked(9));
    await until(() => expect(prefill.status().usedTokens).toBeGreaterThan(200));
    // It finds no more pages, and no step is to come.
    await new Promise((resolve) => setTimeout(resolve, 200));
    one.release();
    expect(await waiting).toMatchObject({ type: "length" });
    other.release();
    await nothingLeft();
  },
);

test.skipIf(smallestCaseOnly)(
  "sequences that wait for pages go on when an arrival leaves",
  async () => {
    const sources = [new Silent(), new Silent(), new Silent()];
    const leaving = sources.map(() => new AbortController());
    const ends = sources.map((pageSource, i) => {
      const { signal } = leaving[i]!;
      return endOf(decode, { ...asked(5 + i), pageSource, signal });
    });
    const hasPlace = () => sources.map((source) => source.hasPlace);
    await until(() => expect(hasPlace()).toEqual([true, true, false]));
    leaving[0]!.abort();
    await until(() => expect(hasPlace()).toEqual([true, true, true]));
    // Fourteen pages are left, of which this needs twenty.
    const running = endOf(decode, {
      ...asked(3, 20),
      sampling: { maxNewTokens: 60, temperature: 0, ignoreEos: true },
    });
    await until(() => expect(decode.status().usedTokens).toBeGreaterThan(250));
    await new Promise((resolve) => setTimeout(resolve, 200));
    leaving[1]!.abort();
    expect(await running).toMatchObject({ type: "length" });
    leaving[2]!.abort();
    for (const end of ends) expect(await end).toContain("abort");
    await nothingLeft();
  },
);

test.skipIf(smallestCaseOnly)(
  "a close ends those that wait for places, pages and takers",
  async () => {
    const engine = await load();
    const sources = [new Silent(), new Silent(), new Silent()];
    const ends = sources.map((pageSource, i) => endOf(engine, { ...asked(5 + i), pageSource }));
    const over = new AbortController();
    const never = new Promise<number>((_, reject) => {
      over.signal.addEventListener("abort", () => reject(over.signal.reason));
    });
    const taker = {
      ...holding().taker,
      begin: () => never,
      fail: (error: unknown) => over.abort(error),
    };
    ends.push(endOf(engine, { ...asked(11), pageTaker: taker }));
    await until(() => expect(sources[1]!.hasPlace).toBe(true));
    await engine.close();
    const closed = "Cannot generate: the engine is closed";
    const aborted = { type: "abort", message: "the engine is closed" };
    expect(await Promise.all(ends)).toMatchObject([aborted, aborted, closed, closed]);
    expect(engine.travellers).toEqual({ leaving: 0, waiting: 0, arriving: 0 });
  },
);
