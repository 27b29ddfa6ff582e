/**
 * The demo's device page and side panel in Chromium, on the embedded model.
 *
 * @module
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { build } from "vite";
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import type { DeviceReport } from "../../examples/browser/device/device_report.ts";
import { launchChromium } from "../support/chromium.ts";
import { type FileServer, filesIn, serveFiles } from "../support/file_server.ts";

const DEMO = fileURLToPath(new URL("../../examples/browser", import.meta.url));
/** Where pictures of the pages go; they are taken only if it is named. */
const SCREENSHOTS = process.env.WISP_SCREENSHOTS;
const { version } = JSON.parse(
  readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
) as { version: string };

const outDir = mkdtempSync(join(tmpdir(), "wisp-device-"));
let browser: Browser | undefined;
let whyNoBrowser = "";
let server: FileServer | undefined;

beforeAll(async () => {
  const launched = await launchChromium();
  if (typeof launched === "string") {
    whyNoBrowser = launched;
    return;
  }
  browser = launched;
  const configFile = join(DEMO, "vite.config.ts");
  const options = { outDir, emptyOutDir: true, minify: false };
  await build({ configFile, logLevel: "error", build: options });
  server = await serveFiles(filesIn(outDir));
}, 120_000);

afterAll(async () => {
  await browser?.close();
  await server?.close();
  rmSync(outDir, { recursive: true, force: true });
});

/** A new page of the browser, closed with the test; what it complains about is collected. */
async function openPage(context: TestContext): Promise<{ page: Page; errors: string[] }> {
  if (browser === undefined) return context.skip(whyNoBrowser);
  const page = await browser.newPage({ viewport: { width: 1200, height: 900 } });
  context.onTestFinished(() => page.close());
  page.setDefaultTimeout(60_000);
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    const isMissingFile = /status of 404/.test(message.text());
    if (message.type() === "error" && !isMissingFile) errors.push(message.text());
  });
  return { page, errors };
}

/** Pictures of a page as it is, on a desktop and a phone, light and dark. */
async function photograph(page: Page, name: string): Promise<void> {
  if (SCREENSHOTS === undefined) return;
  const size = page.viewportSize()!;
  for (const [device, width] of [
    ["desktop", 1200],
    ["phone", 390],
  ] as const) {
    await page.setViewportSize({ width, height: 900 });
    for (const theme of ["light", "dark"]) {
      await page.evaluate((value) => {
        document.documentElement.dataset.theme = value;
      }, theme);
      await page.waitForTimeout(300);
      const path = join(SCREENSHOTS, `${name}-${device}-${theme}.png`);
      await page.screenshot({ path, fullPage: true });
    }
  }
  await page.setViewportSize(size);
}

test("the device page measures, draws, and gives a report that is valid", async (context) => {
  const { page, errors } = await openPage(context);
  await page.goto(`${server!.url}device.html?runs=1&prefill=20&decode=5&batch=2`);
  await page.click("#start:enabled");
  expect(await page.locator(".adapter-name").textContent()).toBe("SwiftShader");
  expect(await page.locator(".adapter .is-warning").textContent()).toContain("on the CPU");
  await page.locator("#results:not([hidden])").waitFor({ timeout: 170_000 });

  expect(await page.locator(".card").count()).toBe(4);
  expect(await page.locator(".check.is-wrong").allTextContents()).toEqual([]);
  expect(await page.locator(".check.is-right").first().textContent()).toContain("Tokyo");
  const downloading = page.waitForEvent("download");
  await page.click("text=Download JSON");
  const download = await downloading;
  const text = readFileSync(await download.path(), "utf8");
  const report = JSON.parse(text) as DeviceReport;
  expect(download.suggestedFilename()).toMatch(/^wisp-google-swiftshader-\d{4}-\d\d-\d\d\.json$/);
  expect(await page.locator(".report pre").textContent()).toBe(text);
  expect(report).toMatchObject({
    ...{ schema: "wisp-device-report", version: 1, library: { name: "wisp-llm", version } },
    settings: { runs: 1, prefillTokens: 20, decodeTokens: 5, batch: 2 },
    answer: { isExpected: true },
    adapter: { isCpu: true },
  });
  expect(report.userAgent).toContain("Chrome");
  expect(report.speeds.map(({ runs }) => runs[0]!.tokens)).toEqual([20, 4, 8]);

  const drawn = await page.locator(".roofline-chart .mark").count();
  if (report.kernels === null) {
    expect(report.whyNoKernels).toContain("timestamp-query");
    expect(await page.locator(".notice").allTextContents()).toContainEqual(
      expect.stringContaining("timestamp-query"),
    );
  } else {
    const kernels = report.kernels.phases.flatMap((phase) => phase.kernels);
    const timed = kernels.filter(({ flops, microseconds }) => flops > 0 && microseconds > 0);
    expect(drawn).toBe(timed.length + 2); // the legend has one of each phase
    await page.click("text=All kernels as a table");
    expect(await page.locator(".roofline tbody tr").count()).toBe(kernels.length);
    await page.click("text=All kernels as a table");
  }
  expect(errors).toEqual([]);
  await photograph(page, "device");
}, 180_000);

