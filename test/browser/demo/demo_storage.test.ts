import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Demo, openDemo, serveDemo } from "../../support/browser/demo.ts";
import { filesIn } from "../../support/server/file_server.ts";
import { type HubServer, serveHub } from "../../support/server/hub_server.ts";

const MODEL = fileURLToPath(new URL("../../../examples/tiny-deepseek-v3", import.meta.url));
const ID = "org/tiny";
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

test("a model of a hub is downloaded, cancelled, resumed, loaded after a reload and deleted", async () => {
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
  const asked = hub.hits.length;
  await page.reload();
  await page.getByRole("button", { name: "Dismiss" }).click();
  await row.getByRole("button", { name: `Load ${ID}` }).click();
  // Its weights are on the GPU then, and the page asked no server for them.
  await page.getByText("Pipelines", { exact: true }).waitFor();
  expect(hub.hits).toHaveLength(asked);
  await page.getByRole("button", { name: "Cancel" }).click();
  page.once("dialog", (dialog) => void dialog.accept());
  await row.getByRole("button", { name: `Delete ${ID}` }).click();
  await row.waitFor({ state: "detached" });
  expect(problems).toEqual([]);
  await page.close();
});

test("a folder that is dropped is loaded as it is", async () => {
  const { page, problems } = await openDemo(demo as Demo);
  await page.goto((demo as Demo).address);
  const area = page.getByText("Pick a folder of this machine, or drop one here");
  await area.scrollIntoViewIfNeeded();
  const { x, y, width, height } = (await area.boundingBox())!;
  const session = await page.context().newCDPSession(page);
  // As from a file manager: a folder, which no script can make up.
  const data = { items: [], files: [MODEL], dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "drop"] as const) {
    const at = { x: x + width / 2, y: y + height / 2 };
    await session.send("Input.dispatchDragEvent", { type, ...at, data });
  }
  await page.getByRole("heading", { name: "Loading tiny-deepseek-v3" }).waitFor();
  await page.getByText("As published: weights of 7.43 MB fit").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Load tiny-deepseek-v3" }).waitFor();
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
