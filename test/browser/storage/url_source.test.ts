import type { IncomingMessage, ServerResponse } from "node:http";
import { afterEach, expect, test } from "vitest";
import { type UrlSourceOptions, urlSource } from "../../../src/browser/download/url_source.ts";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { checkpointFailure } from "../../support/checkpoints/checkpoint_failure.ts";
import { type Collector, spec, TENSORS } from "../../support/checkpoints/collect_weights.ts";
import {
  checkpointFiles,
  encodeTensor,
  jsonFile,
} from "../../support/checkpoints/write_checkpoint.ts";
import {
  type FileServer,
  type FileServerOptions,
  serveFiles,
} from "../../support/server/file_server.ts";

const SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] as const;
const TEXTS = {
  "tokenizer.json": jsonFile("tokens"),
  "chat_template.jinja": jsonFile("template"),
};

const open: FileServer[] = [];

afterEach(async () => {
  for (const server of open.splice(0)) await server.close();
});

interface Serving extends FileServerOptions {
  readonly shards?: number;
  /** Files in place of those of the checkpoint; undefined for none. */
  readonly files?: Readonly<Record<string, Uint8Array | undefined>>;
  readonly source?: UrlSourceOptions;
  /** Of the folder. */
  readonly path?: string;
}

async function serving(
  options: Serving = {},
): Promise<FileServer & { source(): Promise<WeightSource> }> {
  const { shards = 2, files: changed = {}, source, path = "", ...rest } = options;
  const written = checkpointFiles({ tensors: TENSORS, config: {}, shards, files: TEXTS });
  const files = new Map<string, Uint8Array>();
  for (const [name, bytes] of Object.entries({ ...written, ...changed })) {
    if (bytes !== undefined) files.set(path + name, bytes);
  }
  const server = await serveFiles(files, rest);
  open.push(server);
  return { ...server, source: () => urlSource(`${server.url}${path}`, source) };
}

async function failure(work: Promise<unknown>): Promise<string> {
  return (await checkpointFailure(work)).message;
}

/** Answers requests for `file` with a range (or without) by `respond`. */
function onlyFor(
  file: string,
  respond: (response: ServerResponse, request: IncomingMessage) => void,
): NonNullable<FileServerOptions["intercept"]> {
  return (request, response) => {
    if (!request.url!.startsWith(`/${file}`)) return false;
    respond(response, request);
    return true;
  };
}

test.each([1, 2])("urlSource reads a checkpoint of %i file(s)", async (shards) => {
  const server = await serving({ shards });
  const source = await server.source();
  expect(source.name).toBe(server.url);
  const names = (await source.list()).map(({ name }) => name);
  const weights =
    shards === 1 ? ["model.safetensors"] : ["model.safetensors.index.json", ...SHARDS];
  expect([...names].sort()).toEqual(["config.json", ...Object.keys(TEXTS), ...weights].sort());
  const checkpoint = await Checkpoint.open(source);
  const specs = TENSORS.map((tensor) => spec(tensor));
  await checkpoint.load(specs, { chunkBytes: 16 });
  for (const [i, { values, dtype, name }] of TENSORS.entries()) {
    const collector = specs[i]!.destination as Collector;
    expect(collector.bytes(), name).toEqual(encodeTensor(values, dtype));
  }
});

test("urlSource asks for weights in ranges only, and for text files once", async () => {
  const server = await serving();
  const source = await server.source();
  await source.read("config.json", 0, 2);
  await source.read(SHARDS[0], 3, 5);
  const { size } = (await source.list()).find(({ name }) => name === SHARDS[0])!;
  expect(server.requests.at(-1)).toBe(`GET /${SHARDS[0]} bytes=0-${size - 1}`);
  const before = server.requests.length;
  await source.read(SHARDS[0], 0, size);
  expect(server.requests, "small reads come from what is here").toHaveLength(before);
  expect(server.requests.filter((request) => request.includes("config.json"))).toHaveLength(5);
  const ranged = server.requests.filter((request) => request.includes(".safetensors "));
  expect(ranged.every((request) => request.includes("bytes="))).toBe(true);
});

test("urlSource takes a folder without a closing slash, a query and headers", async () => {
  const seen = new Set<unknown>();
  const server = await serving({
    path: "a model/",
    intercept: (request) => {
      seen.add(request.headers.authorization);
      return false;
    },
    source: { headers: { authorization: "Bearer key" } },
  });
  const options = { headers: { authorization: "Bearer key" } };
  const source = await urlSource(new URL(`${server.url}a model?key=1`), options);
  expect(await source.list()).toHaveLength(6);
  await source.read(SHARDS[1], 0, 1);
  expect(server.requests.every((request) => request.includes("/a%20model/"))).toBe(true);
  expect(server.requests.every((request) => request.includes("?key=1"))).toBe(true);
  expect([...seen]).toEqual(["Bearer key"]);
});

