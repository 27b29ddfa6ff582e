import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { test } from "vitest";
import { ask, openDemo, serveDemo } from "../../support/browser/demo.ts";

const FOLDER = fileURLToPath(new URL("../../../examples/browser/screenshots/", import.meta.url));
/** "1" takes the demo's own pictures anew; a folder gets those of every view, size and theme. */
const WANTED = process.env.WISP_UPDATE_SCREENSHOTS;

const SIZES = {
  desktop: { width: 1280, height: 800 },
  phone: { width: 390, height: 844 },
} as const;
const THEMES = ["light", "dark"] as const;

test.runIf(WANTED !== undefined)(
  "screenshots of the demo are taken",
  async (context) => {
    const demo = await serveDemo();
    if (typeof demo === "string") return context.skip(demo);
    context.onTestFinished(() => demo.close());
    const { page, problems } = await openDemo(demo, { viewport: SIZES.desktop });
    context.onTestFailed(() => console.log(problems));
    const views = WANTED === "1" ? undefined : `${WANTED}/`;
    const shoot = async (path: string) => writeFileSync(`${path}.png`, await page.screenshot());
    /** The view in every size and theme; `open` makes what is not there in each of them. */
    const shootView = async (name: string, open?: () => Promise<unknown>) => {
      if (views === undefined) return;
      for (const [size, viewport] of Object.entries(SIZES)) {
        await page.setViewportSize(viewport);
        await open?.();
        for (const colorScheme of THEMES) {
          await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
          await shoot(`${views}${name}-${size}-${colorScheme}`);
        }
      }
      await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
      await page.setViewportSize(SIZES.desktop);
    };
    await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
    await page.addInitScript(() => {
      localStorage.setItem("wisp.settings", '{"sampling": {"temperature": 0}}');
    });
    await page.goto(demo.address);
    await shootView("banner");
    await page.getByRole("button", { name: "Dismiss" }).click();
    await shootView("picker");
    await page.getByRole("button", { name: "Load tiny-deepseek-v3" }).click();
    await page.getByText("Pipelines", { exact: true }).waitFor();
    await shootView("loading");
    await page.getByRole("button", { name: "Send" }).waitFor();
    await shootView("empty");
    await converse(page);
    const button = (name: string) => page.getByRole("button", { name, exact: true });
    await shootView("chat");
    await shootView("chats", async () => {
      if (page.viewportSize()!.width < 600) await button("Chats").click();
    });
    await shootView("settings", () => button("Settings").click());
    await shootView("panel", async () => {
      await button("Engine").click();
      await page.waitForTimeout(1500);
    });
    await button("JSON").click();
    await shootView("json");
    await button("JSON").click();
    if (views !== undefined) return;
    await button("Engine").click();
    await page.waitForTimeout(1500);
    await shoot(`${FOLDER}desktop`);
    await page.setViewportSize(SIZES.phone);
    await page.emulateMedia({ colorScheme: "dark" });
    await page.waitForTimeout(500);
    await shoot(`${FOLDER}phone`);
  },
  400_000,
);

async function converse(page: Page): Promise<void> {
  await ask(page, "What color is a carrot?");
  await page.getByRole("button", { name: "New chat" }).click();
  await ask(page, "Tell me a story about a cat named Luna.");
  await page.getByRole("button", { name: "New chat" }).click();
  await page.getByRole("button", { name: "Tools" }).click();
  await ask(page, "What is 123 plus 456?");
  await page.getByRole("button", { name: "Tools" }).click();
  await ask(page, "What is 12 + 35?");
  await page.locator("summary", { hasText: "Thoughts" }).last().click();
  await page.locator("#main").evaluate((main) => main.scrollTo(0, main.scrollHeight));
}
