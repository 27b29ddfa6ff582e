/** The model store on Chromium's own storage: a page, a worker, two tabs, reloads. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { CHROMIUMS, launchChromium } from "../../support/browser/chromium.ts";
import { buildProgram } from "../../support/browser/web_page.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { type FileServer, filesIn, serveFiles } from "../../support/server/file_server.ts";
import { ID, MODEL, WANTED } from "../../support/server/hub_model.ts";
import { serveHub, sha256 } from "../../support/server/hub_server.ts";
import { until } from "../../support/until.ts";
import type { StorePage } from "../pages/model_store.ts";
import type { StoreCalls } from "../pages/model_store_calls.ts";

const PROGRAM = fileURLToPath(new URL("../pages/model_store.ts", import.meta.url));
const PAGE =
  '<!doctype html><link rel="icon" href="data:,"><body><script type="module" src="main.js"></script>';
const OPEN = { "access-control-allow-origin": "*" };
const PART = 2 ** 20;
/** Prints rates. */
const FULL = process.env.WISP_TEST_FULL === "1";
const files = filesIn(EMBEDDED_MODEL);
const STORED = [...files.keys()].filter((name) => name !== "README.md");
const [SHARD, OTHER] = STORED.filter((name) => name.endsWith(".safetensors")) as [string, string];
const TOTAL = STORED.reduce((sum, name) => sum + files.get(name)!.length, 0);
const DIGESTS = Object.fromEntries(STORED.map((name) => [name, sha256(files.get(name)!)]));

let browser: Browser | undefined;
let site: FileServer;
let model: FileServer;
/** Bytes after which the server of the model falls silent, once for each file. */
const silences = new Map<string, number>();
const silent = new Map<string, ServerResponse>();

function intercept({ url = "", headers, method }: IncomingMessage, response: ServerResponse) {
  const name = url.slice(1);
  const sent = silences.get(name);
  if (method !== "GET" || headers.range === "bytes=0-7" || sent === undefined) return false;
  silences.delete(name);
  silent.set(name, response);
  const bytes = files.get(name)!;
  response.writeHead(200, { "content-length": bytes.length });
  response.write(bytes.subarray(0, sent));
  return true;
}

/** The page and the model at two origins, the second of which shows no more than it has to. */
beforeAll(async () => {
  site = await serveFiles(
    new Map([...(await buildProgram(PROGRAM)), ["index.html", Buffer.from(PAGE)]]),
  );
  model = await serveFiles(files, { headers: OPEN, intercept });
});

afterEach(async () => {
  await browser?.close();
  browser = undefined;
});

afterAll(async () => {
  await site?.close();
  await model?.close();
});

async function openTab(context: BrowserContext): Promise<Page> {
  const page = await context.newPage();
  page.on("pageerror", (error) => expect.unreachable(String(error)));
  await openStore(page);
  return page;
}

async function openStore(page: Page): Promise<void> {
  await page.goto(`${site.url}index.html`);
  await page.waitForFunction(() => "storePage" in globalThis);
}

type Where = "onPage" | "inWorker";

function ask<Name extends keyof StoreCalls>(
  page: Page,
  where: Where,
  [name, ...args]: [Name, ...Parameters<StoreCalls[Name]>],
): Promise<Awaited<ReturnType<StoreCalls[Name]>>> {
  return page.evaluate(
    ([where, name, args]) => {
      const { storePage } = globalThis as unknown as { readonly storePage: StorePage };
      const method = storePage[where][name] as (...args: readonly unknown[]) => Promise<never>;
      return method(...args);
    },
    [where, name, args as readonly unknown[]] as const,
  );
}

/** Where the requests for bytes of a file began, since the `from`th request. */
function starts(name: string, from = 0): readonly number[] {
  return model.requests
    .slice(from)
    .filter((line) => line.startsWith(`GET /${name} `) && !line.endsWith("=0-7"))
    .map((line) => Number(/=(\d+)-$/.exec(line)![1]));
}

const restart: Record<Where, (page: Page) => Promise<void>> = {
  onPage: openStore,
  inWorker: (page) =>
    page.evaluate(() => {
      (globalThis as unknown as { readonly storePage: StorePage }).storePage.restartWorker();
    }),
};

