import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type OpenAI from "openai";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import type * as browserApi from "../../src/browser/index.ts";
import { launchChromium } from "../support/browser/chromium.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { bundlePage, installPackage } from "../support/package/installed_package.ts";
import { type FileServer, filesIn, serveFiles } from "../support/server/file_server.ts";
import { until } from "../support/until.ts";

const PROGRAM = `
import OpenAI from "openai";
import * as wisp from "wisp-llm/browser";
Object.assign(globalThis, { OpenAI, wisp });
`;
const KEY = "a-key";
const QUESTION = "What is the capital of Japan?";
const ANSWER = "The capital of Japan is Tokyo.";

/** What the page's own code sees. */
interface PageScope {
  readonly OpenAI: typeof OpenAI;
  readonly wisp: typeof browserApi;
  engine: browserApi.WorkerEngine;
  endpoint: browserApi.LocalEndpoint;
  client: OpenAI;
  /** Steps of the engine so far. */
  steps: number;
}

/** Tokens of an answer that its client leaves. */
const LONG = 480;

const folder = mkdtempSync(join(tmpdir(), "wisp-page-"));
let browser: Browser | undefined;
let whyNoBrowser = "";
let server: FileServer;
let context: BrowserContext;
/** The page that has the engine. */
let page: Page;
let address: string;

/** The page lies in a folder of its origin, as on many a host of static files. */
beforeAll(async () => {
  const launched = await launchChromium();
  if (typeof launched === "string") {
    whyNoBrowser = launched;
    return;
  }
  browser = launched;
  await installPackage(folder, ["openai"]);
  const files = new Map<string, Uint8Array>();
  for (const [name, bytes] of await bundlePage(folder, PROGRAM)) files.set(`app/${name}`, bytes);
  for (const [name, bytes] of filesIn(EMBEDDED_MODEL)) files.set(`app/model/${name}`, bytes);
  server = await serveFiles(files);
  address = `${server.url}app/index.html`;
  context = await browser.newContext();
  page = await openPage(address);
  await page.evaluate(
    async ([key]) => {
      const scope = globalThis as unknown as PageScope;
      const model = { kind: "url", url: "./model" } as const;
      scope.steps = 0;
      scope.engine = await scope.wisp.loadWorkerEngine(model, { onStep: () => scope.steps++ });
      scope.endpoint = await scope.wisp.startLocalEndpoint(scope.engine, {
        apiKey: key,
        servedModelName: "tiny",
        toolCallParser: "deepseekv3",
      });
    },
    [KEY],
  );
  await connectClient(page);
}, 240_000);