test("urlSource finds the size where Content-Range is hidden", async () => {
  const server = await serving({
    intercept: (_, response) => {
      const { writeHead } = response;
      response.writeHead = ((status: number, headers: Record<string, string>) => {
        const { "content-range": _hidden, ...shown } = headers ?? {};
        return writeHead.call(response, status, shown);
      }) as typeof writeHead;
      return false;
    },
  });
  const source = await server.source();
  const checkpoint = await Checkpoint.open(source);
  expect([...checkpoint.tensors.keys()].sort()).toEqual(TENSORS.map(({ name }) => name).sort());
});

test("urlSource does not take the length of an error page for that of a file", async () => {
  const server = await serving({
    intercept: onlyFor(SHARDS[0], (response, { method }) => {
      if (method === "HEAD") response.writeHead(405, { "content-length": "9" }).end();
      else response.writeHead(206, { "content-length": "8" }).end("12345678");
    }),
  });
  expect(await failure(server.source())).toContain("the server answers 405");
});

test("urlSource takes a page in place of a file for a missing file", async () => {
  const page = (response: ServerResponse) =>
    response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end("<html>");
  const server = await serving({ intercept: onlyFor("chat_template.jinja", page) });
  const names = (await (await server.source()).list()).map(({ name }) => name);
  expect(names).not.toContain("chat_template.jinja");
  expect(names).not.toContain("model.safetensors");
});

test("urlSource leaves out a missing shard, so that the checkpoint names it", async () => {
  const source = await (await serving({ files: { [SHARDS[1]]: undefined } })).source();
  await expect(Checkpoint.open(source)).rejects.toThrow(
    `weights not fully downloaded: missing ${SHARDS[1]}`,
  );
});

test("urlSource refuses a folder without config.json and names the address", async () => {
  const server = await serving({ files: { "config.json": undefined } });
  expect(await failure(server.source())).toBe(
    `Cannot load config.json: ${server.url} has no such file (404)`,
  );
});

test("urlSource refuses weights of a server without ranges", async () => {
  const server = await serving({ withoutRanges: true });
  expect(await failure(server.source())).toMatch(
    /^Cannot load model-0000\d-of-00002\.safetensors: the server ignores range requests/,
  );
});

test("urlSource names the file at which a server fails, or an index reaches elsewhere", async () => {
  const fails = (response: ServerResponse) => response.writeHead(500).end();
  for (const file of ["tokenizer.json", SHARDS[0]]) {
    const server = await serving({ intercept: onlyFor(file, fails) });
    expect(await failure(server.source())).toBe(
      `Cannot load ${file}: the server answers 500 Internal Server Error`,
    );
  }
  const index = jsonFile({ weight_map: { a: "../b.safetensors" } });
  const outside = await serving({ files: { "model.safetensors.index.json": index } });
  expect(await failure(outside.source())).toBe(
    "Cannot load ../b.safetensors: its name is not a plain file name",
  );
  const server = await serving();
  await server.close();
  expect(await failure(server.source())).toContain("cannot be reached");
});

test("read refuses what lies behind the end and files that are not there", async () => {
  const source = await (await serving()).source();
  const { size } = (await source.list()).find(({ name }) => name === SHARDS[0])!;
  expect((await source.read(SHARDS[0], size, 0)).length).toBe(0);
  expect(await failure(source.read(SHARDS[0], size - 1, 2))).toBe(
    `Cannot load ${SHARDS[0]}: it ends at byte ${size}, bytes ${size - 1} to ${size + 1} are needed`,
  );
  expect(await failure(source.read("none", 0, 1))).toBe("Cannot load none: there is no such file");
});

test.each<[string, (response: ServerResponse) => void]>([
  [
    "the transfer broke off",
    (response) => {
      response.writeHead(206, { "content-length": 8 });
      response.write("abc", () => response.destroy());
    },
  ],
  ["the server sent 3 bytes, 100 are needed", (response) => response.writeHead(206).end("abc")],
  [
    "the server sent 101 bytes, 100 are needed",
    (response) => response.writeHead(206).end("a".repeat(101)),
  ],
  ["the server ignores range requests", (response) => response.writeHead(200).end("abcdefgh")],
  ["the server answers 503", (response) => response.writeHead(503).end()],
  [
    "the server's file is not the one that was opened",
    (response) => response.writeHead(206, { "content-range": "bytes 8-15/16" }).end("abcdefgh"),
  ],
])("read says when %s", async (problem, respond) => {
  const intercept = onlyFor(SHARDS[0], (response, request) =>
    request.headers.range === "bytes=0-7"
      ? response.writeHead(206, { "content-range": "bytes 0-7/100" }).end("12345678")
      : respond(response),
  );
  const source = await (await serving({ intercept })).source();
  expect(await failure(source.read(SHARDS[0], 8, 8))).toContain(
    `Cannot load ${SHARDS[0]}: ${problem}`,
  );
});

test("the signal ends requests with its own reason", async () => {
  const controller = new AbortController();
  const { signal } = controller;
  const source = await (await serving({ source: { signal } })).source();
  controller.abort();
  await expect(source.read(SHARDS[0], 0, 1)).rejects.toMatchObject({ name: "AbortError" });
  await expect(urlSource(source.name, { signal })).rejects.toMatchObject({ name: "AbortError" });
});
