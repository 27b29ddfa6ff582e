/**
 * The server's page clicked and typed through in Firefox, in the dark, on a desktop and a phone.
 *
 * `WISP_UPDATE_SCREENSHOTS`, a folder, gets pictures of each view.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeEach, expect, test } from "vitest";
import { DrivenFirefox } from "../support/browser/driven_firefox.ts";
import { whyNoFirefox } from "../support/browser/firefox.ts";
import { type ServingWisp, serveWisp, stopAll } from "./support/wisp.ts";

const AXE = fileURLToPath(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url));
const SCREENSHOTS = process.env.WISP_UPDATE_SCREENSHOTS;
const KEY = "sesame";
const SIZES = { desktop: [1280, 800], phone: [390, 844] } as const;
const ANSWERED = `[...document.querySelectorAll(".answer")].at(-1)?.querySelector(".stats")?.textContent`;
const SEND = '#send[aria-label="Send"]:not([disabled])';

let firefox: DrivenFirefox | undefined;
let server: ServingWisp;

afterAll(async () => {
  await firefox?.close();
  await stopAll();
});

beforeEach((context) => {
  const reason = whyNoFirefox();
  if (reason !== undefined) context.skip(reason);
});

/** Nothing that axe finds is wrong with the view in each size. */
async function look(page: DrivenFirefox, name: string): Promise<void> {
  for (const [size, [width, height]] of Object.entries(SIZES)) {
    await page.resize(width, height);
    const found = await page.evaluate<readonly string[]>(
      `axe.run().then(({ violations }) => violations.map(({ id, nodes }) =>
        id + ": " + nodes.map(({ html }) => html).join()))`,
    );
    expect(found, `${name} ${size}`).toEqual([]);
    if (SCREENSHOTS !== undefined) {
      await page.screenshot(`${SCREENSHOTS}/firefox-${name}-${size}-dark.png`);
    }
  }
  await page.resize(...SIZES.desktop);
}

test("it takes the key, answers what is typed, stops, goes on and begins a new chat", async () => {
  server = await serveWisp(["--api-key", KEY, "--enable-metrics", "--grammar-backend", "auto"]);
  const page = await DrivenFirefox.launch({
    preferences: {
      "layout.css.prefers-color-scheme.content-override": 0,
      "ui.prefersReducedMotion": 1,
    },
  });
  firefox = page;
  await page.resize(...SIZES.desktop);
  await page.goto(`${server.url}/`);
  await page.sees(`document.body.innerText.includes("This server asks for a key")`);
  await page.run(readFileSync(AXE, "utf8"));
  await look(page, "key");
  await page.evaluate(`document.querySelector("input[type=password]").focus()`);
  await page.type(KEY, "Enter");
  await page.sees(`document.querySelector(${JSON.stringify(SEND)})`);
  await look(page, "empty");
  await page.click("#prompt");
  await page.type("What is the capital of Japan?", "Enter");
  await page.sees(ANSWERED);
  await page.sees(`document.querySelector(".answer").innerText.includes("Tokyo")`);
  await look(page, "answer");
  await page.click("#prompt");
  await page.type("Tell me a story about a cat named Luna.", "Enter");
  await page.sees(`document.querySelector('#send[aria-label="Stop"]')`);
  await page.type("Escape");
  await page.sees(`document.querySelector(${JSON.stringify(SEND)})`);
  expect(await page.evaluate(`document.querySelectorAll(".question").length`)).toBe(2);
  if (
    (await page.evaluate<string>(`document.querySelector("#open-chats").ariaExpanded`)) === "false"
  ) {
    await page.click("#open-chats");
  }
  await page.click("#new-chat");
  await page.sees(`document.querySelectorAll(".question").length === 0`);
  await look(page, "chats");
  expect(page.problems.filter((text) => !/40[01]/.test(text))).toEqual([]);
});
