import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { build } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { workerGrammarService } from "../../src/browser/worker/worker_grammar_service.ts";
import { launchChromium } from "../support/browser/chromium.ts";
import { builtPackage } from "../support/package/built_package.ts";
import { type FileServer, filesIn, serveFiles } from "../support/server/file_server.ts";

const PAGE =
  '<!doctype html><link rel="icon" href="data:,"><script type="module" src="./main.js"></script>';
const PROGRAM = `
import { workerGrammarService } from "./dist/browser.js";
Object.assign(globalThis, { workerGrammarService });
`;

const folder = mkdtempSync(join(tmpdir(), "wisp-page-"));
const [written, bundled] = [join(folder, "written"), join(folder, "bundled")];
const servers: FileServer[] = [];
let browser: Browser | undefined;
let whyNoBrowser = "";

/** A page that has the built package beside it, as it is and as a bundler makes it. */
beforeAll(async () => {
  const launched = await launchChromium();
  if (typeof launched === "string") {
    whyNoBrowser = launched;
    return;
  }
  browser = launched;
  mkdirSync(written);
  writeFileSync(join(written, "index.html"), PAGE);
  writeFileSync(join(written, "main.js"), PROGRAM);
  cpSync(await builtPackage(), join(written, "dist"), { recursive: true });
  await build({
    root: written,
    configFile: false,
    logLevel: "error",
    build: { outDir: bundled, emptyOutDir: true, minify: false },
  });
}, 120_000);

afterAll(async () => {
  await browser?.close();
  for (const server of servers) await server.close();
  rmSync(folder, { recursive: true, force: true });
});

type Service = ReturnType<typeof workerGrammarService>;

test.for([
  ["as it is built", written],
  ["bundled with a page", bundled],
])("grammars are followed in a worker: the package %s", async ([, pageFolder], context) => {
  if (browser === undefined) return context.skip(whyNoBrowser);
  const server = await serveFiles(filesIn(pageFolder!));
  servers.push(server);
  const page = await browser.newPage();
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => problems.push(message.text()));
  await page.goto(`${server.url}index.html`);
  await page.waitForFunction(() => "workerGrammarService" in globalThis);
  const found = await page.evaluate(async () => {
    const scope = globalThis as unknown as { workerGrammarService: typeof workerGrammarService };
    const service: Service = scope.workerGrammarService({
      tokens: {
        size: 257,
        bytes: (id) => (id === 0 ? new Uint8Array(0) : Uint8Array.of(id - 1)),
        isSpecial: () => false,
      },
      endTokens: [0],
      vocabularySize: 300,
    });
    const allowed = (mask: Uint32Array) =>
      Array.from({ length: 300 }, (_, id) => id).filter((id) => (mask[id >>> 5]! >>> id) & 1);
    const session = await service.open({ kind: "regex", source: "[bc]?a" });
    const begin = await session.advance([]);
    const end = await session.advance([98]);
    session.close();
    const outcome = (promise: Promise<unknown>) =>
      promise.then(String, ({ name, message, position }) => [name, message, position]);
    const malformed = await outcome(service.open({ kind: "regex", source: "a(b" }));
    const heavy = outcome(service.open({ kind: "regex", source: "(\\p{L}{1,40} ?){60}" }));
    await new Promise((resolve) => setTimeout(resolve));
    service.close();
    return {
      begin: allowed(begin.mask),
      end: { ...end, mask: allowed(end.mask) },
      malformed,
      closed: await heavy,
    };
  });
  expect(found).toEqual({
    begin: [98, 99, 100],
    end: { mask: [0], mustEnd: true, forcedText: "" },
    malformed: ["GrammarError", expect.stringContaining("a group begins"), 1],
    closed: ["WorkerError", "Cannot follow a grammar: the grammar service is closed", undefined],
  });
  expect(problems, server.requests.join()).toEqual([]);
  await page.close();
});

test("says so where the worker cannot be loaded", async (context) => {
  if (browser === undefined) return context.skip(whyNoBrowser);
  const files = [...filesIn(written)].filter(([name]) => !name.endsWith("_worker.js"));
  const server = await serveFiles(new Map(files));
  servers.push(server);
  const page = await browser.newPage();
  await page.goto(`${server.url}index.html`);
  await page.waitForFunction(() => "workerGrammarService" in globalThis);
  const message = await page.evaluate(() => {
    const scope = globalThis as unknown as { workerGrammarService: typeof workerGrammarService };
    const tokens = { size: 0, bytes: () => new Uint8Array(0), isSpecial: () => false };
    const service = scope.workerGrammarService({ tokens, endTokens: [], vocabularySize: 1 });
    return service.open({ kind: "regex", source: "a" }).then(String, (error) => error.message);
  });
  expect(message).toBe("Cannot follow a grammar: its worker cannot be loaded");
});
