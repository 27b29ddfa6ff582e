/**
 * The demo's device page in Chromium, on the embedded model.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import type { DeviceReport } from "../../../examples/browser/device/device_report.ts";
import { type Demo, openDemo, serveDemo } from "../../support/browser/demo.ts";

/** "1" takes the picture of the device page anew; a folder gets it in every size and theme. */
const WANTED = process.env.WISP_UPDATE_SCREENSHOTS;
const PICTURE = fileURLToPath(
  new URL("../../../examples/browser/screenshots/device.png", import.meta.url),
);
const WIDTHS = { desktop: 1200, phone: 390 } as const;
const THEMES = ["light", "dark"] as const;

const { version } = JSON.parse(
  readFileSync(new URL("../../../package.json", import.meta.url), "utf8"),
) as { version: string };

let demo: Demo | string;

beforeAll(async () => {
  demo = await serveDemo();
}, 120_000);

afterAll(async () => {
  if (typeof demo === "object") await demo.close();
});

async function open(context: TestContext, name: string) {
  if (typeof demo === "string") return context.skip(demo);
  const viewport = { width: WIDTHS.desktop, height: 900 };
  const opened = await openDemo(demo, { viewport });
  context.onTestFinished(() => opened.page.context().close());
  await opened.page.goto(demo.address.replace("index.html", name));
  return opened;
}

async function photograph(page: Page, name: string): Promise<void> {
  if (WANTED === undefined) return;
  const height = page.viewportSize()!.height;
  for (const [size, width] of Object.entries(WIDTHS)) {
    await page.setViewportSize({ width, height });
    for (const theme of THEMES) {
      await page.evaluate((value) => {
        document.documentElement.dataset.theme = value;
      }, theme);
      await page.waitForTimeout(300);
      const isChosen = `${name}-${size}-${theme}` === "device-desktop-light";
      const path = WANTED === "1" ? PICTURE : `${WANTED}/${name}-${size}-${theme}.png`;
      if (WANTED !== "1" || isChosen) await page.screenshot({ path, fullPage: true });
    }
  }
}

test("the device page measures, draws, and gives a report that is valid", async (context) => {
  const settings = "runs=1&prefill=20&decode=5&batch=2";
  const { page, problems } = await open(context, `device.html?${settings}`);
  await page.click("#start:enabled");
  await page.locator("#results:not([hidden])").waitFor();

  expect(await page.locator(".card").count()).toBe(4);
  expect(await page.locator(".check.is-wrong").allTextContents()).toEqual([]);
  expect(await page.locator(".check.is-right").first().textContent()).toContain("Tokyo");
  const downloading = page.waitForEvent("download");
  await page.click("text=Download JSON");
  const download = await downloading;
  const text = readFileSync(await download.path(), "utf8");
  const report = JSON.parse(text) as DeviceReport;
  expect(download.suggestedFilename()).toMatch(/^wisp-[a-z\d-]+-\d{4}-\d\d-\d\d\.json$/);
  expect(await page.locator(".report pre").textContent()).toBe(text);
  expect(report).toMatchObject({
    ...{ schema: "wisp-device-report", version: 1, library: { name: "wisp-llm", version } },
    settings: { runs: 1, prefillTokens: 20, decodeTokens: 5, batch: 2 },
    answer: { isExpected: true },
  });
  expect(await page.locator(".adapter-name").textContent()).toBe(report.adapter.name);
  const warnings = await page.locator(".adapter .is-warning").allTextContents();
  expect(warnings.some((warning) => warning.includes("on the CPU"))).toBe(report.adapter.isCpu);
  expect(report.userAgent).toContain("Chrome");
  expect(report.speeds.map(({ runs }) => runs[0]!.tokens)).toEqual([20, 4, 8]);

  // Every browser that these tests start has timestamp queries.
  const kernels = report.kernels!.phases.flatMap((phase) => phase.kernels);
  const timed = kernels.filter(({ flops, microseconds }) => flops > 0 && microseconds > 0);
  expect(timed.length).toBeGreaterThan(3);
  const marks = page.locator(".roofline-chart .mark");
  await marks.first().waitFor();
  expect(await marks.count()).toBe(timed.length + 2); // the legend has one of each phase
  await page.click("text=All kernels as a table");
  expect(await page.locator(".roofline tbody tr").count()).toBe(kernels.length);
  await page.click("text=All kernels as a table");
  expect(problems).toEqual([]);
  await photograph(page, "device");
}, 240_000);

test("the device page can be cancelled, and says so without WebGPU", async (context) => {
  const { page, problems } = await open(context, "device.html");
  await page.click("#start:enabled");
  await page.locator('.steps li[data-state="running"]').waitFor();
  await page.click("#cancel");
  await page.locator("#start:visible").waitFor();
  expect(await page.locator("#results, .steps, #problem").filter({ visible: true }).count()).toBe(
    0,
  );
  expect(problems).toEqual([]);

  await page.addInitScript(() => Object.defineProperty(navigator, "gpu", { value: undefined }));
  await page.reload();
  expect(await page.locator("#problem:visible").textContent()).toMatch(
    /^Cannot find a GPU adapter: this browser has no WebGPU.*Chrome/,
  );
  expect(await page.locator("#measure").isVisible()).toBe(false);
}, 60_000);
