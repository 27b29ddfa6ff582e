/**
 * The page that the installed server has at `/`, clicked and typed through in Chromium.
 *
 * The tests go on from each other in one tab. `WISP_UPDATE_SCREENSHOTS`, a folder, gets pictures of
 * each view in every size and theme.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { launchChromium } from "../support/browser/chromium.ts";
import { ask } from "../support/browser/demo.ts";
import { until } from "../support/until.ts";
import { type ServingWisp, serveWisp, stopAll } from "./support/wisp.ts";

const AXE = fileURLToPath(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url));
const SCREENSHOTS = process.env.WISP_UPDATE_SCREENSHOTS;
const KEY = "sesame";
const STORY = "Tell me a story about a cat named Luna.";
const SIZES = {
  desktop: { width: 1280, height: 800 },
  phone: { width: 390, height: 844 },
} as const;

let server: ServingWisp;
let browser: Browser | string;
let page: Page;
const problems: string[] = [];
const requested: string[] = [];
let bytes = 0;

beforeAll(async () => {
  browser = await launchChromium();
  if (typeof browser === "string") return;
  server = await serveWisp(["--api-key", KEY, "--enable-metrics", "--grammar-backend", "auto"]);
  const profile = await browser.newContext({ viewport: SIZES.desktop });
  page = await profile.newPage();
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    if (!["error", "warning"].includes(message.type())) return;
    // Before it has the key, and where it is stopped, the page is refused.
    if (!/status of 40[01]|ERR_CONNECTION/.test(message.text())) problems.push(message.text());
  });
  page.on("request", (request) => requested.push(`${request.method()} ${request.url()}`));
  page.on("response", (response) => {
    const { pathname } = new URL(response.url());
    const isOfPage = pathname === "/" || pathname.startsWith("/page/");
    if (isOfPage) bytes += Number(response.headers()["content-length"]);
  });
});

afterAll(async () => {
  if (typeof browser !== "string") await browser.close();
  await stopAll();
});

beforeEach((context) => {
  if (typeof browser === "string") context.skip(browser);
});

const button = (name: string) => page.getByRole("button", { name, exact: true });
const answers = () => page.locator(".answer");
const lastAnswer = () => answers().last();
const text = () => lastAnswer().locator(".round").last().locator(".markdown").last();
const stats = async () => (await lastAnswer().locator(".stats").textContent()) ?? "";
const question = () => page.getByRole("textbox", { name: "Question" });

const THEMES = ["light", "dark"] as const;
/** Each theme once is enough to see that its colours can be read. */
const themesOf = (size: string) =>
  size === "desktop" ? (["light"] as const) : (["dark"] as const);

/**
 * The view in each size: nothing that axe finds is wrong with it, and pictures if wanted.
 *
 * @param opener Of a drawer, which is open before; a narrow page closes it.
 */
