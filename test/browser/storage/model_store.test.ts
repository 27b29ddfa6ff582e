import type { IncomingMessage, ServerResponse } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import type {
  AddOptions,
  ModelStore,
  StoreProgress,
} from "../../../src/browser/storage/model_store.ts";
import { threadLocks } from "../../../src/browser/storage/opfs_locks.ts";
import { openModelStore } from "../../../src/browser/storage/storage.ts";
import { StorageError } from "../../../src/browser/storage/storage_error.ts";
import { CheckpointError } from "../../../src/errors.ts";
import { DownloadError } from "../../../src/http/retries.ts";
import { MemoryFolder, type MemoryStorageOptions } from "../../support/engines/memory_storage.ts";
import {
  type FileServer,
  type FileServerOptions,
  serveFiles,
} from "../../support/server/file_server.ts";
import { SHARDS, WANTED } from "../../support/server/hub_model.ts";

const FULL = process.env.WISP_TEST_FULL === "1";
const PART = 65_536;
const COPY: MemoryStorageOptions = { writes: "through a copy" };
const QUICK: AddOptions = {
  retryPolicy: { retries: 3, backoff: 1, longestWait: 20, progressBytes: 1e6 },
  idleTimeout: 5000,
};
const BIG = SHARDS[0];
const BIG_BYTES = WANTED.get(BIG)!;

const TOTAL = [...WANTED.values()].reduce((sum, bytes) => sum + bytes.length, 0);

const open: FileServer[] = [];

afterEach(async () => {
  for (const server of open.splice(0)) await server.close();
});

async function serving(
  options: FileServerOptions = {},
  files: ReadonlyMap<string, Uint8Array> = WANTED,
): Promise<FileServer & { readonly origin: { readonly kind: "url"; readonly url: string } }> {
  const server = await serveFiles(files, options);
  open.push(server);
  return { ...server, origin: { kind: "url", url: server.url } };
}

/** The store of one more tab on the same storage. */
function tab(folder: MemoryFolder, locks = threadLocks()): Promise<ModelStore> {
  const quota = {
    estimate: async () => ({ usage: folder.used, quota: folder.quota }),
    persisted: async () => false,
    persist: async () => true,
  };
  return openModelStore({ folder, locks, quota, partBytes: PART });
}

async function expectStored(store: ModelStore, name: string, files = WANTED): Promise<void> {
  const source = await store.open(name);
  const listed = new Map((await source.list()).map((file) => [file.name, file.size]));
  expect([...listed.keys()].sort()).toEqual([...files.keys()].sort());
  for (const [file, bytes] of files) {
    expect(Buffer.compare(await source.read(file, 0, bytes.length), bytes), file).toBe(0);
  }
  await source.close?.();
  expect(await store.verify(name)).toEqual([]);
}

/** Requests for bytes of the big file, but the first, which asks for its size. */
const fetches = ({ requests }: FileServer) =>
  requests.filter((line) => line.includes(BIG) && !line.endsWith("=0-7"));

/** Where they begin. A client may lose the end of what it has when a connection breaks off. */
const starts = (server: FileServer) =>
  fetches(server).map((line) => Number(/=(\d+)-$/.exec(line)![1]));

/** Sends the head of an answer and some bytes, and breaks the connection off. */
function cut(response: ServerResponse, bytes: Uint8Array, sent: number, start = 0): true {
  response.writeHead(206, {
    "content-length": bytes.length - start,
    "content-range": `bytes ${start}-${bytes.length - 1}/${bytes.length}`,
  });
  response.write(bytes.subarray(start, start + sent));
  setTimeout(() => response.socket?.end(), 20);
  return true;
}

const isFetch = ({ url, headers }: IncomingMessage) =>
  url === `/${BIG}` && headers.range !== "bytes=0-7";

