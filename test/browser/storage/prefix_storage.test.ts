/** Stored prefixes in Chromium's own storage: a page, a worker, a second tab, a reload. */
import type { BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, type TestContext, test } from "vitest";
import type * as browserApi from "../../../src/browser/index.ts";
import { CHROMIUMS } from "../../support/browser/chromium.ts";
import { type ScriptedPage, servePage } from "../../support/browser/scripted_page.ts";

/** Loading a model twice takes long. */
const FULL = process.env.WISP_TEST_FULL === "1";
const PROGRAM = `
import * as wisp from "wisp-llm/browser";
const storage = await wisp.openPrefixStorage("test");
const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
const inWorker = (method, args) => new Promise((resolve, reject) => {
  worker.onmessage = ({ data }) => (data.error ? reject(new Error(data.error)) : resolve(data.value));
  worker.postMessage({ method, args });
});
Object.assign(globalThis, { wisp, storage, inWorker });
`;
const WORKER = `
import { openPrefixStorage } from "wisp-llm/browser";
self.onmessage = async ({ data: { method, args } }) => {
  try {
    const storage = await openPrefixStorage("test");
    self.postMessage({ value: await storage[method](...args) });
  } catch (error) {
    self.postMessage({ error: error.name });
  }
};
`;

type Method = "list" | "read" | "write" | "delete" | "markUsed" | "capacity";
interface PageScope {
  readonly wisp: typeof browserApi;
  readonly storage: Record<Method, (...args: unknown[]) => Promise<unknown>>;
  readonly inWorker: (method: Method, args: readonly unknown[]) => Promise<unknown>;
}

let served: ScriptedPage | string;
let context: BrowserContext | undefined;

afterEach(async () => {
  await context?.close();
  context = undefined;
});

/** A tab; those of one test share their storage, which no other test has. */
async function openTab(test: TestContext): Promise<Page> {
  if (typeof served === "string") return test.skip(served);
  context ??= await served.browser.newContext();
  const page = await context.newPage();
  await page.goto(served.address);
  await page.waitForFunction(() => "inWorker" in globalThis);
  return page;
}

/** Calls a method of the storage, bytes given and taken as lists of numbers. */
function call(page: Page, where: "page" | "worker", method: Method, ...args: unknown[]) {
  return page.evaluate(
    async ([where, method, args]) => {
      const { storage, inWorker } = globalThis as unknown as PageScope;
      const toBytes = (part: unknown) => Uint8Array.from(part as number[]);
      const given = method === "write" ? [args[0], (args[1] as unknown[]).map(toBytes)] : args;
      const work = where === "page" ? storage[method](...given) : inWorker(method, given);
      const value = await work.catch((error: Error) => error.name);
      return value instanceof Uint8Array ? [...value] : value;
    },
    [where, method, args] as const,
  );
}

const A = "a".repeat(64);
const B = "b".repeat(64);
const C = "c".repeat(64);
const names = (blobs: unknown) => (blobs as { name: string }[]).map(({ name }) => name).sort();

