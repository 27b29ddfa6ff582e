import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { ask, type Demo, loadEmbedded, openDemo, serveDemo } from "../support/demo.ts";
import { filesIn } from "../support/file_server.ts";
import { type HubServer, serveHub } from "../support/hub_server.ts";

const MODEL = fileURLToPath(new URL("../../examples/tiny-deepseek-v3", import.meta.url));
const ID = "someone/tiny";
const LAST_SHARD = "model-00002-of-000002.safetensors";

let demo: Demo | string;
let hub: HubServer;

/** A hub that has the embedded model, and sends only the beginning of a shard at first. */
beforeAll(async () => {
  demo = await serveDemo();
  const model = { id: ID, commit: "c0ffee".padEnd(40, "0"), files: filesIn(MODEL) };
  hub = await serveHub(model, {
    change: ({ kind, name, nth }, reply) => ({
      ...reply,
      headers: {
        ...reply.headers,
        "access-control-allow-origin": "*",
        "access-control-expose-headers": "*",
      },
      ...(kind === "store" && name === LAST_SHARD && nth === 0 && { stallAfter: 100_000 }),
    }),
  });
}, 120_000);

afterAll(async () => {
  if (typeof demo !== "string") await demo.close();
  await hub.close();
});

beforeEach((context) => {
  if (typeof demo === "string") context.skip(demo);
});

test("a model of a hub is downloaded, cancelled, resumed, kept and deleted", async () => {
  const { page, problems } = await openDemo(demo as Demo);
  await page.goto((demo as Demo).address);
  await page.getByRole("button", { name: "Dismiss" }).click();
  await page.getByText("Options", { exact: true }).click();
  await page.getByLabel("Hub", { exact: true }).fill(hub.url);
  expect(hub.hits).toHaveLength(0);

  const form = page.locator("form", { hasText: "Another model of the hub" });
  await form.getByRole("textbox").fill(ID);
  await form.getByRole("button", { name: "Download" }).click();
  await page.getByRole("heading", { name: `Loading ${ID}` }).waitFor();
  await page.locator(".phases .figures", { hasText: /^5\.\d\d MB of 10\.4 MB/ }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();

  const row = page.locator(".model", { hasText: ID });
  await row.getByText(/^Incomplete: \d\.\d\d MB are missing$/).waitFor();
  const fetched = hub.hits.filter(({ kind }) => kind === "store").length;
  await row.getByRole("button", { name: `Resume ${ID}` }).click();
  // All is here once the engine begins; what was here before has not been fetched again.
  await page.getByText("Test of the GPU", { exact: true }).waitFor();
  expect(hub.hits.filter(({ kind }) => kind === "store")).toHaveLength(fetched + 1);
  await page.getByRole("button", { name: "Cancel" }).click();

  await row.getByRole("button", { name: `Load ${ID}` }).waitFor();
  expect(await row.textContent()).toContain("10.4 MB");
  page.once("dialog", (dialog) => void dialog.accept());
  await row.getByRole("button", { name: `Delete ${ID}` }).click();
  await row.waitFor({ state: "detached" });
  expect(problems).toEqual([]);
  await page.close();
});

test("files of this machine are loaded as they are", async () => {
  const { page, problems } = await openDemo(demo as Demo);
  await page.goto((demo as Demo).address);
  await page.locator("#folder").setInputFiles(MODEL);
  await page.getByRole("heading", { name: "Loading tiny-deepseek-v3" }).waitFor();
  await page.getByText("As published: weights of 7.43 MB fit").waitFor();
  await page.getByText("Test of the GPU", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Load tiny-deepseek-v3" }).waitFor();
  expect(problems).toEqual([]);
  await page.close();
});

test.runIf(process.env.WISP_TEST_FULL === "1")(
  "a conversation goes on after a reload from what was computed before",
  async () => {
    const { page } = await openDemo(demo as Demo);
    await page.goto((demo as Demo).address);
    await loadEmbedded(page);
    // Tools make the prompt longer than a block of what is kept; a second use makes it kept.
    await page.getByRole("button", { name: "Tools" }).click();
    await ask(page, "What is the capital of France?");
    await ask(page, "What is the capital of Japan?");
    await page.waitForTimeout(2000);
    await page.reload();
    await loadEmbedded(page);
    await page.getByRole("button", { name: "New chat" }).click();
    await ask(page, "What is the capital of France?");
    const stats = (await page.locator(".answer .stats").textContent())!;
    const [, cached] = /(\d+) of \d+ prompt tokens cached/.exec(stats)!;
    expect(Number(cached)).toBeGreaterThanOrEqual(64);
    const text = await page.locator(".answer .markdown").last().textContent();
    expect(text).toBe("The capital of France is Paris.");
    await page.close();
  },
);
