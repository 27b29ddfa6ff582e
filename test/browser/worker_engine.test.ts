import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import type * as browserApi from "../../src/browser/index.ts";
import type * as api from "../../src/index.ts";
import { type ScriptedPage, servePage } from "../support/browser/scripted_page.ts";
import { until } from "../support/until.ts";

const PROGRAM = `
import * as api from "wisp-llm";
import * as browserApi from "wisp-llm/browser";
async function tokensOf(engine, tokens) {
  const sampling = { temperature: 0, maxNewTokens: 48, ignoreEos: true };
  const all = [];
  for await (const chunk of engine.generate({ tokens, sampling })) all.push(...chunk.tokens);
  return all;
}
Object.assign(globalThis, { wisp: { ...api, ...browserApi }, tokensOf });
`;
const QUESTION = "What is the capital of Japan?";
const ANSWER = "The capital of Japan is Tokyo.";
/** Prompts whose two best tokens are never close, and what the reference implementation continues. */
const GOLDEN = JSON.parse(
  readFileSync(new URL("./golden_tokens.json", import.meta.url), "utf8"),
) as readonly { readonly prompt: readonly number[]; readonly greedy: readonly number[] }[];

const fullTest = process.env.WISP_TEST_FULL === "1";

type Wisp = typeof api & typeof browserApi;
/** What the page's own code sees. */
interface PageScope {
  readonly wisp: Wisp;
  /** Those that follow a prompt greedily. */
  readonly tokensOf: (engine: api.GenerationEngine, prompt: readonly number[]) => Promise<number[]>;
  engine: browserApi.WorkerEngine;
}

let served: ScriptedPage | string;

beforeAll(async () => {
  served = await servePage({ "main.js": PROGRAM });
}, 120_000);

afterAll(async () => {
  if (typeof served !== "string") await served.close();
});

async function openPage(context: TestContext, url?: string): Promise<Page> {
  if (typeof served === "string") return context.skip(served);
  const page = await served.browser.newPage();
  context.onTestFinished(() => page.close());
  await page.goto(url ?? served.address);
  await page.waitForFunction(() => "wisp" in globalThis);
  return page;
}

/**
 * File names of the page's workers. Those that a worker has started end with it, which the test does
 * not always hear of.
 */
