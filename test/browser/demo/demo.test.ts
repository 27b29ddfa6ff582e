import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import {
  ask,
  type Demo,
  hasBegun,
  onceBegun,
  openDemo,
  serveDemo,
} from "../../support/browser/demo.ts";
import { until } from "../../support/until.ts";

const QUESTION = "What is the capital of Japan?";
const ANSWER = "The capital of Japan is Tokyo.";
const STORY = "Tell me a story about a cat named Luna.";
/** With tools its prompt is longer than a block of what outlives the page. */
const LASTING = "What is the capital of France?";

let demo: Demo | string;
let page: Page;
let problems: readonly string[] = [];
const requested: string[] = [];

/** One page for all tests, which go on from each other; the model is loaded again after a reload. */
beforeAll(async () => {
  demo = await serveDemo();
  if (typeof demo === "string") return;
  ({ page, problems } = await openDemo(demo));
  page.on("request", (request) => requested.push(request.url()));
  await page.goto(demo.address);
  await page.getByRole("button", { name: "Dismiss" }).waitFor();
}, 120_000);

afterAll(async () => {
  if (typeof demo !== "string") await demo.close();
});

beforeEach((context) => {
  if (typeof demo === "string") context.skip(demo);
});

const answers = () => page.locator(".answer");
const lastAnswer = () => answers().last();
const text = () => lastAnswer().locator(".round").last().locator(".markdown").last();
const stats = async () => (await lastAnswer().locator(".stats").textContent()) ?? "";
const cached = async () => Number(/(\d+) of \d+ prompt tokens cached/.exec(await stats())?.[1]);
const button = (name: string) => page.getByRole("button", { name, exact: true });
const newChat = () => button("New chat").click();

async function set(label: string, value: string): Promise<void> {
  const drawer = page.getByRole("complementary", { name: "Settings" });
  if (!(await drawer.isVisible())) await button("Settings").click();
  await drawer.getByLabel(label, { exact: true }).fill(value);
}

test("nothing is fetched of any model or from elsewhere before one is picked", () => {
  const { server } = demo as Demo;
  expect(
    requested.filter((url) => !url.startsWith(server.url) && !url.startsWith("data:")),
  ).toEqual([]);
  expect(requested.filter((url) => url.includes("tiny-deepseek-v3"))).toEqual([]);
});

test("a person with a keyboard alone loads the model and gets an answer", async () => {
  await page.locator("body").press("Tab");
  expect(await page.evaluate(() => document.activeElement?.textContent)).toBe(
    "Skip to the question",
  );
  await tabTo("Load tiny-deepseek-v3");
  await page.keyboard.press("Enter");
  await button("Send").waitFor();
  // The focus waits where the question is written.
  await page.keyboard.type("What is");
  await page.keyboard.press("Shift+Enter");
  const field = page.getByRole("textbox", { name: "Question" });
  expect(await field.inputValue()).toBe("What is\n");
  await field.fill("");
  await page.keyboard.type(QUESTION);
  await page.keyboard.press("Enter");
  await lastAnswer().locator(".actions").waitFor();
  expect(await text().textContent()).toBe(ANSWER);
  expect(await page.getByRole("status").last().textContent()).toMatch(/^Answered with \d+ tokens$/);
  expect(await stats()).toMatch(
    /^\d+ tokens · [\d.]+ tokens\/s · first after [\d.]+ s · 0 of 10 prompt tokens cached$/,
  );
}, 170_000);

/** Presses Tab until the focus is on a button of this name. */
async function tabTo(name: string): Promise<void> {
  for (let presses = 0; presses < 40; presses++) {
    const focused = await page.evaluate(() => document.activeElement?.getAttribute("aria-label"));
    if (focused === name) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`Cannot reach "${name}" by the Tab key`);
}

