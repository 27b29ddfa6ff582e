/** Clients that send or read more slowly than the server could, or stop at all. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { exchange, open } from "../../support/server/raw_client.ts";
import { until } from "../../support/until.ts";

/** Each in one event. */
const PIECE = "x".repeat(64 * 1024);
const PIECES = 600;

let engine: ScriptedEngine;
let server: RunningServer;
let port: number;
/** Pieces that the engine was asked for. */
let asked: number;

beforeEach(async () => {
  asked = 0;
  engine = new ScriptedEngine({
    script: ({ prompt }) =>
      prompt === "long"
        ? {
            pieces: new Array<string>(PIECES).fill(PIECE),
            gate: async () => {
              asked++;
            },
          }
        : { pieces: ["yes"] },
  });
  server = await serve(createApp(engine), { host: "127.0.0.1", port: 0 });
  port = Number(new URL(server.url).port);
});
afterEach(() => server.close(0));

function message(path: string, body: object): Buffer {
  const content = Buffer.from(JSON.stringify(body));
  const head = [
    `POST ${path} HTTP/1.1`,
    "host: wisp.test",
    "content-type: application/json",
    `content-length: ${content.length}`,
    "connection: close",
  ];
  return Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`), content]);
}

const LONG = message("/v1/completions", { prompt: "long", stream: true });
const pause = (milliseconds: number) => new Promise((go) => setTimeout(go, milliseconds));

/** Waits until the server has stopped asking the engine for more. */
async function untilFull(): Promise<void> {
  await until(() => expect(asked).toBeGreaterThan(0));
  for (let before = -1; before !== asked; ) {
    before = asked;
    await pause(150);
  }
}

test("a request that comes byte by byte is answered, and holds up no other request", async () => {
  const bytes = message("/generate", { text: "日本語" });
  const slow = exchange(
    port,
    Array.from(bytes, (_, i) => bytes.subarray(i, i + 1)),
  );
  const quick = await exchange(port, [message("/generate", { text: "a" })]);
  expect(quick.status).toBe(200);
  const { status, text } = await slow;
  expect(status).toBe(200);
  expect(text).toContain('"text":"yes"');
  expect(engine.requests.map(({ prompt }) => prompt)).toContain("日本語");
});

test("a client that stops sending gets nothing started", async () => {
  const bytes = message("/generate", { text: "a" });
  const { text } = await exchange(port, [bytes.subarray(0, bytes.length - 1)], 100);
  expect(text).toBe("");
  expect(engine.requests).toEqual([]);
});

test("a client that stops reading stops its stream, and gets the rest when it reads on", async () => {
  const socket = await open(port);
  socket.pause();
  socket.write(LONG);
  await untilFull();
  // What the two ends of a connection hold, and no more.
  expect(asked).toBeLessThan(PIECES / 2);
  expect((await exchange(port, [message("/generate", { text: "a" })])).status).toBe(200);

  let length = 0;
  let tail = "";
  socket.on("data", (data) => {
    length += data.length;
    tail = (tail + data.toString("latin1")).slice(-200);
  });
  socket.resume();
  await new Promise((resolve) => socket.once("close", resolve));
  expect(length).toBeGreaterThan(PIECES * PIECE.length);
  expect(tail).toContain("data: [DONE]");
  expect(engine.cutShort).toEqual([]);
});

test("a client that stops reading and leaves stops its request", async () => {
  const socket = await open(port);
  socket.pause();
  socket.write(LONG);
  await untilFull();
  expect(engine.running).toHaveLength(1);
  socket.destroy();
  await until(() => expect(engine.running).toEqual([]));
  expect(engine.cutShort).toHaveLength(1);
  expect(asked).toBeLessThan(PIECES / 2);
});

test("a client that stays and reads no more is left, and its request ends", async () => {
  const limits = { sendTime: 100, lookTime: 10 };
  const impatient = await serve(createApp(engine), { host: "127.0.0.1", port: 0, limits });
  try {
    const socket = await open(Number(new URL(impatient.url).port));
    socket.pause();
    socket.write(LONG);
    await until(() => expect(engine.cutShort).toHaveLength(1));
    expect(engine.running).toEqual([]);
    expect(asked).toBeLessThan(PIECES / 2);
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.on("error", () => {}).resume();
    await closed;
  } finally {
    await impatient.close(0);
  }
});

test("a client that takes one large answer slowly gets all of it", async () => {
  const limits = { sendTime: 1000, lookTime: 50 };
  const bytes = 32 * 2 ** 20;
  const app = { fetch: () => new Response(Buffer.alloc(bytes, 0x78)) };
  const other = await serve(app, { host: "127.0.0.1", port: 0, limits });
  try {
    const socket = await open(Number(new URL(other.url).port));
    let length = 0;
    socket.on("data", (data) => {
      length += data.length;
      socket.pause();
      // It reads at its own pace: several times as long as a client may take nothing.
      setTimeout(() => socket.resume(), 8);
    });
    socket.write(message("/", {}));
    await new Promise((resolve) => socket.once("close", resolve));
    expect(length).toBeGreaterThan(bytes);
  } finally {
    await other.close(0);
  }
});

test("a connection serves one request after another, and two at once in their order", async () => {
  const first = message("/generate", { text: "a", rid: "first" }).toString("latin1");
  const kept = first.replace("connection: close\r\n", "");
  const socket = await open(port);
  let text = "";
  socket.on("data", (data) => {
    text += data.toString("latin1");
  });
  socket.write(kept);
  await until(() => expect(text).toContain('"id":"first"'));
  expect(text).toMatch(/\r\nkeep-alive: timeout=5\r\n/i);
  socket.write(kept.replace("first", "again") + first.replace("first", "other"));
  await new Promise((resolve) => socket.once("close", resolve));
  const order = ["first", "again", "other"].map((id) => text.indexOf(`"id":"${id}"`));
  expect(order).not.toContain(-1);
  expect(order).toEqual(order.toSorted((x, y) => x - y));
  expect(text.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(3);
});
