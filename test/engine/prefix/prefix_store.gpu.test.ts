/** Prefixes that outlive their engine: stored by one, restored by the next, bit by bit the same. */
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Engine } from "../../../src/engine/engine.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { InvalidRequestError } from "../../../src/errors.ts";
import type { GenerationRequest } from "../../../src/generation.ts";
import { prefixFiles } from "../../../src/node/prefix_files.ts";
import { folderSource, SHARED_MODELS } from "../../support/checkpoints/folder_source.ts";
import { device } from "../../support/devices/gpu.ts";
import { EMBEDDED_MODEL, openEngine } from "../../support/engines/engine.ts";
import { until } from "../../support/until.ts";

let folder: string;
let problems: string[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "wisp-prefixes-"));
  problems = [];
});
afterEach(() => rm(folder, { recursive: true }));

const range = (first: number, count: number) =>
  Array.from({ length: count }, (_, i) => 3 + ((first + i * 31) % 250));
const PROMPT = range(0, 210);
/** The others run with WISP_TEST_FULL=1. */
const CASES = (
  [
    { pageSize: 1, cacheDtype: "bf16" },
    { pageSize: 16, cacheDtype: "fp8_e4m3" },
    { pageSize: 16, cacheDtype: "bf16" },
    { pageSize: 1, cacheDtype: "fp8_e4m3" },
  ] as const
).slice(0, process.env.WISP_TEST_FULL === "1" ? 4 : 2);

const DRAFTS = { speculation: { algorithm: "EAGLE", adaptive: "off" } } as const;
const MODEL = {
  speculation: { algorithm: "STANDALONE", adaptive: "off" },
  draftModel: folderSource(EMBEDDED_MODEL),
} as const;

type StoreOptions = Partial<NonNullable<LoadOptions["prefixStore"]>>;

/** Options of an engine that stores prefixes. */
function setting(store: StoreOptions = {}) {
  const onProblem = (problem: string) => problems.push(problem);
  const prefixStore = { storage: prefixFiles(folder), maxWait: 60, onProblem, ...store };
  return { device, triesInvariance: false, prefixStore };
}

function open(store: StoreOptions = {}, options: Partial<LoadOptions> = {}): Promise<Engine> {
  return openEngine({ ...setting(store), ...options });
}

/** The answer to a prompt, with what shows every bit of it, and how much of it was cached. */
async function ask(engine: Engine, request: Partial<GenerationRequest> = {}) {
  const sampling = { maxNewTokens: 6, temperature: 0, ignoreEos: true };
  const given = { tokens: PROMPT, sampling, logprobs: { topCount: 3 }, ...request };
  const answer: unknown[] = [];
  let cachedTokens = 0;
  for await (const chunk of engine.generate(given)) {
    if (chunk.logprobs !== undefined) answer.push(chunk.logprobs);
    cachedTokens = chunk.cachedTokens;
  }
  return { answer, cachedTokens };
}

/** Lets an engine do something, and closes it. */
async function during<T>(opened: Promise<Engine>, work: (engine: Engine) => Promise<T>) {
  const engine = await opened;
  try {
    return await work(engine);
  } finally {
    await engine.close();
  }
}

async function files(): Promise<string[]> {
  return (await readdir(folder)).map((name) => join(folder, name));
}

async function contentsOfFiles(): Promise<Uint8Array[]> {
  const contents = [];
  for (const path of (await files()).sort()) contents.push(await readFile(path));
  return contents;
}

/** A prompt is stored by one engine and asked of another, both opened alike. */
async function restart(opened: () => Promise<Engine>, { pageSize }: { readonly pageSize: number }) {
  const before = await during(opened(), (engine) => ask(engine, { storePrefix: true }));
  expect(before.cachedTokens).toBe(0);
  await during(opened(), async (engine) => {
    expect(await ask(engine)).toEqual({ answer: before.answer, cachedTokens: 192 });
    const longer = await ask(engine, { tokens: [...PROMPT.slice(0, 150), ...range(7, 60)] });
    expect(longer.cachedTokens).toBe(150 - (150 % pageSize));
    expect(engine.status().prefixStore).toMatchObject({ restoredTokens: 192, storedTokens: 0 });
  });
  expect(problems).toEqual([]);
}

test.each(CASES)("a prompt is found again after a restart (%j)", async (options) => {
  await restart(() => open({}, options), options);
});

test.skipIf(SHARED_MODELS === undefined)("so is one of grouped-query attention", async () => {
  const source = folderSource(join(SHARED_MODELS!, "mini-qwen3"));
  const options = { pageSize: 16, cacheDtype: "fp8_e4m3", maxTotalTokens: 1024 } as const;
  await restart(() => Engine.load(source, { ...setting(), ...options }), options);
});