test("answering again finds the prompt in the cache", async () => {
  await button("Answer again").click();
  await lastAnswer().locator(".actions").waitFor();
  expect(await answers().count()).toBe(1);
  expect(await text().textContent()).toBe(ANSWER);
  expect(await cached()).toBeGreaterThan(0);
  // The button has gone with the answer before.
  expect(await page.evaluate(() => document.activeElement?.id)).toBe("prompt");
});

test("a question can be edited and sent again, and what came behind it goes", async () => {
  await ask(page, "Who are you?");
  expect(await answers().count()).toBe(2);
  await button("Edit and resend").first().click();
  const field = page.getByRole("textbox", { name: "Edit the question" });
  expect(await field.inputValue()).toBe(QUESTION);
  await field.fill("What is the capital of France?");
  await field.press("Enter");
  await lastAnswer().locator(".actions").waitFor();
  expect(await answers().count()).toBe(1);
  expect(await text().textContent()).toBe("The capital of France is Paris.");
});

test.each([
  ["Escape", "#prompt"],
  ["click", 'button[aria-label="Stop"]'],
] as const)("an answer is stopped by %s, and what is there of it stays", async (how, selector) => {
  await newChat();
  await set("Temperature", "0");
  await page.getByRole("textbox", { name: "Question" }).fill(STORY);
  await onceBegun(page, { length: 20, selector, how });
  await page.keyboard.press("Enter");
  await lastAnswer().getByText("Stopped", { exact: true }).waitFor();
  await button("Send").waitFor();
  expect(await text().textContent()).toMatch(/^Once upon a time.{3,300}$/);
});

test("the system prompt is of its chat, and the model is given it", async () => {
  await newChat();
  await ask(page, "Who are you?");
  const without = await text().textContent();
  await newChat();
  await set("System prompt", "Your name is Bob.");
  await ask(page, "Who are you?");
  expect(await stats()).toMatch(/of 12 prompt tokens cached/);
  expect(await text().textContent()).not.toBe(without);
  await newChat();
  expect(await page.getByLabel("System prompt", { exact: true }).inputValue()).toBe("");
});

test("sampling fields say what is out of range, and the limit on tokens holds", async () => {
  await set("Max tokens", "0");
  const field = page.getByLabel("Max tokens", { exact: true });
  expect(await field.getAttribute("aria-invalid")).toBe("true");
  await set("Max tokens", "3");
  expect(await field.getAttribute("aria-invalid")).toBe("false");
  await ask(page, QUESTION);
  expect(await lastAnswer().locator(".note").textContent()).toBe("Cut off at the token limit");
  expect(await stats()).toMatch(/^3 tokens/);
  await set("Max tokens", "");
});

test("thoughts are folded away", async () => {
  await newChat();
  await ask(page, "What is 12 + 35?");
  const thoughts = lastAnswer().locator("details.reasoning");
  expect(await thoughts.getAttribute("open")).toBeNull();
  expect(await thoughts.locator("summary").textContent()).toBe("Thoughts");
  expect(await thoughts.textContent()).toContain("12 + 35 = 47");
  expect((await text().textContent())?.trim()).toBe("The answer is 47.");
});

test("a tool is called, run and answered from", async () => {
  await newChat();
  await button("Tools").click();
  const clock = () =>
    new Date().toLocaleString("en-GB", { timeZone: "Asia/Tokyo", timeStyle: "short" });
  const before = clock();
  await ask(page, "What time is it in Tokyo?");
  const call = lastAnswer().locator(".call");
  expect(await call.locator(".call-name").textContent()).toBe("get_time");
  expect(await call.locator(".call-arguments").textContent()).toBe('{"city": "Tokyo"}');
  const result = (await call.locator(".call-result code").textContent()) ?? "";
  const { time } = JSON.parse(result) as { readonly time: string };
  const minutes = (clock: string) => Number(clock.slice(0, 2)) * 60 + Number(clock.slice(3));
  const day = 24 * 60;
  const since = (clock: string) => (minutes(clock) - minutes(before) + day) % day;
  expect(since(time)).toBeLessThanOrEqual(since(clock()));
  // The embedded model does not always get the figures right.
  expect(await text().textContent()).toMatch(/ in Tokyo\.$/);
  await button("Tools").click();
});

