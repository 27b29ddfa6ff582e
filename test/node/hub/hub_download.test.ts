import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { downloadModel } from "../../../src/node/hub/download_model.ts";
import { machineName } from "../../../src/node/hub/hub_lock.ts";
import { missingFiles } from "../../../src/node/hub/model_files.ts";
import { resolveModel } from "../../../src/node/hub/resolve_model.ts";
import {
  COMMIT,
  type HubFixture,
  hubFixture,
  ID,
  MODEL,
  SHARDS,
  WANTED,
} from "../../support/server/hub_model.ts";
import { digestOf, type HubModel, type HubServerOptions } from "../../support/server/hub_server.ts";

const fixtures: HubFixture[] = [];

async function open(server?: HubServerOptions, model?: HubModel): Promise<HubFixture> {
  const fixture = await hubFixture(server, model);
  fixtures.push(fixture);
  return fixture;
}

afterEach(async () => {
  await Promise.all(fixtures.splice(0).map((fixture) => fixture.close()));
});

/** Requests for bytes of a file, from wherever these come. */
function fetches({ hub }: HubFixture, name: string) {
  const kind = hub.hits.some((hit) => hit.kind === "store" && hit.name === name) ? "store" : "file";
  return hub.hits.filter((hit) => hit.kind === kind && hit.name === name && hit.method === "GET");
}

/** The snapshot has what is wanted, nothing else, and every byte of it. */
function expectComplete(fixture: HubFixture, wanted = WANTED): void {
  expect(fixture.names("snapshots", COMMIT)).toEqual([...wanted.keys()].sort());
  for (const [name, bytes] of wanted) {
    const found = readFileSync(fixture.path("snapshots", COMMIT, name));
    expect(Buffer.compare(found, bytes), name).toBe(0);
  }
  const partials = fixture.names("blobs").filter((name) => name.endsWith(".incomplete"));
  expect(partials).toEqual([]);
  const rest = fixture.names().filter((name) => !["blobs", "refs", "snapshots"].includes(name));
  expect(rest).toEqual([]);
}