function workersOf(page: Page): readonly string[] {
  const names = page.workers().map((worker) => worker.url().replace(/.*\//, ""));
  return names.filter((name) => !name.startsWith("grammar"));
}

/** What loading fails with. */
function failureOf(
  page: Page,
  address: browserApi.ModelAddress,
  options: Readonly<Record<string, unknown>> = {},
) {
  return page.evaluate(
    async ([address, options]) => {
      const { wisp } = globalThis as unknown as PageScope;
      const listen = () => {
        throw new Error("not mine");
      };
      const functions = Object.keys(options).filter((name) => options[name] === "a function");
      const given: object = {
        ...options,
        ...Object.fromEntries(functions.map((name) => [name, listen])),
      };
      try {
        await wisp.loadWorkerEngine(address, given);
        return undefined;
      } catch (error) {
        const { name, message } = error as Error;
        return { name, message, isEngineError: error instanceof wisp.EngineError };
      }
    },
    [address, options] as const,
  );
}

describe("an engine in a worker", () => {
  let page: Page | undefined;

  test("loads, telling how far it is, and gives the golden tokens", async (context) => {
    if (typeof served === "string") return context.skip(served);
    page = await served.browser.newPage();
    await page.goto(served.address);
    await page.waitForFunction(() => "wisp" in globalThis);
    const found = await page.evaluate(
      async ([url, prompts]) => {
        const scope = globalThis as unknown as PageScope;
        const told = { plans: 0, steps: 0, phases: new Set<string>() };
        scope.engine = await scope.wisp.loadWorkerEngine(
          { kind: "url", url },
          {
            contextLength: 512,
            maxRunningRequests: 4,
            onPlan: () => (told.plans += 1),
            onProgress: ({ phase }) => told.phases.add(phase),
            onStep: () => (told.steps += 1),
          },
        );
        const { engine, tokensOf } = scope;
        const { adapter, memoryPlan, selfTest, pipelines } = engine;
        const messages = [{ role: "user", content: "What is the capital of Japan?" }];
        const chat = await engine.chat.completions.create({ messages, temperature: 0 });
        return {
          tokens: await Promise.all(prompts.map((prompt) => tokensOf(engine, prompt))),
          model: engine.model,
          said: chat.choices[0]!.message.content,
          adapter: { name: adapter.name, isCpu: adapter.isCpu, warning: adapter.warning },
          cacheTokens: memoryPlan.cacheTokens,
          failures: selfTest.failures,
          pipelines: pipelines.length,
          told: { ...told, phases: [...told.phases] },
        };
      },
      [served.modelUrl, GOLDEN.map(({ prompt }) => prompt)] as const,
    );
    expect(found.tokens).toEqual(GOLDEN.map(({ greedy }) => greedy));
    expect(found.model).toMatchObject({ path: served.modelUrl, contextLength: 512 });
    expect(found.said).toContain("Tokyo");
    expect(found.told).toMatchObject({ plans: 1, phases: ["adapter", "weights", "pipelines"] });
    expect(found.told.steps).toBeGreaterThan(47);
    expect(found.cacheTokens).toBeGreaterThan(512);
    expect(found.failures).toEqual([]);
    expect(found.pipelines).toBeGreaterThan(10);
    if (found.adapter.isCpu) expect(found.adapter.warning).toContain(found.adapter.name);
  }, 120_000);

  test("drafts with the checkpoint's layer, and gives the golden tokens", async (context) => {
    if (typeof served === "string") return context.skip(served);
    const own = await openPage(context);
    const found = await own.evaluate(
      async ([url, prompts]) => {
        const { wisp, tokensOf } = globalThis as unknown as PageScope;
        const options = { contextLength: 512, maxRunningRequests: 2 };
        const speculation = { algorithm: "EAGLE", adaptive: "off" } as const;
        const engine = await wisp.loadWorkerEngine(
          { kind: "url", url },
          { ...options, speculation },
        );
        const tokens = await Promise.all(prompts.map((prompt) => tokensOf(engine, prompt)));
        const { speculation: figures } = engine.status();
        await engine.close();
        return { tokens, figures };
      },
      [served.modelUrl, GOLDEN.slice(0, 2).map(({ prompt }) => prompt)] as const,
    );
    expect(found.tokens).toEqual(GOLDEN.slice(0, 2).map(({ greedy }) => greedy));
    expect(found.figures!.acceptedDrafts).toBeGreaterThan(found.figures!.verifySteps);
  }, 120_000);

  test("answers at several ports, follows grammars, and frees what is aborted", async (context) => {
    if (typeof served === "string" || page === undefined) return context.skip("nothing is loaded");
    const found = await page.evaluate(
      async ([question]) => {
        const { wisp, engine } = globalThis as unknown as PageScope;
        const messages = [{ role: "user", content: question }];
        type Given = Parameters<typeof engine.generate>[0];
        const textOf = async (from: api.GenerationEngine, request: Given) => {
          let text = "";
          for await (const chunk of from.generate(request)) text += chunk.text;
          return text;
        };
        const remote = await wisp.RemoteEngine.connect(wisp.messagePort(engine.connect()));
        const greedy = { temperature: 0 };
        const [mine, theirs, digits] = await Promise.all([
          textOf(engine, { messages, sampling: greedy }),
          textOf(remote, { messages, sampling: greedy }),
          textOf(remote, { messages, sampling: { ...greedy, regex: "[0-9]{3}" } }),
        ]);
        await remote.close();
        const stopping = new AbortController();
        const long = { ...greedy, maxNewTokens: 300, ignoreEos: true };
        const aborted = await (async () => {
          const { signal } = stopping;
          try {
            for await (const { completionTokens } of engine.generate({
              messages,
              sampling: long,
              signal,
            }))
              if (completionTokens === 3) stopping.abort();
          } catch (error) {
            return (error as Error).name;
          }
          return "ended";
        })();
        const usedWhile = engine.status().usedTokens;
        for (let i = 0; i < 100 && engine.status().usedTokens > 0; i++) {
          await new Promise((resolve) => setTimeout(resolve, 50));
        }
        const { usedTokens, runningRequests, healthy } = engine.status();
        const refused = await textOf(engine, { messages, sampling: { topP: 7 } }).catch(
          (error) => error,
        );
        return {
          ...{ mine, theirs, digits, aborted, usedWhile },
          after: { usedTokens, runningRequests, healthy },
          refused: { field: refused.field, known: refused instanceof wisp.InvalidRequestError },
        };
      },
      [QUESTION] as const,
    );
    expect(found).toEqual({
      ...{ mine: ANSWER, theirs: ANSWER, aborted: "AbortError" },
      digits: expect.stringMatching(/^[0-9]{3}$/),
      usedWhile: expect.any(Number),
      after: { usedTokens: 0, runningRequests: 0, healthy: true },
      refused: { field: expect.any(String), known: true },
    });
  }, 120_000);

  test("close() ends what runs with an abort, and the worker", async (context) => {
    if (typeof served === "string" || page === undefined) return context.skip("nothing is loaded");
    const found = await page.evaluate(async () => {
      const { wisp, engine } = globalThis as unknown as PageScope;
      const remote = await wisp.RemoteEngine.connect(wisp.messagePort(engine.connect()));
      const sampling = { temperature: 0, maxNewTokens: 400, ignoreEos: true };
      const lastOf = async (from: api.GenerationEngine) => {
        let last: api.GenerationChunk | undefined;
        for await (const chunk of from.generate({ prompt: "Hello", sampling })) last = chunk;
        return last!.finish;
      };
      const running = [lastOf(engine), lastOf(remote)];
      while (engine.status().runningRequests < 2) {
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      // Browsers end the workers of a worker with it, and tests do not always hear of either.
      let terminated = 0;
      const { terminate } = Worker.prototype;
      Worker.prototype.terminate = function () {
        terminated += 1;
        terminate.call(this);
      };
      await engine.close();
      const ended = await Promise.all(running);
      const outcome = (work: () => Promise<unknown>) =>
        work().then(String, (error) => `${error.name}: ${error.message}`);
      return {
        ended,
        terminated,
        healthy: [engine.status().healthy, remote.status().healthy],
        connecting: await outcome(async () => engine.connect()),
        asking: await outcome(() => remote.tokenize({ prompt: "a" })),
      };
    });
    const abort = { type: "abort", message: "the engine is closed" };
    expect(found).toEqual({
      ended: [abort, abort],
      terminated: 1,
      healthy: [false, false],
      connecting: "WorkerError: Cannot connect: the engine is closed",
      asking: "WorkerError: Cannot generate: the engine is closed",
    });
    await page.close();
  }, 60_000);
});

test.runIf(fullTest)(
  "a worker that fails ends everything that waits for it",
  async (context) => {
    const page = await openPage(context);
    const found = await page.evaluate(
      async (url) => {
        const { wisp } = globalThis as unknown as PageScope;
        const onStep = () => {
          throw new Error("no more");
        };
        const options = { contextLength: 64, onStep };
        const engine = await wisp.loadWorkerEngine({ kind: "url", url }, options);
        const remote = await wisp.RemoteEngine.connect(wisp.messagePort(engine.connect()));
        const outcome = async (from: api.GenerationEngine) => {
          try {
            for await (const _ of from.generate({ prompt: "Hello" }));
          } catch (error) {
            return `${(error as Error).name}: ${(error as Error).message}`;
          }
          return "ended";
        };
        const outcomes = await Promise.all([outcome(engine), outcome(remote), outcome(engine)]);
        await engine.close();
        return { outcomes, healthy: [engine.status().healthy, remote.status().healthy] };
      },
      (served as ScriptedPage).modelUrl,
    );
    const failed = "WorkerError: Cannot generate: onStep failed: no more";
    // Browsers that do not tell at once notice the silence.
    const gone =
      /^WorkerError: Cannot generate: (its other end is closed|the engine does not answer)/;
    const outcomes = [failed, expect.stringMatching(gone), failed];
    expect(found).toEqual({ outcomes, healthy: [false, false] });
  },
  120_000,
);

test("says why a model cannot be loaded", async (context) => {
  const page = await openPage(context);
  const { address, modelUrl } = served as ScriptedPage;
  const model = { kind: "url", url: modelUrl } as const;
  expect(await failureOf(page, { kind: "url", url: `${address}/nowhere/` })).toMatchObject({
    ...{ name: "CheckpointError", isEngineError: true },
    message: expect.stringMatching(/^Cannot load config\.json/),
  });
  expect(await failureOf(page, { kind: "store", name: "org/nothing" })).toMatchObject({
    ...{ name: "CheckpointError", message: expect.stringContaining("org/nothing") },
  });
  expect(await failureOf(page, { kind: "files", files: [] })).toMatchObject({
    ...{ name: "CheckpointError", message: expect.stringContaining("picked files") },
  });
  expect(await failureOf(page, model, { device: "a function" })).toMatchObject({
    message: "Cannot use device: an engine in a worker has its own",
  });
  expect(await failureOf(page, model, { powerPreference: "most" })).toMatchObject({
    name: "InvalidRequestError",
  });
  expect(await failureOf(page, model, { maxRunningRequests: 0 })).toMatchObject({
    ...{ name: "InvalidRequestError", message: expect.stringContaining("maxRunningRequests") },
  });
  expect(await failureOf(page, model, { chatTemplate: "a function" })).toMatchObject({
    message: "Cannot use chatTemplate: it cannot be sent to a worker",
  });
  expect(await failureOf(page, model, { onPlan: "a function" })).toMatchObject({
    message: "not mine",
  });
  await until(async () => expect(await workersOf(page)).toEqual([]));
}, 60_000);

test("says so where the page is not secure, and where the worker is missing", async (context) => {
  if (typeof served === "string") return context.skip(served);
  const { browser, files, modelUrl } = served;
  const page = await browser.newPage();
  context.onTestFinished(() => page.close());
  const missing = new Set<string>();
  // No name but localhost's is secure without TLS.
  await page.route("http://wisp.test/**", (route) => {
    const name = new URL(route.request().url()).pathname.slice(1);
    const body = missing.has(name) ? undefined : files.get(name);
    if (body === undefined) return route.fulfill({ status: 404, body: "not found" });
    const contentType = name.endsWith(".html") ? "text/html" : "text/javascript";
    return route.fulfill({ body: Buffer.from(body), contentType });
  });
  const model = { kind: "url", url: modelUrl } as const;
  await page.goto("http://wisp.test/index.html");
  await page.waitForFunction(() => "wisp" in globalThis);
  expect(await failureOf(page, model)).toEqual({
    name: "DeviceError",
    message: expect.stringMatching(/^Cannot find a GPU adapter: .* secure pages only/),
    isEngineError: true,
  });
  for (const name of files.keys()) if (/worker/.test(name)) missing.add(name);
  expect(await failureOf(page, model)).toMatchObject({
    message: "Cannot run the engine: its worker cannot be loaded",
  });
}, 60_000);