test("a schema is checked as it is written, and answers fit it", async () => {
  await newChat();
  await button("JSON").click();
  const schema = page.getByLabel("JSON schema that answers fit");
  const verdict = page.locator("#schema-verdict");
  const good = await schema.inputValue();
  await schema.fill('{"type": "object", ');
  await verdict.getByText(/JSON/).waitFor();
  expect(await schema.getAttribute("aria-invalid")).toBe("true");
  await schema.fill('{"type": "objekt"}');
  await verdict.getByText(/"type": it must be a type .*\(at \/type\)/).waitFor();
  // Nothing is sent, and the question stays where it is.
  const field = page.getByRole("textbox", { name: "Question" });
  await field.fill("Hello!");
  await field.press("Enter");
  expect(await field.inputValue()).toBe("Hello!");
  expect(await answers().count()).toBe(0);
  await schema.fill(good);
  await verdict.getByText("This schema can be enforced").waitFor();
  await ask(page, "Extract name, age and city as JSON: Anna is 34 years old and lives in Oslo.");
  expect(await lastAnswer().locator(".note").textContent()).toBe(
    "Valid: the answer fits the schema",
  );
  const code = (await lastAnswer().locator("pre").textContent()) ?? "";
  expect(code).toBe(JSON.stringify({ name: "Anna", age: 34, city: "Oslo" }, null, 2));
  await button("JSON").click();
});