test("the device page can be cancelled, and says so without WebGPU", async (context) => {
  const { page, errors } = await openPage(context);
  await page.goto(`${server!.url}device.html`);
  await page.click("#start:enabled");
  await page.locator('.steps li[data-state="running"]').waitFor();
  await page.click("#cancel");
  await page.locator("#start:visible").waitFor();
  expect(await page.locator("#results, .steps, #problem").filter({ visible: true }).count()).toBe(
    0,
  );
  expect(errors).toEqual([]);

  await page.addInitScript(() => Object.defineProperty(navigator, "gpu", { value: undefined }));
  await page.goto(`${server!.url}device.html`);
  expect(await page.locator("#problem:visible").textContent()).toMatch(
    /^Cannot find a GPU adapter: this browser has no WebGPU.*Chrome/,
  );
  expect(await page.locator("#measure").isVisible()).toBe(false);
}, 60_000);

test("the panel draws memory, prefixes and kernels while the demo chats", async (context) => {
  const { page, errors } = await openPage(context);
  await page.goto(`${server!.url}index.html?model=embedded`);
  await page.locator("#send").waitFor();
  await page.click("#open-panel");
  const panel = page.locator(".panel");
  const figure = (name: string) => panel.locator(`[data-figure="${name}"]`);
  const nodes = panel.locator(".tree-node");
  expect(await panel.locator(".share-bar").first().getAttribute("aria-label")).toMatch(
    /^Memory: weights [\d.]+ MB, workspace .*, KV cache .*, free /,
  );
  expect(await nodes.count()).toBe(0);

  // With the keyboard: the panel lies above the button where the page is narrow.
  const ask = async (question: string) => {
    await page.locator("#send:enabled").waitFor();
    await page.fill("#prompt", question);
    await page.press("#prompt", "Enter");
    await page.locator("#status", { hasText: /^Answering/ }).waitFor();
    await page.locator("#status", { hasText: /^Answered with/ }).waitFor();
  };
  await ask("What is the capital of Japan?");
  await figure("cached")
    .filter({ hasText: /^0 of \d+, 0 %$/ })
    .waitFor();
  // The prompt and the answer: no request uses them any more.
  await panel.locator('svg[aria-label*="2 nodes, 0 of them in use"]').waitFor();
  expect(await nodes.count()).toBe(2);
  await ask("And of France?");
  await figure("cached")
    .filter({ hasText: /^[1-9]\d* of \d+, [\d.]+ %$/ })
    .waitFor();
  await panel.locator('svg[aria-label*=" 0 of them in use"]').waitFor();
  const count = await nodes.count();
  expect(count).toBeGreaterThan(2);
  expect(await panel.locator("table tbody tr").count()).toBe(count);
  expect(Number.parseFloat((await figure("rate").textContent())!)).toBeGreaterThan(0);
  expect(await figure("requests").textContent()).toBe("0 / 0");

  await panel.locator("text=Measure").click();
  await panel.locator("text=/steps, .* on the GPU|timestamp-query/").waitFor();
  if ((await panel.locator(".kernel-list li").count()) > 0) {
    const downloading = page.waitForEvent("download");
    await panel.locator("text=Download trace").click();
    const trace = JSON.parse(readFileSync(await (await downloading).path(), "utf8"));
    expect(trace.traceEvents.length).toBeGreaterThan(100);
  }
  expect(errors).toEqual([]);
  await photograph(page, "panel");
}, 180_000);