afterAll(async () => {
  await browser?.close();
  await server?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function openPage(url: string): Promise<Page> {
  const opened = await context.newPage();
  await opened.goto(url);
  await opened.waitForFunction(() => "wisp" in globalThis);
  return opened;
}

/** The client as it comes from npm; it sends nothing but its key and where to ask. */
function connectClient(from: Page): Promise<void> {
  return from.evaluate(
    ([apiKey, baseURL]) => {
      const scope = globalThis as unknown as PageScope;
      const options = { apiKey, baseURL, dangerouslyAllowBrowser: true, maxRetries: 0 };
      scope.client = new scope.OpenAI(options);
    },
    [KEY, `${server.url}app/v1`] as const,
  );
}

function requireBrowser(context: TestContext): void {
  if (browser === undefined) context.skip(whyNoBrowser);
}

/** The answer to the question, through the client. */
function ask(from: Page): Promise<string | null> {
  return from.evaluate(async (question) => {
    const { client } = globalThis as unknown as PageScope;
    const messages = [{ role: "user" as const, content: question }];
    const body = { model: "tiny", messages, temperature: 0, max_tokens: 24 };
    const { choices } = await client.chat.completions.create(body);
    return choices[0]!.message.content;
  }, QUESTION);
}

/** Status and body of a request that the page makes by itself. */
function request(from: Page, url: string, init: RequestInit = {}) {
  return from.evaluate(
    async ([url, init]) => {
      const response = await fetch(url, init);
      const hasId = response.headers.get("x-request-id") !== null;
      return { status: response.status, body: await response.text(), hasId };
    },
    [url, init] as const,
  );
}

const withKey = (init: RequestInit = {}): RequestInit => ({
  ...init,
  headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
});

test("tells where it is, and lists the model", async (context) => {
  requireBrowser(context);
  const found = await page.evaluate(async () => {
    const { endpoint, client } = globalThis as unknown as PageScope;
    const models = await client.models.list();
    return { ...endpointOf(endpoint), ids: models.data.map(({ id }) => id) };
    function endpointOf({ url, baseURL }: browserApi.LocalEndpoint) {
      return { url, baseURL };
    }
  });
  const url = `${server.url}app/`;
  expect(found).toEqual({ url, baseURL: `${url}v1`, ids: ["tiny"] });
});

test("answers OpenAI's client, at once and as a stream", async (context) => {
  requireBrowser(context);
  expect(await ask(page)).toBe(ANSWER);
  const streamed = await page.evaluate(async (question) => {
    const { client } = globalThis as unknown as PageScope;
    const stream = await client.chat.completions.create({
      model: "tiny",
      messages: [{ role: "user", content: question }],
      temperature: 0,
      max_tokens: 24,
      stream: true,
    });
    const pieces: { readonly text: string; readonly at: number }[] = [];
    for await (const { choices } of stream) {
      const text = choices[0]?.delta.content;
      if (text) pieces.push({ text, at: performance.now() });
    }
    return pieces;
  }, QUESTION);
  expect(streamed.map(({ text }) => text).join("")).toBe(ANSWER);
  // Pieces come as they are made: the last well after the first.
  expect(streamed.length).toBeGreaterThan(3);
  expect(streamed.at(-1)!.at - streamed[0]!.at).toBeGreaterThan(20);
});

test("tells tool calls apart", async (context) => {
  requireBrowser(context);
  const choice = await page.evaluate(async () => {
    const { client } = globalThis as unknown as PageScope;
    const text = { type: "string" };
    const parameters = { type: "object", properties: { city: text, unit: text } };
    const weather = { name: "get_weather", description: "Get the current weather in a city." };
    const { choices } = await client.chat.completions.create({
      model: "tiny",
      messages: [{ role: "user", content: "What is the weather in Paris in celsius?" }],
      tools: [{ type: "function", function: { ...weather, parameters } }],
      temperature: 0,
      max_tokens: 64,
    });
    const { finish_reason: reason, message } = choices[0]!;
    return { reason, calls: message.tool_calls };
  });
  expect(choice).toMatchObject({
    reason: "tool_calls",
    calls: [{ type: "function", function: { name: "get_weather" } }],
  });
  const called = choice.calls![0] as { function: { arguments: string } };
  expect(JSON.parse(called.function.arguments)).toMatchObject({ city: "Paris" });
});

test("a client that leaves a stream ends its request", async (context) => {
  requireBrowser(context);
  const steps = await page.evaluate(async (length) => {
    const scope = globalThis as unknown as PageScope;
    const { client, engine } = scope;
    const leaving = new AbortController();
    const stream = await client.completions.create(
      { model: "tiny", prompt: "Count: 1, 2,", max_tokens: length, stream: true },
      { signal: leaving.signal },
    );
    const before = scope.steps;
    for await (const _ of stream) leaving.abort();
    while (engine.status().runningRequests > 0) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return scope.steps - before;
  }, LONG);
  expect(steps).toBeLessThan(LONG / 2);
});

test("answers /generate, and 401 without the key", async (context) => {
  requireBrowser(context);
  const body = JSON.stringify({
    text: "The capital of Japan is",
    sampling_params: { temperature: 0, max_new_tokens: 4 },
  });
  const answered = await request(page, "./generate", withKey({ method: "POST", body }));
  expect(answered).toMatchObject({ status: 200, hasId: true });
  expect(JSON.parse(answered.body)).toMatchObject({ meta_info: { completion_tokens: 4 } });
  expect(await request(page, "./generate", { method: "POST", body })).toMatchObject({
    status: 401,
  });
  const profile = await request(page, "./start_profile", withKey({ method: "POST" }));
  expect(profile.status).toBe(400);
});

test("leaves everything else to the network, and tabs that go there", async (context) => {
  requireBrowser(context);
  for (const path of ["/v1/models", "./v2/models", "./metrics"]) {
    expect(await request(page, path, withKey())).toEqual({
      status: 404,
      body: "not found",
      hasId: false,
    });
  }
  const tab = await openPage(address);
  const gone = await tab.goto(`${server.url}app/flush_cache`);
  expect(gone!.status()).toBe(404);
  await tab.close();
});

test("an endpoint can be closed after its engine, and more than once", async (context) => {
  requireBrowser(context);
  const ids = await page.evaluate(async () => {
    const { wisp, engine, client } = globalThis as unknown as PageScope;
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const other = { connect: () => engine.connect(), ended };
    const endpoint = await wisp.startLocalEndpoint(other, { servedModelName: "other" });
    const names = async () => (await client.models.list()).data.map(({ id }) => id);
    const before = await names();
    end();
    await ended;
    await Promise.all([endpoint.close(), endpoint.close()]);
    return { before, after: await names() };
  });
  expect(ids).toEqual({ before: ["other"], after: ["tiny"] });
});

test("works on after the browser has stopped the service worker", async (context) => {
  requireBrowser(context);
  const session = await page.context().newCDPSession(page);
  const running: string[] = [];
  session.on("ServiceWorker.workerVersionUpdated", ({ versions }) => {
    for (const { runningStatus } of versions) running.push(runningStatus);
  });
  await session.send("ServiceWorker.enable");
  await session.send("ServiceWorker.stopAllWorkers");
  await until(async () => expect(await running).toContain("stopped"));
  expect(await ask(page)).toBe(ANSWER);
  await session.detach();
});

test("a second tab is answered by the first one's engine, until that is closed", async (context) => {
  requireBrowser(context);
  const tab = await openPage(address);
  await connectClient(tab);
  expect(await ask(tab)).toBe(ANSWER);
  await page.close();
  expect(await request(tab, "./v1/models", withKey())).toEqual({
    status: 503,
    body: expect.stringContaining("Cannot GET /v1/models: no page that has an engine is open"),
    hasId: true,
  });
  await tab.close();
});
