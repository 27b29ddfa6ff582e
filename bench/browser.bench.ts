/**
 * The engine in Chromium: from the visit of a page to its first token, cold and warm; milliseconds a
 * token beside Node on the same driver; what the worker and its port cost; sizes of what a page
 * fetches. Every answer is checked. Wants `WISP_ADAPTER=swiftshader`, the driver that Chromium has.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { Browser, BrowserContext } from "playwright-core";
import { createBuilder } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Answered } from "../test/browser/pages/engine_answer.ts";
import { launchChromium } from "../test/support/browser/chromium.ts";
import { serveProgram, type WebPage } from "../test/support/browser/web_page.ts";
import { EMBEDDED_MODEL } from "../test/support/checkpoints/embedded_model.ts";
import { adapter } from "../test/support/devices/gpu.ts";
import { openEngine } from "../test/support/engines/engine.ts";
import { filesIn } from "../test/support/server/file_server.ts";
import type { PortCost } from "./pages/port_cost.ts";
import type { EngineRates } from "./pages/token_rates.ts";
import { RATE_OPTIONS, tokenRate } from "./serving/token_rate.ts";
import { machine } from "./support/machine.ts";
import { table } from "./support/table.ts";

const QUESTION = "What is the capital of Japan?";
const ANSWER = "The capital of Japan is Tokyo.";
const START_HEADER = ["start", "requests", "KiB", "program", "stored", "loaded", "first token, s"];

let browser: Browser;
const printed: string[] = [];

beforeAll(async () => {
  const launched = await launchChromium();
  if (typeof launched === "string") throw new Error(launched);
  browser = launched;
  printed.push(`${machine()}; Chromium ${browser.version()}`);
});

afterAll(async () => {
  await browser?.close();
  console.log(printed.join("\n\n"));
});

const programAt = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** What the program reports at one visit. */
async function visit<T>(context: BrowserContext, server: WebPage, query = ""): Promise<T> {
  server.again();
  const page = await context.newPage();
  await page.goto(server.address + query);
  const found = await server.report<T>();
  await page.close();
  return found;
}

test("from the visit of a page to the first token", async () => {
  const program = programAt("../test/browser/pages/engine_answer.ts");
  const server = await serveProgram(program, {
    model: EMBEDDED_MODEL,
    minify: true,
    headers: { "cache-control": "max-age=3600" },
  });
  const question = `question=${encodeURIComponent(QUESTION)}`;
  const rows: string[][] = [];
  for (const way of ["worker", "store"]) {
    const context = await browser.newContext();
    for (const start of ["cold", "warm"]) {
      server.traffic();
      const query = `?${question}&${way}`;
      const { text, seconds } = await visit<Answered>(context, server, query);
      const transfers = server.traffic();
      const bytes = transfers.reduce((sum, transfer) => sum + transfer.bytes, 0);
      expect(text).toBe(ANSWER);
      const { program: begun, stored, loaded, firstToken } = seconds;
      const times = [begun, stored, loaded, firstToken].map((time) => time.toFixed(2));
      const name = `${start}, ${way === "store" ? "OPFS" : "HTTP"}`;
      rows.push([name, `${transfers.length}`, (bytes / 1024).toFixed(0), ...times]);
    }
    await context.close();
  }
  await server.close();
  printed.push(table(START_HEADER, rows));
}, 600_000);

test("milliseconds a token", async () => {
  expect(adapter.name, "the driver that Chromium has").toBe("SwiftShader");
  const engine = await openEngine(RATE_OPTIONS);
  const server = await serveProgram(programAt("pages/token_rates.ts"), { model: EMBEDDED_MODEL });
  const context = await browser.newContext();
  const rates = await visit<EngineRates>(context, server);
  const [node] = await tokenRate([engine]);
  await context.close();
  await server.close();
  await engine.close();
  const rows = Object.entries({ Node: node!, ...rates }).map(
    ([where, { milliseconds, tokens }]) => {
      expect(tokens, where).toEqual(node!.tokens);
      return [where, milliseconds.toFixed(2), (milliseconds / node!.milliseconds).toFixed(2)];
    },
  );
  printed.push(table(["engine", "ms a token", "to Node's"], rows));
}, 600_000);

test("the cost of a port to a worker", async () => {
  const server = await serveProgram(programAt("pages/port_cost.ts"));
  const context = await browser.newContext();
  const { page, worker, text } = await visit<PortCost>(context, server);
  expect(text).toMatch(/^ 0 1 2 .* 1999$/);
  await context.close();
  await server.close();
  const figures = [page, worker, worker - page].map((time) => time.toFixed(1));
  printed.push(
    table(["us a chunk", "page", "worker", "difference"], [["instant engine", ...figures]]),
  );
}, 600_000);

test("sizes of the package's files for the web", async () => {
  const outDir = programAt("../.cache/bench-dist");
  const root = programAt("..");
  const builder = await createBuilder({ root, logLevel: "error", build: { outDir } });
  await builder.buildApp();
  const kibi = (bytes: number) => (bytes / 1024).toFixed(0);
  const rows = [...filesIn(outDir)]
    .filter(([name]) => /^((index|browser\w*|shared)|tokenizers\/.*)\.js$/.test(name))
    .map(([name, bytes]) => [name, kibi(bytes.length), kibi(gzipSync(bytes).length)]);
  expect(rows.map(([name]) => name)).toEqual(expect.arrayContaining(["index.js", "browser.js"]));
  printed.push(table(["file", "KiB", "gzip, KiB"], rows));
}, 300_000);
