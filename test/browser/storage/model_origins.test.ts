import { afterEach, describe, expect, test } from "vitest";
import type { ModelOrigin } from "../../../src/browser/download/download_origin.ts";
import { filesSource, folderSource } from "../../../src/browser/download/file_source.ts";
import type { AddOptions, ModelStore } from "../../../src/browser/storage/model_store.ts";
import { threadLocks } from "../../../src/browser/storage/opfs_locks.ts";
import { openModelStore } from "../../../src/browser/storage/storage.ts";
import { InvalidRequestError } from "../../../src/errors.ts";
import { MemoryFolder } from "../../support/engines/memory_storage.ts";
import { ID, MODEL, SHARDS, WANTED } from "../../support/server/hub_model.ts";
import {
  type HubModel,
  type HubServer,
  type HubServerOptions,
  serveHub,
} from "../../support/server/hub_server.ts";

const QUICK: AddOptions = {
  retryPolicy: { retries: 3, backoff: 1, longestWait: 20, progressBytes: 1e6 },
};

const open: HubServer[] = [];

afterEach(async () => {
  for (const hub of open.splice(0)) await hub.close();
});

function newStore(): Promise<ModelStore> {
  const folder = new MemoryFolder({ writes: "through a copy" });
  const quota = {
    estimate: async () => ({ usage: 0, quota: 1e9 }),
    persisted: async () => false,
    persist: async () => false,
  };
  return openModelStore({ folder, quota, locks: threadLocks(), partBytes: 65_536 });
}

async function expectStored(store: ModelStore, name: string): Promise<void> {
  const source = await store.open(name);
  const names = (await source.list()).map((file) => file.name);
  expect([...names].sort()).toEqual([...WANTED.keys()].sort());
  for (const [file, bytes] of WANTED) {
    expect(Buffer.compare(await source.read(file, 0, bytes.length), bytes), file).toBe(0);
  }
  await source.close?.();
}

describe("a hub", () => {
  const hubOf = async (options: HubServerOptions = {}, model: HubModel = MODEL) => {
    const hub = await serveHub(model, options);
    open.push(hub);
    return { hub, origin: { kind: "hub", id: ID, endpoint: hub.url } as const };
  };

  test("gives the files that make a model, each once, at the listed commit", async () => {
    const { hub, origin } = await hubOf();
    const store = await newStore();
    expect(await store.add(origin, QUICK)).toBe(ID);
    await expectStored(store, ID);
    const fetched = hub.hits.filter(({ kind, name, method }) => {
      return method === "GET" && kind === (/safetensors$/.test(name) ? "store" : "file");
    });
    expect(fetched.map(({ name }) => name).sort()).toEqual([...WANTED.keys()].sort());
    // What is asked for by range comes to a page as it is, without compression.
    expect(fetched.every(({ range }) => range === "bytes=0-")).toBe(true);
    const [model] = await store.list();
    expect(model?.commit).toBe(MODEL.commit);
    expect(model?.origin).toEqual({ ...origin, revision: "main" });
    const asked = hub.hits.length;
    await store.add(origin, QUICK);
    await store.add(model?.origin as ModelOrigin, QUICK);
    expect(hub.hits).toHaveLength(asked);
  });

  test("goes on where a transfer broke off, also of the same version only", async () => {
    const { hub, origin } = await hubOf({
      change: (hit, reply) =>
        hit.kind === "store" && hit.nth === 0 ? { ...reply, cutAfter: 70_000 } : reply,
    });
    const store = await newStore();
    await expectStored(store, await store.add(origin, QUICK));
    const starts = hub.hits
      .filter(({ kind }) => kind === "store")
      .map(({ range }) => Number(/^bytes=(\d+)-$/.exec(range!)![1]));
    // A client may lose the end of what it has when a connection breaks off.
    expect(starts.filter((start) => start === 0)).toHaveLength(2);
    expect(starts.filter((start) => start > 0 && start <= 70_000)).toHaveLength(2);
  });

  test.each([SHARDS[0], "tokenizer.json"])(
    "whose %s is wrong once is asked again",
    async (file) => {
      const wrong = (bytes: Uint8Array) => bytes.map((byte, i) => (i === 5 ? byte ^ 1 : byte));
      const isBytes = ({ kind, name }: { kind: string; name: string }) =>
        name === file && kind === (name === SHARDS[0] ? "store" : "file");
      const once = await hubOf({
        change: (hit, reply) =>
          isBytes(hit) && hit.nth === 0 ? { ...reply, body: wrong(reply.body) } : reply,
      });
      const store = await newStore();
      await expectStored(store, await store.add(once.origin, QUICK));
      const always = await hubOf({
        change: (hit, reply) => (isBytes(hit) ? { ...reply, body: wrong(reply.body) } : reply),
      });
      const kind = file === SHARDS[0] ? "SHA-256" : "git SHA-1";
      const adding = (await newStore()).add(always.origin, QUICK);
      await expect(adding).rejects.toThrow(`Cannot download ${file} of ${ID}: its ${kind} is`);
    },
  );

  test("gets the token, and the store behind it does not", async () => {
    const { hub, origin } = await hubOf({ token: "secret" });
    const store = await newStore();
    await expect(store.add(origin, QUICK)).rejects.toThrow(
      "headers.authorization has to hold a token that may read it",
    );
    const headers = { authorization: "Bearer secret" };
    await expectStored(store, await store.add(origin, { ...QUICK, headers }));
    const told = hub.hits.filter(({ authorization }) => authorization !== undefined);
    expect(told.length).toBeGreaterThan(0);
    expect(told.every(({ kind }) => kind !== "store")).toBe(true);
    const kept = JSON.stringify(await store.list());
    expect(kept).not.toContain("secret");
  });

  test("has no such model or revision", async () => {
    const { origin } = await hubOf();
    const store = await newStore();
    const add = (change: object) => store.add({ ...origin, ...change }, QUICK);
    await expect(add({ id: "org/other" })).rejects.toThrow("there is no such model");
    await expect(add({ revision: "v2" })).rejects.toThrow("there is no such revision");
    await expect(add({ id: "org/a/b" })).rejects.toThrow(InvalidRequestError);
    await expect(add({ revision: "../x" })).rejects.toThrow('the model id "org/tiny-1.0@../x"');
  });
});

