/**
 * Requests as bytes of a connection that carries nothing else.
 *
 * @module
 */
import type { Connection, Ending, Piece } from "./neighbours.ts";

export type Headers = Readonly<Record<string, string>>;

/** The head of a request, its end included. */
export function head(method: string, path: string, headers: Headers = {}): string {
  const lines = Object.entries({ host: "localhost", connection: "close", ...headers });
  return `${method} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`;
}

/** A whole request of JSON; a body that is text stays as it is. */
export function posted(path: string, body: unknown, headers: Headers = {}): Uint8Array {
  const content = Buffer.from(
    typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body),
  );
  const length = { "content-length": String(content.length) };
  const all = { "content-type": "application/json", ...length, ...headers };
  return Buffer.concat([Buffer.from(head("POST", path, all)), content]);
}

/** A connection with one request. */
export function post(path: string, body: unknown, then: Ending = "read"): Connection {
  return { send: [{ bytes: posted(path, body) }], ending: then };
}

export function get(path: string, headers: Headers = {}): Connection {
  return { send: [{ bytes: head("GET", path, headers) }], ending: "read" };
}

/** The start of a chunked request, and a chunk that may follow any number of times. */
export function chunked(
  path: string,
  content: string,
): { readonly start: Piece; readonly chunk: Piece } {
  const type = { "content-type": "application/json", "transfer-encoding": "chunked" };
  const length = Buffer.byteLength(content).toString(16);
  return {
    start: { bytes: head("POST", path, type) },
    chunk: { bytes: `${length}\r\n${content}\r\n` },
  };
}

/** One of each of `count` numbers. */
export function many<T>(count: number, make: (i: number) => T): T[] {
  return Array.from({ length: count }, (_, i) => make(i));
}