describe.each(["through a copy", "in place"] as const)("a store written %s", (writes) => {
  test("fetches a model once, and reads it from then on", async () => {
    const server = await serving();
    const folder = new MemoryFolder({ writes });
    const progress: StoreProgress[] = [];
    const store = await tab(folder);
    const onProgress = (news: StoreProgress) => progress.push(news);
    const name = await store.add(server.origin, { ...QUICK, onProgress });
    expect(name).toBe(new URL(server.url).host);
    expect(progress.map(({ phase }) => phase).slice(0, 2)).toEqual(["waiting", "listing"]);
    expect(progress.at(-1)).toMatchObject({ phase: "complete", done: TOTAL, total: TOTAL });
    const asked = server.requests.length;
    expect(fetches(server)).toEqual([`GET /${BIG} bytes=0-`]);

    const later = await tab(folder);
    await expectStored(later, name);
    await later.add(server.origin, { ...QUICK, name });
    expect(await later.verify(name)).toEqual([]);
    const [model] = await later.list();
    expect(model).toMatchObject({ name, size: TOTAL, missing: 0, isComplete: true });
    expect(model?.origin).toEqual(server.origin);
    expect(server.requests).toHaveLength(asked);
    expect(await later.usage()).toMatchObject({ used: folder.used, persisted: false });
    await later.delete(name);
    expect(await later.list()).toEqual([]);
    expect(folder.used).toBe(0);
  });

  test("goes on at the byte where a connection broke off", async () => {
    let silent: ServerResponse | undefined;
    const intercept = (request: IncomingMessage, response: ServerResponse) => {
      if (!isFetch(request) || silent !== undefined) return false;
      silent = response;
      response.writeHead(200, { "content-length": BIG_BYTES.length });
      return response.write(BIG_BYTES.subarray(0, 100_001)) || true;
    };
    const server = await serving({ intercept });
    const store = await tab(new MemoryFolder({ writes }));
    const here = TOTAL - BIG_BYTES.length + 100_001;
    const onProgress = ({ done }: StoreProgress) => {
      if (done === here) silent?.destroy();
    };
    await expectStored(store, await store.add(server.origin, { ...QUICK, onProgress }));
    expect(starts(server)).toEqual([0, 100_001]);
  });

  test("goes on after an abort and a reload, and opens nothing before", async () => {
    const ending = new AbortController();
    const intercept = (request: IncomingMessage, response: ServerResponse) => {
      if (!isFetch(request) || ending.signal.aborted) return false;
      response.writeHead(200, { "content-length": BIG_BYTES.length });
      response.write(BIG_BYTES.subarray(0, 150_000));
      setTimeout(() => ending.abort(new Error("enough")), 50);
      return true;
    };
    const server = await serving({ intercept });
    const folder = new MemoryFolder({ writes });
    const store = await tab(folder);
    const adding = store.add(server.origin, { ...QUICK, name: "m", signal: ending.signal });
    await expect(adding).rejects.toThrow("enough");
    await expect(store.open("m")).rejects.toThrow(CheckpointError);
    await expect(store.open("m")).rejects.toThrow(
      /^Cannot load m: \d+ of its \d+ bytes are missing/,
    );
    const later = await tab(folder);
    const [begun] = await later.list();
    expect(begun).toMatchObject({ name: "m", isComplete: false });
    const probes = server.requests.length;
    await later.add(server.origin, { ...QUICK, name: "m" });
    expect(starts(server).at(-1)).toBeGreaterThan(0);
    expect(server.requests.length - probes).toBeLessThanOrEqual(WANTED.size);
    expect(server.requests.slice(probes).filter((line) => line.endsWith("=0-7"))).toEqual([]);
    await expectStored(later, "m");
  });

  test("goes on wherever the page was closed", async () => {
    const server = await serving();
    const pictures: MemoryFolder[] = [];
    const folder: MemoryFolder = new MemoryFolder({
      writes,
      onChange: () => pictures.push(folder.copy({ writes })),
    });
    await (await tab(folder)).add(server.origin, { ...QUICK, name: "m" });
    expect(pictures.length).toBeGreaterThan(30);
    const step = FULL ? 1 : Math.ceil(pictures.length / 12);
    for (const picture of pictures.filter((_, i) => i % step === 0)) {
      const store = await tab(picture);
      await store.add(server.origin, { ...QUICK, name: "m" });
      await expectStored(store, "m");
    }
  });
});