describe("engines that draft and engines that do not share what is stored", () => {
  let plain: Awaited<ReturnType<typeof ask>>;
  beforeAll(async () => {
    plain = await during(openEngine(), (engine) => ask(engine));
  });

  test.each([
    ["without drafts", "with them", undefined, DRAFTS],
    ["with drafts", "without them", DRAFTS, undefined],
    ["with drafts", "with them", DRAFTS, DRAFTS],
    ["with drafts", "with those of a model", DRAFTS, MODEL],
    ["with drafts of a model", "without them", MODEL, undefined],
  ] as const)("a prompt stored %s is found %s", async (_stored, _asked, before, after) => {
    const opened = (drafts: typeof before | typeof after) => open({}, drafts);
    const first = await during(opened(before), (engine) => ask(engine, { storePrefix: true }));
    expect(first).toEqual(plain);
    const written = await contentsOfFiles();
    await during(opened(after), async (engine) => {
      expect(await ask(engine, { storePrefix: true })).toEqual({ ...plain, cachedTokens: 192 });
      expect(engine.status().prefixStore).toMatchObject({ restoredTokens: 192, storedTokens: 0 });
      const figures = engine.status().speculation;
      if (after === undefined) expect(figures).toBeUndefined();
      else expect(figures!.proposedDrafts).toBeGreaterThan(0);
    });
    // What is there already is not stored again.
    expect(written).toHaveLength(3);
    expect(await contentsOfFiles()).toEqual(written);
    expect(problems).toEqual([]);
  });
});

test("a prefix that a second request finds is stored, each block once", async () => {
  const fork = (length: number, first: number) => [...PROMPT.slice(0, length), ...range(first, 40)];
  await during(open(), async (engine) => {
    for (const tokens of [fork(140, 1), fork(140, 2)]) await ask(engine, { tokens });
    // Too short, and not found by a second request.
    for (const tokens of [range(9, 90), range(9, 90), range(11, 200)]) {
      await ask(engine, { tokens });
    }
  });
  expect(await files()).toHaveLength(2);
  await during(open(), async (engine) => {
    expect((await ask(engine, { tokens: fork(140, 3) })).cachedTokens).toBe(128);
    await ask(engine, { tokens: fork(210, 4), storePrefix: 200 });
  });
  expect(await files()).toHaveLength(3);
});

test("salts, other computation and options keep prefixes apart", async () => {
  const stored = await during(open(), async (engine) => {
    for (let i = 0; i < 2; i++) await ask(engine, { cacheSalt: "b" });
    return ask(engine, { cacheSalt: "a", storePrefix: true });
  });
  // Requests with a salt store only what they ask for.
  expect(await files()).toHaveLength(3);
  await during(open(), async (engine) => {
    for (const cacheSalt of ["b", undefined]) {
      expect((await ask(engine, { ...(cacheSalt && { cacheSalt }) })).cachedTokens).toBe(0);
    }
    expect(await ask(engine, { cacheSalt: "a" })).toEqual({ ...stored, cachedTokens: 192 });
  });
  await during(open({}, { deterministicInference: true }), async (engine) => {
    expect((await ask(engine, { cacheSalt: "a" })).cachedTokens).toBe(0);
  });
});

test("a damaged block is not used and deleted, and so is not what follows it", async () => {
  const { answer } = await during(open(), (engine) => ask(engine, { storePrefix: true }));
  const paths = await files();
  for (const path of paths) {
    const bytes = await readFile(path);
    bytes[bytes.length - 5]! ^= 1;
    await writeFile(path, bytes);
  }
  await during(open(), async (engine) => {
    expect(await ask(engine)).toEqual({ answer, cachedTokens: 0 });
  });
  expect(problems).toEqual(["Cannot take cache pages (checksum): their bytes have changed"]);
  expect(await files()).toHaveLength(2);
});

test("storePrefix and the options are checked; a flush can delete what is stored", async () => {
  await during(open(), async (engine) => {
    expect(engine.model.storesPrefixes).toBe(true);
    const first = await ask(engine, { storePrefix: 130 });
    for (const storePrefix of [63, 64.5, Number.NaN]) {
      await expect(ask(engine, { storePrefix })).rejects.toThrow(InvalidRequestError);
    }
    const inputEmbeds = [new Float32Array(engine.model.hiddenSize)];
    const embedded = engine.generate({ inputEmbeds, storePrefix: true });
    await expect(embedded.next()).rejects.toThrow(
      "Cannot use storePrefix: the request has inputEmbeds",
    );
    await until(() => expect(engine.status().prefixStore!.storedTokens).toBe(128));
    await engine.flushCache();
    expect(await ask(engine)).toEqual({ ...first, cachedTokens: 128 });
    expect(await engine.flushCache({ stored: true })).toBe(true);
    expect(await files()).toEqual([]);
    expect(await ask(engine)).toEqual({ ...first, cachedTokens: 0 });
  });
  await during(openEngine(), async (engine) => {
    expect(engine.status().prefixStore).toBeUndefined();
    await expect(ask(engine, { storePrefix: true })).rejects.toThrow(
      "Cannot use storePrefix: the engine has no store",
    );
    await ask(engine, { storePrefix: false });
  });
  await expect(open({ maxBytes: -1 })).rejects.toThrow("prefixStore.maxBytes");
  await expect(open({ minTokens: 0 })).rejects.toThrow("prefixStore.minTokens");
  await expect(open({ maxWait: Number.NaN })).rejects.toThrow("prefixStore.maxWait");
  await expect(open({}, { prefixCache: false })).rejects.toThrow(
    "Cannot use prefixStore: prefixCache is false",
  );
});