describe("picked files", () => {
  const OTHERS = ["README.md", "pytorch_model.bin"];
  const picked = (folder: string) =>
    [...WANTED.keys(), ...OTHERS].map((name) => {
      const bytes = WANTED.get(name) ?? new Uint8Array(3);
      const file = new File([new Uint8Array(bytes)], name, { lastModified: 1000 });
      return Object.assign(file, { webkitRelativePath: folder && `${folder}/${name}` });
    });

  test("are stored like any model, by the name of their folder", async () => {
    const store = await newStore();
    expect(await store.add({ kind: "files", files: picked("tiny") })).toBe("tiny");
    await expectStored(store, "tiny");
    expect(await store.verify("tiny")).toEqual([]);
    const nameless = store.add({ kind: "files", files: picked("") });
    await expect(nameless).rejects.toThrow("Cannot store the picked files: they need a name");
    const withoutIndex = picked("").filter(({ name }) => !name.endsWith("index.json"));
    await expect(store.add({ kind: "files", files: withoutIndex }, { name: "m" })).rejects.toThrow(
      "it has neither model.safetensors nor model.safetensors.index.json",
    );
  });

  test("that change after an abort are copied again", async () => {
    const store = await newStore();
    const ending = new AbortController();
    const options = { name: "m", signal: ending.signal };
    const changed = picked("").map((file) => {
      if (file.name !== SHARDS[0]) return file;
      const bytes = new Uint8Array(WANTED.get(file.name)!.map((byte) => byte ^ 1));
      const stream = () =>
        new ReadableStream({
          start: (controller) => controller.enqueue(bytes.subarray(0, 100_000)),
          pull: (controller) => {
            ending.abort(new Error("enough"));
            controller.enqueue(bytes.subarray(100_000));
          },
        });
      const slice = () => ({ stream });
      return Object.assign(new File([bytes], file.name, { lastModified: 2000 }), { slice });
    }) as readonly File[];
    await expect(store.add({ kind: "files", files: changed }, options)).rejects.toThrow("enough");
    const missing = WANTED.get(SHARDS[0])!.length - 100_000;
    expect((await store.list())[0]?.missing).toBeGreaterThanOrEqual(missing);
    await store.add({ kind: "files", files: picked("") }, { ...QUICK, name: "m" });
    await expectStored(store, "m");
  });

  test("are a source without a copy", async () => {
    const inside = Object.assign(new File(["x"], "config.json"), {
      webkitRelativePath: "tiny/onnx/config.json",
    });
    const source = filesSource([...picked("tiny"), inside]);
    expect(await source.list()).toHaveLength(WANTED.size + OTHERS.length);
    const bytes = WANTED.get(SHARDS[1])!;
    const piece = await source.read(SHARDS[1], 1000, 5000);
    expect(Buffer.compare(piece, bytes.subarray(1000, 6000))).toBe(0);
    await expect(source.read(SHARDS[1], 199_999, 2)).rejects.toThrow("it ends at byte 200000");
    await expect(source.read("x", 0, 0)).rejects.toThrow("picked files has no such file");
    const twins = [new File([], "a"), new File([], "a")];
    expect(() => filesSource(twins)).toThrow("Cannot load a: two of the picked files");
  });

  test("may be a folder's handle", async () => {
    const entries = picked("").map((file) => ({ kind: "file", getFile: async () => file }));
    const handle = {
      name: "tiny",
      values: async function* () {
        yield* [...entries, { kind: "directory" }];
      },
    } as unknown as FileSystemDirectoryHandle;
    const source = await folderSource(handle);
    expect(source.name).toBe("tiny");
    expect(await source.list()).toHaveLength(entries.length);
    const store = await newStore();
    await expectStored(store, await store.add({ kind: "folder", handle }));
  });
});
