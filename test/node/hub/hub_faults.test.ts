import { existsSync, mkdirSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import { DownloadError } from "../../../src/http/retries.ts";
import { downloadModel } from "../../../src/node/hub/download_model.ts";
import { resolveModel } from "../../../src/node/hub/resolve_model.ts";
import {
  COMMIT,
  type HubFixture,
  hubFixture,
  ID,
  SHARDS,
  WANTED,
} from "../../support/server/hub_model.ts";
import {
  type HubHit,
  type HubReply,
  type HubServerOptions,
  plain,
  sha256,
} from "../../support/server/hub_server.ts";

const SHARD = SHARDS[0];
const SIZE = WANTED.get(SHARD)!.length;
/** Tries of one file: the first, and the policy's retries. */
const MOST_TRIES = 4;

const fixtures: HubFixture[] = [];

async function open(server?: HubServerOptions): Promise<HubFixture> {
  const fixture = await hubFixture(server);
  fixtures.push(fixture);
  return fixture;
}

afterEach(async () => {
  await Promise.all(fixtures.splice(0).map((fixture) => fixture.close()));
});

type Fault = (reply: HubReply, hit: HubHit) => HubReply;

/** A hub whose store does something to the first shard. */
function openFaulty(fault: Fault): Promise<HubFixture> {
  return open({
    change: (hit, reply) =>
      hit.kind === "store" && hit.name === SHARD ? fault(reply, hit) : reply,
  });
}

/** Ranges of the requests for the first shard's bytes. */
function ranges({ hub }: HubFixture): readonly (string | undefined)[] {
  return hub.hits
    .filter(({ kind, name }) => kind === "store" && name === SHARD)
    .map(({ range }) => range);
}

async function failure(fixture: HubFixture): Promise<string> {
  const error = await downloadModel(ID, fixture.options).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(DownloadError);
  return (error as Error).message;
}

/** Silence is waited for only where it is what a test is about: a busy machine is silent too. */
function impatient(fixture: HubFixture, about: string): HubFixture {
  if (!/silence|nothing came/.test(about)) return fixture;
  return { ...fixture, options: { ...fixture.options, idleTimeout: 300 } };
}

/** Nothing that is not complete can be seen or started. */
async function expectInvisible(fixture: HubFixture): Promise<void> {
  expect(existsSync(fixture.path("snapshots", COMMIT, SHARD))).toBe(false);
  await expect(resolveModel(ID, { env: fixture.options.env! })).rejects.toThrow("wisp download");
}

describe("a fault that passes", () => {
  const HALF = SIZE / 2;
  const first = (fault: Fault): Fault => {
    return (reply, hit) => (hit.nth === 0 ? fault(reply, hit) : reply);
  };
  const cut = (reply: HubReply): HubReply => ({ ...reply, cutAfter: HALF });
  /** Cuts the first answer, and does something to the second. */
  const second = (fault: Fault): Fault => {
    return (reply, hit) => (hit.nth === 0 ? cut(reply) : hit.nth === 1 ? fault(reply, hit) : reply);
  };
  const RESUME = `bytes=${HALF}-`;

  test.each<[string, Fault, readonly (string | undefined)[]]>([
    ["a broken connection", first(cut), [undefined, RESUME]],
    [
      "a connection that breaks at once",
      first((r) => ({ ...r, cutAfter: 0 })),
      [undefined, undefined],
    ],
    ["silence", first((r) => ({ ...r, stallAfter: HALF })), [undefined, RESUME]],
    ["silence before the body", first((r) => ({ ...r, stallAfter: 0 })), [undefined, undefined]],
    ["500", first(() => plain(500)), [undefined, undefined]],
    ["503 when going on", second(() => plain(503)), [undefined, RESUME, RESUME]],
    ["429", first(() => plain(429, { "retry-after": "0" })), [undefined, undefined]],
    [
      "the whole file where a range is wanted",
      second((r) => ({ ...r, status: 200, headers: {}, body: WANTED.get(SHARD)! })),
      [undefined, RESUME],
    ],
    [
      "a range under the status of a whole file",
      second((r) => ({ ...r, status: 200 })),
      [undefined, RESUME, RESUME],
    ],
    [
      "another range than the wanted one",
      second((r) => ({
        ...r,
        headers: { ...r.headers, "content-range": `bytes 0-${HALF - 1}/${SIZE}` },
      })),
      [undefined, RESUME, RESUME],
    ],
    [
      "a range that begins elsewhere",
      second((r) => ({
        ...r,
        headers: { ...r.headers, "content-range": `bytes ${HALF - 9}-${SIZE - 1}/${SIZE}` },
      })),
      [undefined, RESUME, RESUME],
    ],
    [
      "a range of a longer file",
      second((r) => ({
        ...r,
        headers: { ...r.headers, "content-range": `bytes ${HALF}-${SIZE}/${SIZE + 1}` },
      })),
      [undefined, RESUME, RESUME],
    ],
    [
      "a range without its place",
      second(({ headers: _, ...r }) => ({ ...r, headers: {} })),
      [undefined, RESUME, RESUME],
    ],
    ["416", second(() => plain(416)), [undefined, RESUME, undefined]],
    [
      "a whole file that is too short",
      first((r) => ({ ...r, body: r.body.subarray(0, HALF) })),
      [undefined, undefined],
    ],
    [
      "a whole file that is too long",
      first((r) => ({ ...r, body: new Uint8Array(SIZE + 5) })),
      [undefined, undefined],
    ],
    [
      "more bytes than the server announced",
      first((r) => ({
        ...r,
        headers: { "content-length": "", "transfer-encoding": "chunked" },
        body: new Uint8Array(SIZE + 5),
      })),
      [undefined, undefined],
    ],
    ["wrong bytes", first((r) => ({ ...r, body: new Uint8Array(SIZE) })), [undefined, undefined]],
    [
      "wrong bytes in the second part",
      second((r) => ({ ...r, body: new Uint8Array(HALF) })),
      [undefined, RESUME, undefined],
    ],
    [
      "another ETag with the second part",
      second((r) => ({ ...r, headers: { ...r.headers, etag: '"other"' } })),
      [undefined, RESUME, undefined],
    ],
  ])("%s", async (title, fault, wanted) => {
    const fixture = impatient(await openFaulty(fault), title);
    await downloadModel(ID, fixture.options);
    expect(ranges(fixture)).toEqual(wanted);
    await resolveModel(ID, { env: fixture.options.env! });
    expect(fixture.names("blobs").filter((name) => name.endsWith(".incomplete"))).toEqual([]);
  });

  test("a part is asked for only of the version that the first part was of", async () => {
    const fixture = await openFaulty(first(cut));
    await downloadModel(ID, fixture.options);
    const hits = fixture.hub.hits.filter(({ kind, name }) => kind === "store" && name === SHARD);
    expect(hits.map(({ ifRange }) => ifRange)).toEqual([
      undefined,
      expect.stringMatching(/^".*-3"$/),
    ]);
  });

  test("a transfer that goes on is not given up", async () => {
    const step = 30_000;
    const fixture = await openFaulty((reply) => ({ ...reply, cutAfter: step }));
    const policy = { ...fixture.options.policy!, progressBytes: step };
    await downloadModel(ID, { ...fixture.options, policy });
    expect(ranges(fixture)).toHaveLength(SIZE / step);
    expect(ranges(fixture)[3]).toBe(`bytes=${3 * step}-`);
  });

  test("a wait that the server asks for is kept, up to the longest", async () => {
    const fixture = await openFaulty(first(() => plain(429, { "retry-after": "3600" })));
    await downloadModel(ID, fixture.options);
    expect(fixture.notes).toEqual([
      `Trying ${SHARD} of ${ID} again in 0 s: ${fixture.hub.storeUrl} answers 429`,
    ]);
  });

  test("a list that does not come at once", async () => {
    const fixture = await open({
      change: (hit, reply) => {
        if (hit.kind !== "list") return reply;
        return [plain(502), { ...reply, cutAfter: 20 }, plain(200), reply][hit.nth]!;
      },
    });
    await downloadModel(ID, fixture.options);
    expect(fixture.notes).toHaveLength(3);
  });
});

describe("a fault that stays", () => {
  test.each<[string, Fault, string, number]>([
    ["401", () => plain(401), "answers 401", 1],
    ["403", () => plain(403), "answers 403", 1],
    ["404", () => plain(404), "answers 404", 1],
    ["429", () => plain(429), `answers 429, after ${MOST_TRIES} tries`, MOST_TRIES],
    ["503", () => plain(503), `answers 503, after ${MOST_TRIES} tries`, MOST_TRIES],
    ["cuts", (r) => ({ ...r, cutAfter: 0 }), "the transfer broke off", MOST_TRIES],
    ["silence", (r) => ({ ...r, stallAfter: 5 }), "nothing came for 0.3 s", MOST_TRIES],
    ["wrong bytes", (r) => ({ ...r, body: new Uint8Array(SIZE) }), "its SHA-256 is", 2],
    ["short", (r) => ({ ...r, body: r.body.subarray(5) }), `instead of ${SIZE}`, MOST_TRIES],
    [
      "lies about ranges",
      (r, hit) =>
        hit.nth === 0
          ? { ...r, cutAfter: 1000 }
          : { ...r, headers: { "content-range": "bytes 7-8/9" } },
      "sends bytes 7-8/9 where bytes from 1000 are wanted",
      MOST_TRIES,
    ],
    ["a circle", () => plain(302, { location: "?" }), "redirects in circles", 10],
    [
      "another scheme",
      () => plain(302, { location: "file:///etc/passwd" }),
      "which is not safe",
      1,
    ],
  ])("%s: names the file, gives up, shows nothing", async (_, fault, message, tries) => {
    const fixture = await openFaulty(fault);
    const text = await failure(impatient(fixture, message));
    expect(text).toContain(`Cannot download ${SHARD} of ${ID}: `);
    expect(text).toContain(message);
    expect(ranges(fixture)).toHaveLength(tries);
    await expectInvisible(fixture);
  });

  test("one wrong byte in a small file is found too", async () => {
    const fixture = await open({
      change: (hit, reply) => {
        if (hit.name !== "tokenizer.json") return reply;
        const body = reply.body.slice();
        body[3] = body[3]! ^ 1;
        return { ...reply, body };
      },
    });
    expect(await failure(fixture)).toMatch(
      /^Cannot download tokenizer.json of .*: its git SHA-1 is/,
    );
    expect(fixture.names("snapshots", COMMIT)).not.toContain("tokenizer.json");
  });

  test.each([
    ["x-linked-etag", `"${"0".repeat(64)}"`, "ETag"],
    ["x-linked-size", "17", "size"],
    ["x-repo-commit", "d".repeat(40), "commit"],
  ])("%s that is not what was listed: refused at once", async (header, value, what) => {
    const fixture = await open({
      change: (hit, reply) =>
        hit.name === SHARD ? { ...reply, headers: { ...reply.headers, [header]: value } } : reply,
    });
    expect(await failure(fixture)).toContain(
      `${SHARD} of ${ID}: it is not the file that was listed: ${what} `,
    );
    expect(ranges(fixture).length).toBeLessThanOrEqual(1);
    await expectInvisible(fixture);
  });

  test.each([
    [401, undefined, "private or gated: HF_TOKEN has to hold a token"],
    [401, "t", "the token is not valid, or may not read it"],
    [403, undefined, "it is gated: ask for access on its page, and put a token into HF_TOKEN"],
    [403, "t", "the token may not read it: ask for access on its page"],
    [404, undefined, "there is no such model, revision or file"],
  ])("the hub answers %i for a file, token %s", async (status, token, message) => {
    const fixture = await open({
      change: (hit, reply) => (hit.name === SHARD ? plain(status) : reply),
    });
    const env = { ...fixture.options.env, HF_TOKEN: token };
    const text = await failure({ ...fixture, options: { ...fixture.options, env } });
    const answers = `${fixture.hub.url} answers ${status}`;
    expect(text).toContain(`Cannot download ${SHARD} of ${ID}: ${answers}: `);
    expect(text).toContain(message);
    expect(ranges(fixture)).toEqual([]);
    await expectInvisible(fixture);
  });

  test("a failure ends the other transfers instead of waiting for them", async () => {
    const [, other] = SHARDS;
    const asked = (name: string) => {
      return fixture.hub.hits.filter((hit) => hit.kind === "store" && hit.name === name).length;
    };
    // The other shard is to be asked for again in eleven days, which only a failure cuts short.
    const isWaited = () => fixture.notes.some((note) => note.includes(other));
    const fixture: HubFixture = await open({
      change: (hit, reply) => {
        if (hit.kind !== "store") return reply;
        if (hit.name === other) return plain(503, { "retry-after": "1000000" });
        return isWaited() ? plain(404) : plain(503);
      },
    });
    const policy = { retries: 10_000, backoff: 1, longestWait: 2 ** 30, progressBytes: 1e6 };
    const options = { ...fixture.options, policy };
    expect(await failure({ ...fixture, options })).toContain(SHARD);
    expect(isWaited()).toBe(true);
    expect(asked(other)).toBe(1);
  });

  test("a hub that cannot be reached", async () => {
    const fixture = await open();
    await fixture.hub.close();
    const text = await failure(fixture);
    expect(text).toContain(`Cannot download ${ID} (revision main): ${fixture.hub.url} cannot be`);
    expect(text).toContain(`(ECONNREFUSED), after ${MOST_TRIES} tries`);
  });

  test.each([
    ["org/other", "main", "answers 404: there is no such model, or it is private"],
    [ID, "v9", "answers 404: there is no such revision"],
  ])("the hub has no %s at %s", async (id, revision, message) => {
    const fixture = await open();
    const download = downloadModel(id, { ...fixture.options, revision });
    await expect(download).rejects.toThrow(`Cannot download ${id} (revision ${revision}): `);
    await expect(download).rejects.toThrow(message);
    expect(fixture.hub.hits).toHaveLength(1);
  });

  test.each<[string, Fault, string]>([
    ["a page", () => ({ ...plain(200), body: new TextEncoder().encode("<html>") }), "not JSON"],
    [
      "another object",
      () => ({ ...plain(200), body: new TextEncoder().encode("{}") }),
      "not a model hub",
    ],
    [
      "a commit that leads out of the cache",
      () => ({ ...plain(200), body: new TextEncoder().encode('{"sha":"../../x","siblings":[]}') }),
      "not a model hub",
    ],
  ])("in place of a list, %s", async (_, fault, message) => {
    const fixture = await open({
      change: (hit, reply) => (hit.kind === "list" ? fault(reply, hit) : reply),
    });
    expect(await failure(fixture)).toContain(message);
  });

  test.each<[string, ReadonlyMap<string, Uint8Array>, string]>([
    ["no config.json", new Map([["x.gguf", new Uint8Array(9)]]), "it has no config.json"],
    [
      "no safetensors",
      new Map([...WANTED].filter(([name]) => !name.includes("safetensors"))),
      "it has neither model.safetensors nor model.safetensors.index.json",
    ],
    [
      "an index of files that are not there",
      new Map([...WANTED].filter(([name]) => name !== SHARDS[1])),
      `${SHARDS[1]} of ${ID}: model.safetensors.index.json names it, which is not there`,
    ],
  ])("a repository with %s", async (_, files, message) => {
    const fixture = await hubFixture({}, { id: ID, commit: COMMIT, files });
    fixtures.push(fixture);
    expect(await failure(fixture)).toContain(message);
    expect(ranges(fixture)).toEqual([]);
  });
});

test("a disk that takes no file: names the file", async () => {
  const fixture = await open();
  const digest = sha256(WANTED.get(SHARD)!);
  mkdirSync(fixture.path("blobs", `${digest}.incomplete`), { recursive: true });
  expect(await failure(fixture)).toMatch(`Cannot download ${SHARD} of ${ID}: EISDIR`);
});
