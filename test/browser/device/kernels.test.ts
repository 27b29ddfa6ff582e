import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { launchChromium } from "../../support/browser/chromium.ts";
import { serveProgram } from "../../support/browser/web_page.ts";
import type { CheckedKernels } from "../pages/kernel_checks.ts";

const PROGRAM = fileURLToPath(new URL("../pages/kernel_checks.ts", import.meta.url));
const KERNELS = fileURLToPath(new URL("../../../kernels", import.meta.url));
const fullTest = process.env.WISP_TEST_FULL === "1";

const launched = await launchChromium();
afterAll(() => (typeof launched === "string" ? undefined : launched.close()));

test(
  "every kernel answers as its check promises, in Chromium",
  async (context) => {
    if (typeof launched === "string") return context.skip(launched);
    const server = await serveProgram(PROGRAM);
    const page = await launched.newPage();
    context.onTestFinished(async () => {
      await page.close();
      await server.close();
    });
    await page.goto(`${server.address}${fullTest ? "?tunings&cases" : ""}`);
    const { cases, left, errors } = await server.report<CheckedKernels>();

    expect(cases.filter(({ problem }) => problem !== undefined)).toEqual([]);
    expect(errors).toEqual([]);
    const checks = readdirSync(KERNELS, { recursive: true, encoding: "utf8" });
    const names = new Set([...cases.map(({ kernel }) => kernel), ...left]);
    expect(names.size).toBe(checks.filter((name) => name.endsWith(".check.ts")).length);
  },
  fullTest ? 1_800_000 : 300_000,
);
