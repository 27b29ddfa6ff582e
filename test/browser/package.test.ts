/**
 * The built package on real pages: its files as they are, and as bundlers make them. What Vite makes
 * of it is tested with the local endpoint. Other bundlers are those of test/bundlers, which are
 * installed apart (`npm run test:bundlers`).
 *
 * @module
 */
import { cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launchChromium } from "../support/browser/chromium.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { installPackage, PAGE, plainPage } from "../support/package/installed_package.ts";
import { filesIn, serveFiles } from "../support/server/file_server.ts";

/** Says what it got: an answer, one that a grammar shapes, and whether errors are those of both entries. */
const PROGRAM = (main: string, browser: string, options = "{}") => `
import { compileGrammar, EngineError } from "${main}";
import { loadWorkerEngine, urlSource } from "${browser}";
async function answer(engine, request) {
  let text = "";
  const sampling = { temperature: 0, maxNewTokens: 24, ...request.sampling };
  for await (const chunk of engine.generate({ ...request, sampling })) text += chunk.text;
  return text;
}
async function run() {
  const engine = await loadWorkerEngine({ kind: "url", url: "./model" }, ${options});
  const messages = [{ role: "user", content: "What is the capital of Japan?" }];
  const free = await answer(engine, { messages });
  const shaped = await answer(engine, { messages, constraint: { kind: "regex", source: "(Kyoto|Osaka)!" } });
  await engine.close();
  const error = await urlSource("./nowhere").catch((reason) => reason);
  return { free, shaped, isKnown: error instanceof EngineError, bytes: compileGrammar({ regex: "a" }).bytes > 0 };
}
globalThis.run = run;
`;

const require = createRequire(new URL("../bundlers/package.json", import.meta.url));
const bundlers = fileURLToPath(new URL("../bundlers/node_modules", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "wisp-package-"));
let browser: Browser | undefined;
let whyNoBrowser = "";
let installed: string;

beforeAll(async () => {
  const launched = await launchChromium();
  if (typeof launched === "string") {
    whyNoBrowser = launched;
    return;
  }
  browser = launched;
  installed = await installPackage(folder);
}, 120_000);

afterAll(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** What the program finds on a page of these files. */
async function found(files: ReadonlyMap<string, Uint8Array>): Promise<unknown> {
  const all = new Map(files);
  for (const [name, bytes] of filesIn(EMBEDDED_MODEL)) all.set(`model/${name}`, bytes);
  const server = await serveFiles(all);
  const page = await browser!.newPage();
  try {
    await page.goto(`${server.url}index.html`);
    await page.waitForFunction(() => "run" in globalThis);
    return await page.evaluate(() => (globalThis as unknown as { run(): unknown }).run());
  } finally {
    await page.close();
    await server.close();
  }
}

const EXPECTED = {
  free: "The capital of Japan is Tokyo.",
  shaped: expect.stringMatching(/^(Kyoto|Osaka)!$/),
  isKnown: true,
  bytes: true,
};

/** What each bundler makes of the program in `folder`, in a folder of its own. */
const BUNDLERS: Readonly<Record<string, (outDir: string) => Promise<void>>> = {
  async webpack(outDir) {
    const webpack = require("webpack");
    writeFileSync(join(folder, "main.js"), PROGRAM("wisp-llm", "wisp-llm/browser"));
    const output = { path: outDir, filename: "main.js" };
    const options = { mode: "production", context: folder, entry: "./main.js", output };
    await new Promise<void>((resolve, reject) => {
      webpack(options, (error: unknown, stats: { hasErrors(): boolean }) => {
        if (error || stats.hasErrors()) reject(error ?? new Error(String(stats)));
        else resolve();
      });
    });
  },
  /** It has no workers, so their files are served as they are. */
  async esbuild(outDir) {
    const options = '{ workerUrl: "./wisp/browser_worker.js" }';
    writeFileSync(join(folder, "main.js"), PROGRAM("wisp-llm", "wisp-llm/browser", options));
    await require("esbuild").build({
      absWorkingDir: folder,
      entryPoints: ["main.js"],
      outdir: outDir,
      bundle: true,
      minify: true,
      splitting: true,
      format: "esm",
    });
    const dist = join(installed, "dist");
    for (const file of [
      "browser_worker.js",
      "browser_grammar_worker.js",
      "browser_image_worker.js",
    ]) {
      cpSync(join(dist, file), join(outDir, "wisp", file));
    }
    cpSync(join(dist, "tokenizers"), join(outDir, "wisp", "tokenizers"), { recursive: true });
  },
};

test("answers on a page that imports its files as they are", async (context) => {
  if (browser === undefined) return context.skip(whyNoBrowser);
  const program = PROGRAM("./dist/index.js", "./dist/browser.js");
  expect(await found(plainPage(installed, program))).toEqual(EXPECTED);
});

test.for(Object.keys(BUNDLERS))(
  "answers on a page that %s has made",
  { timeout: 300_000 },
  async (name, context) => {
    if (browser === undefined) return context.skip(whyNoBrowser);
    if (!existsSync(bundlers)) return context.skip("npm run test:bundlers installs the bundlers");
    const outDir = join(folder, name);
    await BUNDLERS[name]!(outDir);
    // webpack's bundle is a plain script by default, the others' are modules.
    const page = name === "webpack" ? PAGE.replace('type="module"', "defer") : PAGE;
    writeFileSync(join(outDir, "index.html"), page);
    expect(await found(filesIn(outDir))).toEqual(EXPECTED);
  },
);
