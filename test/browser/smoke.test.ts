import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { build } from "vite";
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import { launchChromium } from "../support/chromium.ts";
import { type FileServer, filesIn, serveFiles } from "../support/file_server.ts";

const EXAMPLE = fileURLToPath(new URL("../../examples/browser", import.meta.url));
const MODEL = fileURLToPath(new URL("../../examples/tiny-deepseek-v3", import.meta.url));
const QUESTION = "What is the capital of Japan?";
const ANSWER = "The capital of Japan is Tokyo.";

const outDir = mkdtempSync(join(tmpdir(), "wisp-page-"));
let browser: Browser | undefined;
let whyNoBrowser = "";
const servers: FileServer[] = [];
let address: string;

/** Builds the example page, and serves it and the model at two origins, as in real life. */
beforeAll(async () => {
  const launched = await launchChromium();
  if (typeof launched === "string") {
    whyNoBrowser = launched;
    return;
  }
  browser = launched;
  await build({
    root: EXAMPLE,
    configFile: false,
    logLevel: "error",
    resolve: { tsconfigPaths: true },
    build: { outDir, emptyOutDir: true, target: "es2022", minify: false },
  });
  const page = await serveFiles(filesIn(outDir));
  const headers = { "access-control-allow-origin": "*" };
  const model = await serveFiles(filesIn(MODEL), { headers });
  servers.push(page, model);
  address = `${page.url}index.html?model=${encodeURIComponent(model.url)}`;
}, 120_000);

afterAll(async () => {
  await browser?.close();
  for (const server of servers) await server.close();
  rmSync(outDir, { recursive: true, force: true });
});

/** A new page of the browser, closed with the test; its errors are collected. */
async function openPage(context: TestContext): Promise<{ page: Page; errors: string[] }> {
  if (browser === undefined) return context.skip(whyNoBrowser);
  const page = await browser.newPage();
  context.onTestFinished(() => page.close());
  page.setDefaultTimeout(100_000);
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // Files that a checkpoint may lack are asked for all the same.
    const isMissingFile = /status of 404/.test(message.text());
    if (["error", "warning"].includes(message.type()) && !isMissingFile)
      errors.push(message.text());
  });
  return { page, errors };
}

test("the page loads a model over HTTP and streams its answer", async (context) => {
  const { page, errors } = await openPage(context);
  await page.addInitScript(() => {
    const seen = { status: [] as string[], answer: [] as string[] };
    Object.assign(window, { seen });
    document.addEventListener("DOMContentLoaded", () => {
      for (const id of ["status", "answer"] as const) {
        const element = document.getElementById(id)!;
        const note = () => seen[id].push(element.textContent ?? "");
        new MutationObserver(note).observe(element, { childList: true, characterData: true });
      }
    });
  });
  await page.goto(address);
  const status = page.locator("#status", { hasText: /^(Ready|Cannot)/ });
  expect(await status.textContent()).toBe("Ready");

  await page.fill("#prompt", QUESTION);
  await page.click("#ask");
  expect(await status.textContent()).toBe("Ready");
  expect(await page.locator("#answer").textContent()).toBe(ANSWER);

  const seen = await page.evaluate(
    () => (window as unknown as { seen: Record<"status" | "answer", string[]> }).seen,
  );
  expect(seen.status.some((text) => /^Loading weights: \d+ %$/.test(text))).toBe(true);
  const growing = seen.answer.filter((text) => text !== "");
  expect(growing.length).toBeGreaterThan(3);
  expect(growing.every((text) => ANSWER.startsWith(text))).toBe(true);
  expect(errors).toEqual([]);
}, 120_000);

test("the page says what is wrong: no WebGPU, no model at the address", async (context) => {
  const { page } = await openPage(context);
  const status = page.locator("#status", { hasText: /^Cannot/ });
  const nowhere = address.replace(/model=.*/, "model=nowhere");
  await page.goto(nowhere);
  expect(await status.textContent()).toMatch(/^Cannot load config\.json: .*nowhere\/ has no such/);
  await page.addInitScript(() => Object.defineProperty(navigator, "gpu", { value: undefined }));
  await page.goto(address);
  expect(await status.textContent()).toBe("Cannot find a GPU adapter: this browser has no WebGPU");
}, 60_000);
