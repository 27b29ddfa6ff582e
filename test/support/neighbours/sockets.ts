/**
 * Hostile clients that do not keep to HTTP, or keep a server waiting with it.
 *
 * @module
 */
import { gzipSync } from "node:zlib";
import type { Connection, Kind } from "./neighbours.ts";
import { chunked, head, many, post, posted } from "./raw_requests.ts";

const SHORT = { text: "a", sampling_params: { max_new_tokens: 2 } };
const JSON_TYPE = { "content-type": "application/json" };

const WEBSOCKET = head("GET", "/v1/realtime", {
  connection: "Upgrade",
  upgrade: "websocket",
  "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
  "sec-websocket-version": "13",
});

/** Of a body that says it has so many bytes more than come. */
function lying(more: number): Connection {
  const content = JSON.stringify(SHORT);
  const length = { ...JSON_TYPE, "content-length": String(content.length + more) };
  return {
    send: [{ bytes: head("POST", "/generate", length) + content }],
    ending: more > 0 ? "stay" : "read",
  };
}

function zipped(bytes: number): Connection {
  const body = gzipSync(Buffer.concat([Buffer.from('{"text":"'), Buffer.alloc(bytes, 0x61)]));
  return {
    send: [{ bytes: posted("/generate", body, { "content-encoding": "gzip" }) }],
    ending: "read",
  };
}

/** Headers of 100,000 lines, sent in pieces. */
function headers(count: number): Connection {
  const start = head("POST", "/generate", { ...JSON_TYPE, "content-length": "0" }).slice(0, -2);
  return {
    send: [{ bytes: start }, { bytes: "x: y\r\n", times: count }, { bytes: "\r\n" }],
    ending: "read",
  };
}

export const SOCKETS: readonly Kind[] = [
  { name: "100,000 headers", connections: many(2, () => headers(100_000)) },
  {
    name: "headers that never end",
    connections: many(64, () => ({
      send: [{ bytes: "POST /generate HTTP/1.1\r\nhost: x\r\nx-slow: " }],
      ending: "stay",
    })),
  },
  {
    name: "connections that say nothing",
    connections: many(300, () => ({ send: [], ending: "stay" })),
  },
  {
    name: "bodies that never end",
    connections: many(16, () => {
      const { start, chunk } = chunked("/generate", `"${"a".repeat(4000)}",`);
      const first = { bytes: chunked("/generate", '{"text":[').chunk.bytes };
      return { send: [start, first, { ...chunk, times: 50 }], ending: "stay" };
    }),
  },
  {
    name: "a chunk for each byte",
    atOnce: 1,
    connections: many(2, () => {
      const { start, chunk } = chunked("/generate", " ");
      return { send: [start, { ...chunk, times: 10_000 }, { bytes: "0\r\n\r\n" }], ending: "read" };
    }),
  },
  {
    name: "wrong lengths of bodies",
    connections: [lying(1), lying(1e6), lying(-1), lying(-20), lying(1e15)],
  },
  {
    name: "gzip bombs",
    isLong: true,
    connections: [zipped(100_000_000), zipped(60_000_000), zipped(2_000_000)],
  },
  {
    name: "bodies of 60 MiB",
    isLong: true,
    connections: many(3, () => {
      const lists = ",[]".repeat(2 ** 14);
      const length = { ...JSON_TYPE, "content-length": String(1280 * lists.length + 4) };
      return {
        send: [
          { bytes: `${head("POST", "/generate", length)}[[]` },
          { bytes: lists, times: 1280 },
          { bytes: "]" },
        ],
        ending: "read",
      };
    }),
    atOnce: 3,
  },
  {
    name: "deep JSON",
    isLong: true,
    connections: [
      post("/generate", "[".repeat(100_000)),
      post("/generate", "[".repeat(1_000_000) + "]".repeat(1_000_000)),
      post("/generate", `{"a":`.repeat(200_000)),
      post("/v1/chat/completions", `{"messages":${"[".repeat(50_000)}${"]".repeat(50_000)}}`),
    ],
  },
  {
    name: "pipelined requests",
    connections: many(4, (client) => ({
      send: [
        {
          bytes: Buffer.concat(
            many(25, (i) =>
              posted(
                "/generate",
                { ...SHORT, rid: `${client} ${i}` },
                { connection: "keep-alive" },
              ),
            ),
          ),
        },
      ],
      ending: "stay",
    })),
  },
  {
    name: "connections closed by one half",
    connections: many(24, (i) => {
      const body = { ...SHORT, stream: i % 2 === 0, sampling_params: { max_new_tokens: 32 } };
      return post("/generate", body, "close one half");
    }),
  },
  {
    name: "upgrades to WebSocket and HTTP/2",
    connections: many(32, (i) => ({
      send: [{ bytes: i % 2 === 0 ? WEBSOCKET : "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" }],
      ending: "leave at the first bytes",
    })),
  },
  {
    name: "odd methods and targets",
    connections: ["TRACE", "CONNECT", "OPTIONS", "PROPFIND", "DELETE", "BREW", "get"].flatMap(
      (method) =>
        ["/generate", "*", "/../../etc/passwd", `/${"a".repeat(8000)}`, "/%00%ff", "//x//"].map(
          (path): Connection => ({ send: [{ bytes: head(method, path) }], ending: "read" }),
        ),
    ),
  },
  {
    name: "bodies that are announced and do not come",
    connections: many(32, () => {
      const announced = { ...JSON_TYPE, expect: "100-continue", "content-length": "1000" };
      return { send: [{ bytes: head("POST", "/generate", announced) }], ending: "stay" };
    }),
  },
  {
    name: "bytes that are no HTTP",
    connections: many(32, (i) => ({
      send: [{ bytes: Buffer.from(many(4000, (at) => (at * 31 + i * 17) % 256)) }],
      ending: "read",
    })),
  },
];