const title = "the model store keeps what it has, on a page and in a worker, in the %s Chromium";
test.for(CHROMIUMS)(title, { timeout: 240_000 }, async (kind, test) => {
  const launched = await launchChromium(kind);
  if (typeof launched === "string") return test.skip(launched);
  browser = launched;
  const context = await browser.newContext();
  const tab = await openTab(context);
  const second = await openTab(context);
  const origin = { kind: "url", url: model.url } as const;
  const rate = (seconds: number) => `${(TOTAL / seconds / 1e6).toFixed(1)} MB/s`;

  for (const where of ["onPage", "inWorker"] as const) {
    const from = model.requests.length;
    silences.set(SHARD, 3_500_000);
    silences.set(OTHER, 1_500_000);
    // It never ends: the page is closed, or the worker.
    void ask(tab, where, ["add", origin, where]).catch(() => {});
    const cut = files.get(SHARD)!.length - 3_500_000;
    const hasCome = (bytes: number) =>
      until(async () => expect(await ask(tab, where, ["done"])).toBe(bytes));
    await hasCome(TOTAL - cut - files.get(OTHER)!.length + 1_500_000);
    silent.get(OTHER)!.destroy();
    await hasCome(TOTAL - cut);
    expect(starts(OTHER, from)).toEqual([0, 1_500_000]);
    // Another tab sees it, and deletes nothing.
    expect(await ask(second, "onPage", ["delete", where])).toContain("it is being added or loaded");
    await restart[where](tab);
    const [begun] = (await ask(second, "onPage", ["list"])).filter(({ name }) => name === where);
    expect(begun).toMatchObject({ isComplete: false, size: TOTAL });
    expect(begun!.missing).toBeLessThan(cut + PART);

    const again = model.requests.length;
    const [added, beside] = await Promise.all([
      ask(tab, where, ["add", origin, where]),
      ask(second, "inWorker", ["add", origin, where]),
    ]);
    expect([added.error, beside.error]).toEqual([undefined, undefined]);
    for (const { progress } of [added, beside]) {
      expect(progress.at(-1)).toMatchObject({ phase: "complete", done: TOTAL, total: TOTAL });
    }
    // Of two tabs one asks, for what is not here; no more than a part comes twice.
    expect(model.requests.slice(again)).toHaveLength(1);
    const [start] = starts(SHARD, again);
    expect(start).toBe(files.get(SHARD)!.length - begun!.missing);

    const asked = model.requests.length;
    const read = await ask(tab, where, ["digests", where]);
    expect(read.digests).toEqual(DIGESTS);
    const verified = await ask(tab, where, ["verify", where]);
    expect(verified.damaged).toEqual([]);
    expect((await ask(second, "inWorker", ["digests", where])).digests).toEqual(DIGESTS);
    expect(model.requests).toHaveLength(asked);
    if (FULL) {
      const whole = await ask(tab, where, ["add", origin, "at once"]);
      expect(await ask(tab, where, ["delete", "at once"])).toBe("deleted");
      const rates = [whole, read, verified].map(({ seconds }) => rate(seconds));
      console.log(`${where}: added, read, verified at ${rates.join(", ")}`);
    }
  }

  const hub = await serveHub(MODEL, {
    change: (_, reply) => ({ ...reply, headers: { ...reply.headers, ...OPEN } }),
  });
  const found = await ask(tab, "onPage", [
    "add",
    { kind: "hub", id: ID, endpoint: hub.url },
    "hub",
  ]);
  await hub.close();
  expect(found.error).toBeUndefined();
  const wanted = [...WANTED].map(([name, bytes]) => [name, sha256(bytes)]);
  expect((await ask(tab, "onPage", ["digests", "hub"])).digests).toEqual(
    Object.fromEntries(wanted),
  );
  expect(await ask(tab, "onPage", ["delete", "hub"])).toBe("deleted");

  await ask(tab, "onPage", ["damage", "onPage", `${OTHER}.00002`]);
  expect((await ask(tab, "onPage", ["verify", "onPage"])).damaged).toEqual([OTHER]);
  const damaged = model.requests.length;
  expect((await ask(tab, "onPage", ["add", origin, "onPage"])).error).toBeUndefined();
  expect(model.requests.slice(damaged)).toEqual([`GET /${OTHER} bytes=0-`]);

  const before = await ask(tab, "onPage", ["usage"]);
  expect(before.used).toBeGreaterThan(2 * TOTAL);
  expect(await ask(tab, "inWorker", ["delete", "inWorker"])).toBe("deleted");
  expect(await ask(tab, "inWorker", ["delete", "inWorker"])).toContain("there is no such model");
  const after = await ask(tab, "onPage", ["usage"]);
  expect(before.used - after.used).toBeGreaterThan(0.99 * TOTAL);

  const session = await context.newCDPSession(tab);
  for (const where of ["onPage", "inWorker"] as const) {
    const { used } = await ask(tab, "onPage", ["usage"]);
    const quotaSize = used + 2_000_000;
    const override = { origin: new URL(site.url).origin, quotaSize };
    await session.send("Storage.overrideQuotaForOrigin", override);
    const { quota } = await ask(tab, "onPage", ["usage"]);
    const { error } = await ask(tab, where, ["add", origin, `more ${where}`]);
    const deletable = expect.arrayContaining([{ name: "onPage", bytes: TOTAL }]);
    if (quota === quotaSize) {
      expect(error?.message).toMatch(
        /^Cannot store more .* 10\.4 MB more are needed, 2\.0 MB are free; could be deleted: onPage/,
      );
      expect(error?.room).toMatchObject({ needed: TOTAL, deletable });
    } else {
      // Newer ones do not say what they grant; what they refuse is known once it is written.
      expect(quota).toBeUndefined();
      expect(error?.message).toMatch(
        /^Cannot store more .* [89]\.\d MB more are needed, it takes no more; could be deleted: onPage/,
      );
      expect(error?.room).toMatchObject({ deletable });
    }
    await session.send("Storage.overrideQuotaForOrigin", { origin: override.origin });
  }
  expect(await ask(tab, "onPage", ["delete", "onPage"])).toBe("deleted");
  for (const where of ["onPage", "inWorker"] as const) {
    const name = `more ${where}`;
    expect((await ask(tab, where, ["add", origin, name])).error).toBeUndefined();
    expect((await ask(tab, where, ["digests", name])).digests).toEqual(DIGESTS);
  }

  // Newer ones give folders to the tab in front only.
  await tab.bringToFront();
  const picked = await (await tab.$("input"))!;
  await picked!.setInputFiles(EMBEDDED_MODEL);
  const asked = model.requests.length;
  const chosen = await tab.evaluate(async () => {
    const { storePage } = globalThis as unknown as { readonly storePage: StorePage };
    const files = [...document.querySelector("input")!.files!];
    const inPlace = await storePage.inWorker.digestsOfFiles(files);
    const added = await storePage.inWorker.add({ kind: "files", files }, "picked");
    return { inPlace, added, stored: (await storePage.onPage.digests("picked")).digests };
  });
  expect(chosen.added.error).toBeUndefined();
  expect(chosen.stored).toEqual(DIGESTS);
  expect(chosen.inPlace).toMatchObject(DIGESTS);
  expect(model.requests).toHaveLength(asked);
});