describe("downloadModel", () => {
  test("fills the cache in the layout of the hub's own tools", async () => {
    const fixture = await open();
    const model = await downloadModel(ID, fixture.options);
    expectComplete(fixture);
    expect(model).toMatchObject({ commit: COMMIT, files: WANTED.size });
    expect(model.folder).toBe(fixture.path("snapshots", COMMIT));
    expect(readFileSync(fixture.path("refs", "main"), "utf8")).toBe(COMMIT);
    for (const [name, bytes] of WANTED) {
      const link = readlinkSync(fixture.path("snapshots", COMMIT, name));
      expect(link).toBe(`../../blobs/${digestOf(name, bytes)}`);
    }
    const { env } = fixture.options;
    expect(await resolveModel(ID, { env: env! })).toEqual({
      name: ID,
      folder: model.folder,
      commit: COMMIT,
    });
  });

  test("fetches nothing but what a model needs, and each bytes once", async () => {
    const fixture = await open();
    await downloadModel(ID, fixture.options);
    const names = new Set(fixture.hub.hits.map(({ name }) => name).filter((name) => name !== ""));
    const twice = ["generation_config.json", "tokenizer_config.json"];
    expect(twice.filter((name) => names.has(name))).toHaveLength(1);
    expect([...names, ...twice].every((name) => WANTED.has(name))).toBe(true);
  });

  test("what is here is not fetched again", async () => {
    const fixture = await open();
    await downloadModel(ID, fixture.options);
    const before = fixture.hub.hits.length;
    await downloadModel(ID, fixture.options);
    expect(fixture.hub.hits.slice(before).map(({ kind }) => kind)).toEqual(["list"]);
    expectComplete(fixture);
  });

  test("a blob that another tool has left is shown and not fetched", async () => {
    const fixture = await open();
    const bytes = WANTED.get(SHARDS[0])!;
    const path = fixture.path("blobs", digestOf(SHARDS[0], bytes));
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, bytes);
    await downloadModel(ID, fixture.options);
    expect(fetches(fixture, SHARDS[0])).toEqual([]);
    expectComplete(fixture);
  });

  test("goes on at the byte where another tool has stopped", async () => {
    const fixture = await open();
    const bytes = WANTED.get(SHARDS[0])!;
    const path = fixture.path("blobs", `${digestOf(SHARDS[0], bytes)}.incomplete`);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, bytes.subarray(0, 123_456));
    await downloadModel(ID, fixture.options);
    expect(fetches(fixture, SHARDS[0]).map(({ range }) => range)).toEqual(["bytes=123456-"]);
    expect(fixture.progress[0]).toBeGreaterThanOrEqual(123_456);
    expectComplete(fixture);
  });

  test.each([
    ["wrong bytes", (bytes: Uint8Array) => new Uint8Array(bytes.length)],
    ["more bytes than the file has", (bytes: Uint8Array) => new Uint8Array(bytes.length + 9)],
    ["wrong first bytes", () => new Uint8Array(1000)],
  ])("begins anew where an earlier download has left %s", async (_, left) => {
    const fixture = await open();
    const bytes = WANTED.get(SHARDS[0])!;
    const path = fixture.path("blobs", `${digestOf(SHARDS[0], bytes)}.incomplete`);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, left(bytes));
    await downloadModel(ID, fixture.options);
    expect(fetches(fixture, SHARDS[0]).at(-1)!.range).toBeUndefined();
    expectComplete(fixture);
  });

  test("a file of the snapshot with the wrong length is fetched again", async () => {
    const fixture = await open();
    await downloadModel(ID, fixture.options);
    const digest = digestOf(SHARDS[1], WANTED.get(SHARDS[1])!);
    appendFileSync(fixture.path("blobs", digest), "x");
    await downloadModel(ID, fixture.options);
    expectComplete(fixture);
  });

  test("asks for sizes and checksums that the list does not tell", async () => {
    const fixture = await open({ plainList: true });
    await downloadModel(ID, fixture.options);
    const asked = fixture.hub.hits.filter(({ method }) => method === "HEAD");
    expect(new Set(asked.map(({ name }) => name))).toEqual(new Set(WANTED.keys()));
    // The store behind the hub is not asked: its addresses are signed for GET.
    expect(asked.every(({ kind }) => kind === "file")).toBe(true);
    expectComplete(fixture);
  });

  test("refuses a file that the server gives no checksum for", async () => {
    const fixture = await open({
      plainList: true,
      change: (hit, reply) => {
        const { etag: _, ...headers } = reply.headers as Record<string, string>;
        return hit.name === "tokenizer.json" ? { ...reply, headers } : reply;
      },
    });
    await expect(downloadModel(ID, fixture.options)).rejects.toThrow(
      `Cannot download tokenizer.json of ${ID}: the server gives no size and checksum for it`,
    );
    expect(fixture.names("snapshots", COMMIT)).not.toContain("tokenizer.json");
  });

  test("takes one file of weights before an index, as the loader does", async () => {
    const single: HubModel = {
      ...MODEL,
      files: new Map([...MODEL.files, ["model.safetensors", new Uint8Array(5000).fill(7)]]),
    };
    const fixture = await open({}, single);
    await downloadModel(ID, fixture.options);
    const names = fixture.names("snapshots", COMMIT);
    expect(names).toContain("model.safetensors");
    expect(names).not.toContain(SHARDS[0]);
    expect(await missingFiles(fixture.path("snapshots", COMMIT))).toEqual([]);
  });

  test("a revision keeps standing for its old commit until the new one is complete", async () => {
    const isBroken = { value: false };
    const fixture = await open({
      change: (hit, reply) =>
        isBroken.value && hit.name === SHARDS[1] ? { ...reply, status: 403 } : reply,
    });
    const old = "a".repeat(40);
    mkdirSync(fixture.path("refs"), { recursive: true });
    mkdirSync(fixture.path("snapshots", old), { recursive: true });
    writeFileSync(fixture.path("refs", "main"), old);
    isBroken.value = true;
    await expect(downloadModel(ID, fixture.options)).rejects.toThrow(SHARDS[1]);
    expect(readFileSync(fixture.path("refs", "main"), "utf8")).toBe(old);
    isBroken.value = false;
    await downloadModel(ID, fixture.options);
    expect(readFileSync(fixture.path("refs", "main"), "utf8")).toBe(COMMIT);
  });

  test("a commit is its own revision and writes no ref", async () => {
    const fixture = await open();
    await downloadModel(`${ID}@${COMMIT}`, fixture.options);
    expect(fixture.names("refs")).toEqual([]);
    const { env } = fixture.options;
    expect((await resolveModel(`${ID}@${COMMIT}`, { env: env! })).commit).toBe(COMMIT);
  });

  test.each([
    ["is moved into the snapshot", "EPERM"],
    ["is moved there too", "UNKNOWN"],
  ])("without links a file %s (%s)", async (_, code) => {
    const fixture = await open();
    const makeLink = async () => {
      throw Object.assign(new Error("no links"), { code });
    };
    await downloadModel(ID, { ...fixture.options, makeLink });
    expectComplete(fixture);
    expect(fixture.names("blobs")).toEqual([]);
    expect(lstatSync(fixture.path("snapshots", COMMIT, SHARDS[0])).isFile()).toBe(true);
    const before = fixture.hub.hits.length;
    await downloadModel(ID, { ...fixture.options, makeLink });
    expect(fixture.hub.hits).toHaveLength(before + 1);
  });

  test("without room on the disk it says how much is needed, and fetches no weights", async () => {
    const fixture = await open();
    const room = (bytes: number) => ({ ...fixture.options, freeBytes: async () => bytes });
    const folder = fixture.path();
    const needed = "0.001 GB more are needed, 0.017 GB are free";
    await expect(downloadModel(ID, room(16 * 2 ** 20 + 400_000))).rejects.toThrow(
      `Cannot download ${ID}: there is no room in ${folder}: ${needed}`,
    );
    expect(fetches(fixture, SHARDS[0])).toEqual([]);
    await downloadModel(ID, room(17 * 2 ** 20));
    expectComplete(fixture);
  });

  test("two downloads at once fetch every file once", async () => {
    const fixture = await open();
    const models = await Promise.all([
      downloadModel(ID, fixture.options),
      downloadModel(ID, fixture.options),
    ]);
    expect(models[0]).toEqual(models[1]);
    expectComplete(fixture);
    for (const name of SHARDS) expect(fetches(fixture, name)).toHaveLength(1);
    expect(fixture.notes).toEqual([`Waiting for another download of ${ID}`]);
  });

  test.each(["dead process", "untouched for a minute"])("takes over the lock: %s", async (kind) => {
    const fixture = await open();
    const lock = fixture.path("..", ".locks", `models--${ID.replace("/", "--")}`, "wisp.lock");
    mkdirSync(dirname(lock), { recursive: true });
    const { pid } = spawnSync(process.execPath, ["--version"]);
    const owner = kind === "dead process" ? pid : process.pid;
    writeFileSync(`${lock}.7`, `${await machineName()} ${owner} x`);
    const past = Date.now() / 1000 - 60;
    if (kind !== "dead process") utimesSync(`${lock}.7`, past, past);
    await downloadModel(ID, fixture.options);
    expectComplete(fixture);
    expect(readdirSync(dirname(lock))).toEqual(["wisp.lock.8"]);
    expect(readFileSync(`${lock}.8`, "utf8")).toBe("free");
    expect(fixture.notes).toEqual([]);
  });

  test("an abort leaves what has come, and the next download goes on there", async () => {
    const isSlow = { value: true };
    const fixture = await open({
      change: (hit, reply) =>
        isSlow.value && hit.kind === "store" ? { ...reply, stallAfter: 50_000 } : reply,
    });
    const ending = new AbortController();
    const reason = new Error("enough");
    const small = [...WANTED].filter(([name]) => !SHARDS.some((shard) => shard === name));
    const smallBytes = small.reduce((sum, [, { length }]) => sum + length, 0);
    const report = {
      note: () => {},
      progress: (done: number) => {
        // All of the small files, and of both shards what comes before they stall.
        if (done >= smallBytes + 100_000) ending.abort(reason);
      },
    };
    const options = { ...fixture.options, report, signal: ending.signal };
    await expect(downloadModel(ID, options)).rejects.toBe(reason);
    expect(fixture.names("snapshots", COMMIT)).not.toContain(SHARDS[0]);
    await expect(resolveModel(ID, { env: fixture.options.env! })).rejects.toThrow(
      `lacks ${SHARDS[0]}, ${SHARDS[1]} (2 half downloaded); "wisp download ${ID}" goes on with it`,
    );
    isSlow.value = false;
    await downloadModel(ID, fixture.options);
    for (const name of SHARDS) {
      expect(fetches(fixture, name).map(({ range }) => range)).toEqual([undefined, "bytes=50000-"]);
    }
    expectComplete(fixture);
  });
});
