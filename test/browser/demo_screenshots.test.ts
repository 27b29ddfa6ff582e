import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { test } from "vitest";
import { ask, openDemo, serveDemo } from "../support/demo.ts";

const FOLDER = fileURLToPath(new URL("../../examples/browser/screenshots/", import.meta.url));
const ALL = process.env.WISP_UPDATE_SCREENSHOTS;

/** Takes the pictures of the demo anew: WISP_UPDATE_SCREENSHOTS=1, or a folder for many more. */
test.runIf(ALL !== undefined)(
  "screenshots of the demo are taken",
  async (context) => {
    const demo = await serveDemo();
    if (typeof demo === "string") return context.skip(demo);
    context.onTestFinished(() => demo.close());
    const folder = ALL === "1" ? FOLDER : `${ALL}/`;
    const { page, problems } = await openDemo(demo, { viewport: DESKTOP });
    context.onTestFailed(() => console.log(problems));
    const shoot = async (name: string) => {
      writeFileSync(`${folder}${name}.png`, await page.screenshot());
    };
    const inAll = async (name: string) => {
      for (const [size, viewport] of [
        ["desktop", DESKTOP],
        ["phone", PHONE],
      ] as const) {
        await page.setViewportSize(viewport);
        for (const colorScheme of ["light", "dark"] as const) {
          await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
          await shoot(`${name}-${size}-${colorScheme}`);
        }
      }
      await page.emulateMedia({ colorScheme: "light" });
      await page.setViewportSize(DESKTOP);
    };
    await page.goto(demo.address);
    await page.getByRole("button", { name: "Dismiss" }).click();
    if (ALL !== "1") await inAll("picker");
    await page.getByRole("button", { name: "Load tiny-deepseek-v3" }).click();
    await page.getByText("Weights", { exact: true }).waitFor();
    if (ALL !== "1") await inAll("loading");
    await page.getByRole("button", { name: "Send" }).waitFor({ timeout: 110_000 });
    if (ALL !== "1") await inAll("empty");
    await conversation(page);
    if (ALL !== "1") {
      await inAll("chat");
      await page.getByRole("button", { name: "Settings" }).click();
      await inAll("settings");
      await page.getByRole("button", { name: "Engine" }).click();
      await page.waitForTimeout(1500);
      await inAll("panel");
      return;
    }
    await shoot("desktop");
    await page.setViewportSize(PHONE);
    await page.emulateMedia({ colorScheme: "dark" });
    await shoot("phone");
  },
  300_000,
);

const DESKTOP = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 844 };

async function conversation(page: Page): Promise<void> {
  await ask(page, "What is 12 + 35?");
  await page.locator("summary", { hasText: "Thoughts" }).last().click();
  await page.getByRole("button", { name: "Tools" }).click();
  await ask(page, "What time is it in Tokyo?");
  await page.getByRole("button", { name: "JSON" }).click();
  await ask(page, "Extract name, age and city as JSON: Anna is 34 years old and lives in Oslo.");
  await page.getByRole("button", { name: "JSON" }).click();
}
