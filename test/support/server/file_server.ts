/**
 * A plain HTTP server for files, with range requests and with the faults that tests ask for.
 *
 * @module
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

export interface FileServerOptions {
  /** Ignores range requests, like the plainest of servers. Default false. */
  readonly withoutRanges?: boolean;
  /** Sent with every answer. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Answers in place of the server where it returns true. */
  readonly intercept?: (request: IncomingMessage, response: ServerResponse) => boolean;
}

export interface FileServer {
  /** Ends in a slash. */
  readonly url: string;
  /** Method, path and range of every request so far. */
  readonly requests: readonly string[];
  close(): Promise<void>;
}

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  css: "text/css",
  html: "text/html",
  js: "text/javascript",
  mjs: "text/javascript",
  json: "application/json",
  wasm: "application/wasm",
};

/** Serves `files`, name to bytes, at a free port of 127.0.0.1. */
export async function serveFiles(
  files: ReadonlyMap<string, Uint8Array>,
  options: FileServerOptions = {},
): Promise<FileServer> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const { method = "", url = "" } = request;
    const name = decodeURIComponent(url.replace(/\?.*$/, "").slice(1));
    const range = options.withoutRanges ? undefined : request.headers.range;
    requests.push(`${method} ${url}${range === undefined ? "" : ` ${range}`}`);
    for (const [key, value] of Object.entries(options.headers ?? {})) {
      response.setHeader(key, value);
    }
    if (options.intercept?.(request, response)) return;
    const bytes = files.get(name);
    if (bytes === undefined) {
      response.writeHead(404).end("not found");
      return;
    }
    const type = MEDIA_TYPES[name.replace(/^.*\./, "")] ?? "application/octet-stream";
    response.setHeader("content-type", type);
    answer(response, { bytes, range, bodyless: method === "HEAD" });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Every file in `folder`, by its path in there. */
export function filesIn(folder: string): ReadonlyMap<string, Uint8Array> {
  if (!existsSync(folder)) throw new Error(`Cannot serve ${folder}: there is no such folder`);
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return new Map(
    entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [path.slice(folder.length).replace(/^\//, ""), readFileSync(path)]),
  );
}

interface Piece {
  readonly bytes: Uint8Array;
  readonly range: string | undefined;
  readonly bodyless: boolean;
}

function answer(response: ServerResponse, { bytes, range, bodyless }: Piece): void {
  const match = /^bytes=(\d+)-(\d*)$/.exec(range ?? "");
  const start = Number(match?.[1] ?? 0);
  const last = match?.[2] ? Number(match[2]) : bytes.length - 1;
  const end = Math.min(last + 1, bytes.length);
  if (match !== null && start >= bytes.length) {
    response.writeHead(416, { "content-range": `bytes */${bytes.length}` }).end();
    return;
  }
  const headers = {
    "content-length": end - start,
    ...(match !== null && { "content-range": `bytes ${start}-${end - 1}/${bytes.length}` }),
  };
  response.writeHead(match === null ? 200 : 206, headers);
  response.end(bodyless ? undefined : bytes.subarray(start, end));
}
