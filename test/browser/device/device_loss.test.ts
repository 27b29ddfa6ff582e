/** A browser's GPU process ends while an engine answers. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { launchChromium } from "../../support/browser/chromium.ts";
import { serveProgram } from "../../support/browser/web_page.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import type { LostDevice } from "../pages/lost_device.ts";

// The model is loaded twice, which takes long.
test.runIf(process.env.WISP_TEST_FULL === "1")(
  "an answer goes on when Chromium's GPU process is gone, with the same tokens",
  async (context) => {
    const browser = await launchChromium();
    if (typeof browser === "string") return context.skip(browser);
    const program = fileURLToPath(new URL("../pages/lost_device.ts", import.meta.url));
    const server = await serveProgram(program, { model: EMBEDDED_MODEL });
    context.onTestFinished(async () => {
      await browser.close();
      await server.close();
    });
    const page = await browser.newPage();
    await page.goto(server.address);
    const report = server.report<LostDevice>();
    const answering = page.waitForFunction(() => document.title === "answering");
    await Promise.race([answering, report]);
    const session = await browser.newBrowserCDPSession();
    await session.send("Browser.crashGpuProcess");
    const { want, got, events, recoveries } = await report;
    expect(got).toEqual(want);
    expect(recoveries).toBe(1);
    expect(events.at(0)?.kind).toBe("started");
    expect(events.at(-1)?.kind).toBe("finished");
  },
  400_000,
);
