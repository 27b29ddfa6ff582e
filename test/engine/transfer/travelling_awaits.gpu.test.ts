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

beforeAll(async () => {
  if (smallestCaseOnly) return;
  sources = await watchedSources();
  const { Engine } = sources.modules["engine/engine"];
  const load = () =>
    Engine.load(folderSource(EMBEDDED_MODEL), {
      ...{ device, transfersPages: true, pageSize: 4, maxTotalTokens: 256, contextLength: 128 },
      ...{ triesInvariance: false, chunkedPrefillSize: 16, prefixCache: false },
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
      "transfer/page_departures.ts: const first = await taker.begin(prompt);",
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