describe("a server", () => {
  const stored = async (options: FileServerOptions, files = WANTED) => {
    const server = await serving(options, files);
    const store = await tab(new MemoryFolder(COPY));
    return { server, store, name: await store.add(server.origin, QUICK) };
  };

  test("that ignores ranges is asked for whole files", async () => {
    let broken = 0;
    const intercept = (request: IncomingMessage, response: ServerResponse) =>
      isFetch(request) && broken++ === 0 && cut(response, BIG_BYTES, 100_000);
    const { store, name } = await stored({ withoutRanges: true, intercept });
    await expectStored(store, name);
  });

  test.each([
    ["its ETag", { etag: '"2"' }, BIG_BYTES.map((byte) => byte ^ 1)],
    ["its date", { "last-modified": "Sun, 22 Nov 2026 00:00:00 GMT" }, BIG_BYTES.map((b) => b ^ 1)],
    ["its size", {}, BIG_BYTES.slice(0, 200_000).map((byte) => byte ^ 1)],
    ["its size, to less than is here", {}, BIG_BYTES.slice(0, 50_000).map((byte) => byte ^ 1)],
  ])("whose file changes meanwhile, as %s says, is asked for it again", async (_, headers, now) => {
    let fetched = 0;
    const files = new Map(WANTED);
    const intercept = (request: IncomingMessage, response: ServerResponse) => {
      if (!isFetch(request)) return false;
      fetched += 1;
      const isFirst = fetched === 1;
      const old = { etag: '"1"', "last-modified": "Sat, 21 Nov 2026 00:00:00 GMT" };
      const changed = isFirst ? old : { ...old, ...headers };
      for (const [key, value] of Object.entries(changed)) {
        const isTold = Object.keys(headers).includes(key);
        if (isTold) response.setHeader(key, value);
      }
      files.set(BIG, now);
      return isFirst && cut(response, BIG_BYTES, 100_000);
    };
    const { server, store, name } = await stored({ intercept }, files);
    await expectStored(store, name, files);
    const [first, next, last, ...more] = starts(server);
    expect([first, last, more]).toEqual([0, 0, []]);
    expect(next).toBeGreaterThan(0);
  });

  test.each([429, 503])("that answers %i now and then is asked again", async (status) => {
    const seen = new Set<string>();
    const intercept = ({ url = "", headers }: IncomingMessage, response: ServerResponse) => {
      const key = `${url} ${headers.range}`;
      if (seen.has(key)) return false;
      seen.add(key);
      response.writeHead(status, { "retry-after": "0" }).end();
      return true;
    };
    const { store, name } = await stored({ intercept });
    await expectStored(store, name);
  });

  test("that fails for good is named with the file, and what came stays", async () => {
    const intercept = (request: IncomingMessage, response: ServerResponse) => {
      if (isFetch(request)) response.writeHead(500).end();
      return isFetch(request);
    };
    const server = await serving({ intercept });
    const store = await tab(new MemoryFolder(COPY));
    const adding = store.add(server.origin, { ...QUICK, name: "m", transfers: 1 });
    await expect(adding).rejects.toThrow(DownloadError);
    await expect(adding).rejects.toThrow(
      `Cannot download ${BIG} of m: ${server.url.slice(0, -1)} answers 500, after 4 tries`,
    );
    const [model] = await store.list();
    expect(model!.missing).toBe(BIG_BYTES.length + WANTED.get(SHARDS[1])!.length);
  });

  test("without a model is refused before anything is stored", async () => {
    const server = await serving({}, new Map([["x", new Uint8Array(1)]]));
    const folder = new MemoryFolder(COPY);
    const store = await tab(folder);
    await expect(store.add(server.origin, QUICK)).rejects.toThrow("it has no config.json");
    expect(await store.list()).toEqual([]);
    const lost = await serving({}, new Map([...WANTED].filter(([name]) => name !== SHARDS[1])));
    await expect(store.add(lost.origin, QUICK)).rejects.toThrow(
      `Cannot download ${SHARDS[1]} of ${lost.url}: model.safetensors.index.json names it`,
    );
  });
});