test("other code of this origin uses the model through the local endpoint", async () => {
  await button("Engine").click();
  await page.getByRole("switch", { name: "Serve to this origin" }).click();
  const address = page.locator(".endpoint-use pre").first();
  await address.waitFor();
  const baseURL = (await address.textContent())!;
  expect(baseURL).toBe(new URL("v1", (demo as Demo).address).href);
  const reply = await page.evaluate(
    async ([url, content]) => {
      const messages = [{ role: "user", content }];
      const response = await fetch(`${url}/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ messages, temperature: 0 }),
      });
      return response.json();
    },
    [baseURL, QUESTION] as const,
  );
  expect(reply).toMatchObject({ choices: [{ message: { content: ANSWER } }] });
  await page.getByRole("switch", { name: "Serve to this origin" }).click();
  await address.waitFor({ state: "hidden" });
  await button("Close engine").click();
});

test("what was computed of a chat is written to the browser's storage", async () => {
  await newChat();
  await button("Tools").click();
  await ask(page, LASTING);
  expect(await text().textContent()).toBe("The capital of France is Paris.");
  await until(async () => expect(await storedPrefixes()).toBeGreaterThan(0));
  await button("Tools").click();
});

/** Files of prefixes that outlive the page. */
function storedPrefixes(): Promise<number> {
  return page.evaluate(async () => {
    const root = await navigator.storage.getDirectory();
    const folder = await root.getDirectoryHandle("wisp-prefixes", { create: true });
    let count = 0;
    for await (const name of folder.keys()) if (/^[0-9a-f]{64}$/.test(name)) count += 1;
    return count;
  });
}

test("chats are there after a reload, and can be read without a model and deleted", async () => {
  const chats = page.locator("#chat-list li");
  const count = await chats.count();
  expect(count).toBeGreaterThan(4);
  await page.reload();
  expect(await chats.count()).toBe(count);
  await page.locator("#chat-list .chat", { hasText: "What time is it in Tokyo?" }).click();
  expect(await answers().locator(".call").count()).toBe(1);
  expect(await button("Send").isDisabled()).toBe(true);
  await button('Delete the chat "What time is it in Tokyo?"').click();
  expect(await chats.count()).toBe(count - 1);
});

test("a model of the address loads by itself, and the panel draws what its engine does", async () => {
  const { address } = demo as Demo;
  await page.goto(address);
  await page.getByText("Options", { exact: true }).click();
  await page.getByLabel("Drafts", { exact: true }).selectOption("Draft with the model's own layer");
  await page.goto(`${address}?model=embedded`);
  await button("Send").waitFor();
  await newChat();
  await button("Engine").click();
  const panel = page.locator(".panel");
  const figure = (name: string) => panel.locator(`[data-figure="${name}"]`);
  const nodes = panel.locator(".tree-node");
  expect(await panel.locator(".share-bar").first().getAttribute("aria-label")).toMatch(
    /^Memory: weights [\d.]+ MB, workspace .*, KV cache .*, free /,
  );
  expect(await nodes.count()).toBe(0);

  await ask(page, "What is the capital of Japan?");
  await figure("cached")
    .filter({ hasText: /^0 of \d+, 0 %$/ })
    .waitFor();
  // The prompt and the answer: no request uses them any more.
  await panel.locator('svg[aria-label*="2 nodes, 0 of them in use"]').waitFor();
  expect(await nodes.count()).toBe(2);
  await ask(page, "And of France?");
  await figure("cached")
    .filter({ hasText: /^[1-9]\d* of \d+, [\d.]+ %$/ })
    .waitFor();
  // The drawing follows in its own time.
  await until(async () => expect(await nodes.count()).toBeGreaterThan(2));
  await panel.locator('svg[aria-label*=" 0 of them in use"]').waitFor();
  const count = await nodes.count();
  expect(await panel.locator("table tbody tr").count()).toBe(count);
  expect(Number.parseFloat((await figure("rate").textContent())!)).toBeGreaterThan(0);
  expect(await figure("first").textContent()).toMatch(/^[\d.]+ m?s$/);
  await figure("requests").filter({ hasText: "0 / 0" }).waitFor();
  // Most of what is drafted in such a chat is right.
  await figure("drafts")
    .filter({ hasText: /^([2-3]\.\d\d, [5-9]\d|4\.00, 100) % of drafts$/ })
    .waitFor();

  await panel.locator("text=Measure").click();
  // Every browser that these tests start has timestamp queries.
  await panel.locator("text=/steps, .* on the GPU/").waitFor();
  expect(await panel.locator(".kernel-list li").count()).toBeGreaterThan(3);
  const downloading = page.waitForEvent("download");
  await panel.locator("text=Download trace").click();
  const trace = JSON.parse(readFileSync(await (await downloading).path(), "utf8"));
  expect(trace.traceEvents.length).toBeGreaterThan(100);
}, 240_000);

test("a chat's beginning is found again after the reload, and answered alike", async () => {
  await newChat();
  await button("Tools").click();
  await ask(page, LASTING);
  expect(await cached()).toBeGreaterThanOrEqual(64);
  expect(await text().textContent()).toBe("The capital of France is Paris.");
  await button("Tools").click();
});

test("an answer goes on when the browser's GPU process is gone, to the same text", async () => {
  await newChat();
  await set("Max tokens", "60");
  await ask(page, STORY);
  const whole = await text().textContent();
  const { server, browser } = demo as Demo;
  const weights = () => server.requests.filter((line) => line.includes(".safetensors")).length;
  const before = weights();
  await button("Answer again").click();
  await hasBegun(page, 3);
  const session = await browser.newBrowserCDPSession();
  await session.send("Browser.crashGpuProcess");
  await page.getByText("The GPU was lost.").waitFor();
  await lastAnswer().locator(".actions").waitFor();
  expect(await text().textContent()).toBe(whole);
  expect(await stats()).toMatch(/^60 tokens/);
  expect(await page.getByText("The GPU was lost.").count()).toBe(0);
  // Another device has them now.
  expect(weights()).toBeGreaterThan(before);
  await set("Max tokens", "");
});

test("nothing went wrong on the way, and nothing came from elsewhere", () => {
  expect(problems).toEqual([]);
  const { server } = demo as Demo;
  expect(
    requested.filter((url) => !/^(data|blob):/.test(url) && !url.startsWith(server.url)),
  ).toEqual([]);
});