async function look(name: string, opener?: string): Promise<void> {
  for (const [size, viewport] of Object.entries(SIZES)) {
    await page.setViewportSize(viewport);
    if (opener !== undefined) await openDrawer(opener);
    for (const colorScheme of SCREENSHOTS === undefined ? themesOf(size) : THEMES) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      const found = await page.evaluate(async () => {
        const { axe } = globalThis as unknown as { axe: { run(): Promise<AxeReport> } };
        return (await axe.run()).violations;
      });
      const lines = found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join()}`);
      expect(lines, `${name} ${size} ${colorScheme}`).toEqual([]);
      if (SCREENSHOTS === undefined) continue;
      await page.screenshot({ path: `${SCREENSHOTS}/${name}-${size}-${colorScheme}.png` });
    }
  }
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await page.setViewportSize(SIZES.desktop);
  if (opener !== undefined) await openDrawer(opener);
}

/** A window that has become narrow closes its drawers before its next frame. */
async function openDrawer(opener: string): Promise<void> {
  const { width } = page.viewportSize()!;
  await page.waitForFunction((width) => innerWidth === width, width);
  await page.evaluate(
    () => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))),
  );
  if ((await button(opener).getAttribute("aria-expanded")) === "false")
    await button(opener).click();
}

interface AxeReport {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string }[];
  }[];
}

/** As a debugger does it: the page's policy would not let it in. */
const bringAxe = () => page.evaluate(readFileSync(AXE, "utf8"));

test("the start prints an address, which opens the page with few files of the server's own", async () => {
  await server.sees(/^Chat: open http:\S+\/$/m);
  await page.goto(/Chat: open (\S+)/.exec(server.output())![1]!);
  await page.getByText("This server asks for a key").waitFor();
  const paths = requested.map((line) => line.replace(server.url, "").replace(/-[\w-]{8}\./, "."));
  expect(paths.sort()).toEqual([
    "GET /",
    "GET /page/first.js",
    "GET /page/index.css",
    "GET /page/index.js",
    "GET /v1/models",
  ]);
  expect(bytes).toBeGreaterThan(100_000);
  expect(bytes).toBeLessThan(410_700);
});

test("it asks for the key, says when one is wrong, and keeps it to its tab", async () => {
  await bringAxe();
  await look("key");
  await page.getByLabel("Key").fill("another key");
  await page.getByLabel("Key").press("Enter");
  await page.getByText("This is not the server's key.").waitFor();
  await page.getByLabel("Key").fill(KEY);
  await button("Open").click();
  await button("Send").waitFor();
  expect(await page.locator("#model-name").textContent()).toBe("tiny-deepseek-v3");
  await look("empty");
  const kept = await page.evaluate(() =>
    JSON.stringify([{ ...localStorage }, { ...sessionStorage }]),
  );
  expect(JSON.parse(kept)).toEqual([
    expect.not.objectContaining({ "wisp.key": KEY }),
    { "wisp.key": KEY },
  ]);
});

test("a question is answered, with speed and cached tokens of the server's usage", async () => {
  await page.getByRole("button", { name: "What is the capital of Japan?" }).click();
  await question().press("Enter");
  await lastAnswer().locator(".actions").waitFor();
  expect(await text().textContent()).toBe("The capital of Japan is Tokyo.");
  const told =
    /^\d+ tokens · [\d.]+ tokens\/s · first after [\d.]+ s · \d+ of 10 prompt tokens cached$/;
  const answerAgain = async () => {
    await button("Answer again").click();
    await lastAnswer().locator(".actions").waitFor();
    expect(await answers().count()).toBe(1);
  };
  // On a busy machine all tokens may come at once, which then have no speed.
  const hasSpeed = async () => (await stats()).includes("tokens/s");
  for (let tries = 0; tries < 5 && !(await hasSpeed()); tries++) await answerAgain();
  expect(await stats()).toMatch(told);
  await answerAgain();
  expect(await stats()).toMatch(/ · [1-9] of 10 prompt tokens cached$/);
});

test("thoughts are folded away, tools run and are shown, though the server reads neither", async () => {
  await ask(page, "What is 12 + 35?");
  expect(await lastAnswer().locator("details.reasoning").textContent()).toContain("12 + 35 = 47");
  expect((await text().textContent())?.trim()).toBe("The answer is 47.");
  await button("New chat").click();
  await button("Tools").click();
  await ask(page, "What time is it in Tokyo?");
  const call = lastAnswer().locator(".call");
  expect(await call.locator(".call-name").textContent()).toBe("get_time");
  expect(await call.locator(".call-arguments").textContent()).toBe('{"city": "Tokyo"}');
  expect(await call.locator(".call-result code").textContent()).toMatch(/^\{"time":"\d\d:\d\d"\}$/);
  expect(await text().textContent()).toMatch(/ in Tokyo\.$/);
});

test("an answer in JSON fits its schema, and a schema that is refused is told", async () => {
  await button("JSON").click();
  await ask(page, "Extract name, age and city as JSON: Anna is 34 years old and lives in Oslo.");
  expect(await lastAnswer().locator(".note").textContent()).toBe(
    "Valid: the answer fits the schema",
  );
  expect(JSON.parse((await lastAnswer().locator("pre").textContent())!)).toMatchObject({ age: 34 });
  await look("json");
  await button("JSON").click();
});

test("settings reach the server; what it refuses is told, and the chat goes on", async () => {
  await button("New chat").click();
  await button("Settings").click();
  const field = page.getByLabel("Max tokens", { exact: true });
  expect(await page.getByLabel("Temperature", { exact: true }).getAttribute("placeholder")).toBe(
    "0.1",
  );
  await field.fill("3");
  await ask(page, "Who are you?");
  expect(await lastAnswer().locator(".note").textContent()).toBe("Cut off at the token limit");
  expect(await stats()).toMatch(/^3 tokens/);
  await field.fill("900000");
  await ask(page, "Who are you?");
  expect(await lastAnswer().locator(".note").textContent()).toMatch(/900000.*\. Begin a new chat/);
  expect(await stats()).toBe("");
  await field.fill("");
  await look("settings", "Settings");
  await button("Close settings").click();
});

test("an answer is stopped, at the server too, and what is there of it stays", async () => {
  await button("New chat").click();
  // So that the model does not find an end by itself.
  await button("Settings").click();
  await page.getByLabel("Temperature", { exact: true }).fill("9");
  await question().fill(STORY);
  await question().press("Enter");
  await page.waitForFunction(
    () => (document.querySelector(".round > .markdown")?.textContent ?? "").length > 5,
  );
  await page.keyboard.press("Escape");
  await lastAnswer().getByText("Stopped", { exact: true }).waitFor();
  await button("Send").waitFor();
  expect(await page.getByRole("status").last().textContent()).toMatch(/^Stopped after \d+ tokens$/);
  expect((await text().textContent())!.length).toBeGreaterThan(5);
  await page.getByLabel("Temperature", { exact: true }).fill("");
  await button("Close settings").click();
  await until(async () => {
    const info = await (
      await server.get("/get_server_info", { authorization: `Bearer ${KEY}` })
    ).json();
    expect(info.internal_states[0]).toMatchObject({ num_running_reqs: 0 });
    expect(await (await server.get("/metrics")).text()).toMatch(
      /num_aborted_requests_total\{.*\} [1-9]/,
    );
  });
});

test("the panel shows queue, cache and memory, and what the metrics count", async () => {
  await button("Engine").click();
  const panel = page.locator("#panel");
  await panel.getByText("0 / 0").waitFor();
  const bars = panel.locator(".share-bar");
  expect(await bars.first().getAttribute("aria-label")).toMatch(
    /^Memory: weights 7\.\d+ MB, KV cache /,
  );
  expect(await bars.last().getAttribute("aria-label")).toMatch(/cached prefixes [1-9]\d*, free/);
  const row = panel.locator(".panel-list div", { hasText: "tokens generated" });
  expect(Number(await row.locator("dd").textContent())).toBeGreaterThan(50);
  await look("panel", "Engine");
});

test("chats and the key are there after a reload, and chats can be deleted", async () => {
  const chats = page.locator("#chat-list li");
  const count = await chats.count();
  expect(count).toBe(4);
  await page.reload();
  await button("Send").waitFor();
  expect(await chats.count()).toBe(count);
  await page.locator("#chat-list .chat", { hasText: "What time is it in Tokyo?" }).click();
  expect(await answers().locator(".call").count()).toBe(1);
  await button('Delete the chat "What time is it in Tokyo?"').click();
  expect(await chats.count()).toBe(count - 1);
  await bringAxe();
  await look("chat");
});

test("the page's policy lets nothing in and asks no other origin", async () => {
  const outcome = await page.evaluate(async () => {
    const violated: string[] = [];
    const isSeen = new Promise<void>((resolve) => {
      addEventListener("securitypolicyviolation", ({ effectiveDirective }) => {
        violated.push(effectiveDirective);
        if (violated.length === 3) resolve();
      });
    });
    const script = document.createElement("script");
    const tries = [
      () => fetch("https://example.org/"),
      async () => document.body.insertAdjacentHTML("beforeend", "<img src=x onerror=alert(1)>"),
      async () => script.append("globalThis.isIn = true"),
    ];
    for (const one of tries) await one().catch(() => {});
    document.body.append(script);
    await isSeen;
    return { violated: [...new Set(violated)].sort(), isIn: "isIn" in globalThis };
  });
  expect(outcome).toEqual({
    violated: ["connect-src", "require-trusted-types-for"],
    isIn: false,
  });
  const ofPolicy = /Content Security Policy|Trusted(HTML|Script)/;
  expect(problems.splice(0).filter((line) => !ofPolicy.test(line))).toEqual([]);
  expect(
    requested.filter((line) => !line.includes(` ${server.url}/`) && !line.includes("example.org")),
  ).toEqual([]);
});

test("a server that has gone is told, and tried again", async () => {
  await server.stop("SIGKILL");
  await ask(page, "Are you there?");
  expect(await lastAnswer().locator(".note").textContent()).toMatch(/^Cannot reach the server/);
  expect(problems).toEqual([]);
});