describe.each(CHROMIUMS)("in the %s Chromium", (kind) => {
  beforeAll(async () => {
    served = await servePage({ "main.js": PROGRAM, "worker.js": WORKER }, kind);
  });

  afterAll(async () => {
    if (typeof served !== "string") await served.close();
  });

  test("blobs are shared by pages and workers of all tabs", async (test) => {
    const first = await openTab(test);
    await call(first, "page", "write", A, [[1, 2], [3]]);
    await call(first, "worker", "write", B, [[4]]);
    const second = await openTab(test);
    for (const [page, where] of [
      [second, "page"],
      [second, "worker"],
      [first, "page"],
    ] as const) {
      expect(names(await call(page, where, "list"))).toEqual([A, B]);
      expect(await call(page, where, "read", A)).toEqual([1, 2, 3]);
      expect(await call(page, where, "read", B)).toEqual([4]);
      expect(await call(page, where, "read", C)).toBeUndefined();
    }
    await call(second, "worker", "write", A, [[9, 9, 9, 9]]);
    expect(await call(first, "page", "read", A)).toEqual([9, 9, 9, 9]);
    expect(await call(first, "page", "list")).toContainEqual(
      expect.objectContaining({ name: A, byteLength: 4 }),
    );
    await call(second, "page", "delete", [A, C]);
    expect(names(await call(first, "worker", "list"))).toEqual([B]);
  });

  test("two that write the same blob at once leave one of the two, whole", async (test) => {
    const page = await openTab(test);
    const other = await openTab(test);
    const [ones, twos] = [new Array(2000).fill(1), new Array(3000).fill(2)];
    for (let round = 0; round < 3; round++) {
      await Promise.all([
        call(page, "page", "write", A, [ones, ones]),
        call(page, "worker", "write", A, [twos]),
        call(other, "page", "write", A, [twos]),
      ]);
      const left = (await call(page, "page", "read", A)) as number[];
      expect([[...ones, ...ones].join(), twos.join()]).toContain(left.join());
    }
  });

  test("uses are remembered in order; other files are passed over", async (test) => {
    const page = await openTab(test);
    for (const name of [C, A, B]) await call(page, "page", "write", name, [[1]]);
    // Times are whole milliseconds: what is used is so later than what was written.
    await page.waitForFunction(
      (since) => Date.now() > since + 1,
      await page.evaluate(() => Date.now()),
    );
    await Promise.all([
      call(page, "page", "markUsed", [A, B]),
      call(page, "worker", "markUsed", [A]),
    ]);
    await page.evaluate(async (name) => {
      const root = await navigator.storage.getDirectory();
      const folder = await root.getDirectoryHandle("test");
      // A tab that was closed while it wrote, and the file of another program.
      for (const file of [name, "notes.txt"]) await folder.getFileHandle(file, { create: true });
    }, "d".repeat(64));
    const blobs = (await call(page, "page", "list")) as { name: string; usedAt: number }[];
    const byUse = blobs.sort((a, b) => b.usedAt - a.usedAt).map(({ name }) => name);
    expect(byUse).toEqual([A, B, C]);
    expect(await call(page, "page", "read", "d".repeat(64))).toBeUndefined();
  });

  test("a full storage refuses a blob and keeps the others", async (test) => {
    const page = await openTab(test);
    await call(page, "page", "write", A, [[1]]);
    const session = await page.context().newCDPSession(page);
    const origin = new URL((served as ScriptedPage).address).origin;
    await session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 30_000 });
    // Newer ones do not say what they grant, so that writing has to show it.
    const { quota } = await page.evaluate(() => navigator.storage.estimate());
    const capacity = Math.min(Math.floor(quota! / 10), 2 ** 31);
    expect(await call(page, "page", "capacity")).toBe(capacity);
    const large = new Array(60_000).fill(7);
    expect(await call(page, "page", "write", B, [large])).toBe("QuotaExceededError");
    expect(names(await call(page, "page", "list"))).toEqual([A]);
    await session.send("Storage.overrideQuotaForOrigin", { origin });
    await call(page, "page", "write", B, [large]);
    expect(names(await call(page, "page", "list"))).toEqual([A, B]);
  });

  test.runIf(FULL)(
    "a prompt is found again after a reload",
    async (test) => {
      const page = await openTab(test);
      const tokens = Array.from({ length: 140 }, (_, i) => 3 + ((i * 31) % 2000));
      const ask = () =>
        page.evaluate(
          async ([url, tokens]) => {
            const { wisp } = globalThis as unknown as PageScope;
            const engine = await wisp.loadWorkerEngine(
              { kind: "url", url },
              { contextLength: 256, maxRunningRequests: 1, prefixStore: { maxWait: 60 } },
            );
            const sampling = { temperature: 0, maxNewTokens: 4, ignoreEos: true };
            const answer: number[] = [];
            let cachedTokens = 0;
            for await (const chunk of engine.generate({ tokens, sampling, storePrefix: true })) {
              answer.push(...chunk.tokens);
              ({ cachedTokens } = chunk);
            }
            await engine.close();
            return { answer, cachedTokens };
          },
          [(served as ScriptedPage).modelUrl, tokens] as const,
        );
      const before = await ask();
      expect(before).toEqual({ answer: expect.any(Array), cachedTokens: 0 });
      await page.reload();
      await page.waitForFunction(() => "inWorker" in globalThis);
      expect(await ask()).toEqual({ answer: before.answer, cachedTokens: 128 });
    },
    240_000,
  );

  test.runIf(FULL)(
    "a page hears of storage that its engine's worker cannot write to",
    async (test) => {
      const page = await openTab(test);
      const session = await page.context().newCDPSession(page);
      const { origin } = new URL((served as ScriptedPage).address);
      await session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 1000 });
      const problem = await page.evaluate(
        async (url) => {
          const { wisp } = globalThis as unknown as PageScope;
          let tell = (_problem: string) => {};
          const told = new Promise<string>((resolve) => {
            tell = resolve;
          });
          const engine = await wisp.loadWorkerEngine(
            { kind: "url", url },
            {
              ...{ contextLength: 256, maxRunningRequests: 1, prefixStore: { maxBytes: 1e9 } },
              onPrefixProblem: tell,
            },
          );
          const tokens = Array.from({ length: 140 }, (_, i) => 3 + i);
          const sampling = { maxNewTokens: 1 };
          for await (const _ of engine.generate({ tokens, sampling, storePrefix: true }));
          const problem = await told;
          await engine.close();
          return problem;
        },
        (served as ScriptedPage).modelUrl,
      );
      expect(problem).toMatch(/^Cannot write stored prefixes: /);
    },
    240_000,
  );
});