describe("tabs", () => {
  test("that add one model fetch it once", async () => {
    const server = await serving();
    const folder = new MemoryFolder(COPY);
    const locks = threadLocks();
    const tabs = await Promise.all([tab(folder, locks), tab(folder, locks)]);
    await Promise.all(tabs.map((store) => store.add(server.origin, { ...QUICK, name: "m" })));
    expect(fetches(server)).toHaveLength(1);
    await expectStored(tabs[1]!, "m");
  });

  test("delete nothing that another adds or reads", async () => {
    const locks = threadLocks();
    const folder = new MemoryFolder(COPY);
    const [one, other] = [await tab(folder, locks), await tab(folder, locks)];
    const server = await serving();
    const adding = one.add(server.origin, {
      ...QUICK,
      name: "m",
      onProgress: async ({ phase }) => {
        if (phase === "downloading") refusals.push(other.delete("m").catch((error) => error));
      },
    });
    const refusals: Promise<unknown>[] = [];
    await adding;
    expect(refusals.length).toBeGreaterThan(0);
    for (const refusal of await Promise.all(refusals)) expect(refusal).toBeInstanceOf(StorageError);

    const source = await one.open("m");
    await source.read("config.json", 0, 1);
    await expect(other.delete("m")).rejects.toThrow("Cannot delete m: it is being added or loaded");
    await source.close?.();
    await other.delete("m");
    await expect(source.read("config.json", 0, 1)).rejects.toThrow("the model was deleted");
    await expect(other.delete("m")).rejects.toThrow("Cannot delete m: there is no such model");
    await expect(one.open("m")).rejects.toThrow("no model of this name is stored");
  });

  test("an add that waits can be aborted", async () => {
    const locks = threadLocks();
    const folder = new MemoryFolder(COPY);
    const store = await tab(folder, locks);
    const server = await serving();
    const ending = new AbortController();
    await store.add(server.origin, {
      ...QUICK,
      name: "m",
      onProgress: () => {
        waiting ??= store.add(server.origin, { name: "m", signal: ending.signal }).catch((e) => e);
        ending.abort(new Error("enough"));
      },
    });
    expect(String(await waiting)).toContain("enough");
  });
  let waiting: Promise<unknown> | undefined;
});

test("damage is found, and only the damaged file is fetched again", async () => {
  const server = await serving();
  const folder = new MemoryFolder(COPY);
  const store = await tab(folder);
  await store.add(server.origin, { ...QUICK, name: "org/m" });
  const files = folder.folders.get("org%2Fm")!.files;
  files.get(`${BIG}.00002`)![77]! ^= 4;
  expect(await store.verify("org/m")).toEqual([BIG]);
  await expect(store.open("org/m")).rejects.toThrow(`${BIG}: damaged`);
  const asked = server.requests.length;
  await store.add(server.origin, { ...QUICK, name: "org/m" });
  expect(server.requests.slice(asked)).toEqual([`GET /${BIG} bytes=0-`]);
  await expectStored(store, "org/m");

  files.delete(`${BIG}.00001`);
  await expect(store.open("org/m")).rejects.toThrow(`${BIG_BYTES.length - PART} of its`);
  await store.add(server.origin, { ...QUICK, name: "org/m" });
  await expectStored(store, "org/m");
});

test("counts and kinds that cannot be meant are refused and named", async () => {
  const folder = new MemoryFolder(COPY);
  const store = await tab(folder);
  const { origin } = await serving();
  const strange = { ...origin, kind: "ftp" } as unknown as typeof origin;
  const fieldOf = (work: Promise<unknown>) => work.catch(({ field }) => field);
  expect(await fieldOf(store.add(origin, { ...QUICK, transfers: 0 }))).toBe("transfers");
  expect(await fieldOf(store.add(strange, QUICK))).toBe("kind");
  expect(await fieldOf(openModelStore({ folder, partBytes: 0.5 }))).toBe("partBytes");
});

test("a name that stands for another origin, or for no folder, is refused", async () => {
  const [one, other] = [await serving(), await serving()];
  const store = await tab(new MemoryFolder(COPY));
  await store.add(one.origin, { ...QUICK, name: "m" });
  const asked = other.requests.length;
  await expect(store.add(other.origin, { ...QUICK, name: "m" })).rejects.toThrow(
    "a model of this name is stored from elsewhere",
  );
  expect(other.requests).toHaveLength(asked);
  for (const name of ["", "..", "x".repeat(300)]) {
    await expect(store.add(one.origin, { ...QUICK, name })).rejects.toThrow(StorageError);
  }
});
