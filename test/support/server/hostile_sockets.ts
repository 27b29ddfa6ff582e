/**
 * HTTP messages as strangers send them: odd methods, paths and headers around a body, by a seed.
 *
 * @module
 */
import { pick } from "./hostile_requests.ts";

const METHODS = ["PUT", "GET", "HEAD", "OPTIONS", "DELETE", "PATCH", "TRACE", "PROPFIND", "post"];

const TARGETS: readonly ((path: string) => string)[] = [
  (path) => `${path}?a=1&a=%20`,
  (path) => `${path}?%zz=%`,
  (path) => `${path}/`,
  (path) => `/${path}`,
  (path) => path.toUpperCase(),
  (path) => `/x/..${path}`,
  (path) => `${path}%00`,
  (path) => path.replace("e", "%65"),
  (path) => `http://other.test${path}`,
  (path) => `${path}#part`,
  (path) => `${path}?${"q".repeat(3000)}`,
  () => "*",
  () => "/v1/models/%E0%A4%A",
  () => "/v1/models/%2e%2e/x",
  () => "/v1/responses/%ff/cancel",
  () => "/flush_cache?timeout=%F0",
];

const HEADERS = [
  "content-type: text/plain",
  "content-type: application/json, application/json",
  "content-type:",
  "Content-Type: Application/JSON;charset=utf-16",
  "authorization: Bearer",
  "authorization: bearer \u00ff\u00fe",
  "authorization: Basic Og==",
  "origin: null",
  "origin: https://\u00e9.test",
  "origin: javascript:alert(1)",
  "access-control-request-headers: x, y,, z",
  "expect: 100-continue",
  "expect: something",
  "upgrade: websocket",
  "cookie: a=b; c",
  `x-long: ${"y".repeat(20_000)}`,
  "x-empty:",
  "host: other.test",
  "host: [::1",
  "host: a b",
  "host: 256.256.256.256:99999",
  "x-\u00e9: 1",
  "bad header",
  " folded: line",
  "accept-encoding: gzip;q=2, *;q=0",
  "content-encoding: gzip",
  "if-none-match: *",
  "range: bytes=0-1",
  "te: trailers",
  "x-http-method-override: DELETE",
];

/** Framing that does not fit the body, or contradicts itself. */
const LIES: readonly ((length: number) => string)[] = [
  (length) => `content-length: ${length + 5}`,
  (length) => `content-length: ${Math.max(0, length - 5)}`,
  () => "content-length: -1",
  () => "content-length: 1e3",
  () => "content-length: 99999999999999999999",
  (length) => `content-length: ${length}\r\ncontent-length: ${length + 1}`,
  (length) => `content-length: ${length}\r\ntransfer-encoding: chunked`,
  () => "transfer-encoding: gzip",
  () => "transfer-encoding: chunked, identity",
  () => "x-no-framing: 1",
];

export interface HostileMessage {
  readonly bytes: Uint8Array;
  /** Whether the server may wait for more of it. */
  readonly isTorn: boolean;
}

/** A request with this body, more or less. */
export function hostileMessage(path: string, body: string, random: () => number): HostileMessage {
  const method = random() < 0.9 ? "POST" : pick(METHODS, random);
  const target = random() < 0.9 ? path : pick(TARGETS, random)(path);
  const version = random() < 0.99 ? "HTTP/1.1" : pick(["HTTP/1.0", "HTTP/9.9", "JUNK"], random);
  const headers = ["host: wisp.test", "content-type: application/json", "connection: close"];
  if (random() < 0.02) headers.splice(Math.floor(random() * 3), 1);
  while (random() < 0.15) {
    headers.splice(Math.floor(random() * headers.length), 0, pick(HEADERS, random));
  }
  const content = Buffer.from(body, random() < 0.98 ? "utf8" : "utf16le");
  const isLie = random() < 0.03;
  const isChunked = !isLie && random() < 0.3;
  if (isLie) headers.push(pick(LIES, random)(content.length));
  else headers.push(isChunked ? "transfer-encoding: chunked" : `content-length: ${content.length}`);
  const head = Buffer.from(
    `${method} ${target} ${version}\r\n${headers.join("\r\n")}\r\n\r\n`,
    "latin1",
  );
  const bytes = Buffer.concat([head, ...(isChunked ? chunks(content, random) : [content])]);
  const isCut = random() < 0.03;
  const isKept = !headers.includes("connection: close");
  return {
    bytes: isCut ? bytes.subarray(0, Math.floor(random() * bytes.length)) : bytes,
    isTorn: isCut || isLie || isKept,
  };
}

function chunks(content: Buffer, random: () => number): Buffer[] {
  const written: Buffer[] = [];
  for (let start = 0; start < content.length; ) {
    const length = 1 + Math.floor(random() * (content.length - start));
    const head = `${length.toString(16)}${random() < 0.1 ? ";name=value" : ""}\r\n`;
    written.push(Buffer.from(head), content.subarray(start, start + length), Buffer.from("\r\n"));
    start += length;
  }
  return [...written, Buffer.from("0\r\n\r\n")];
}
