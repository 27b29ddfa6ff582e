/** What clients take of the sockets before a request of theirs is there. */
import type { Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import { SOCKET_LIMITS, type SocketLimits } from "../../../src/node/serve/socket_limits.ts";
import { exchange, open } from "../../support/server/raw_client.ts";

let server: RunningServer;
let port: number;
let asked: Request[];
afterEach(() => server.close(0));

async function listen(
  limits: Partial<SocketLimits>,
  answer: (request: Request) => Response | Promise<Response> = () => new Response("ok"),
): Promise<void> {
  asked = [];
  const app = {
    fetch: (request: Request) => {
      asked.push(request);
      return answer(request);
    },
  };
  server = await serve(app, { host: "127.0.0.1", port: 0, limits });
  port = Number(new URL(server.url).port);
}

/** What the server has sent until it closed the connection. */
function received(socket: Socket): Promise<string> {
  let text = "";
  socket.on("data", (data) => {
    text += data.toString("latin1");
  });
  return new Promise((resolve) => socket.once("close", () => resolve(text)));
}

const GET = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
const SOON = { lookTime: 10 };

test.each([
  ["says nothing", ""],
  ["stops in its headers", "POST / HTTP/1.1\r\nhost: x\r\nx-more:"],
])("a client that %s is told so and left", async (_, text) => {
  await listen({ ...SOON, headersTime: 40 });
  const socket = await open(port);
  const answer = received(socket);
  socket.write(text);
  expect(await answer).toMatch(/^HTTP\/1\.1 408 /);
  expect(asked).toEqual([]);
});

test("a client that stops in its body is left, and the app learns of it", async () => {
  let learned = () => {};
  const left = new Promise<void>((resolve) => {
    learned = resolve;
  });
  await listen({ ...SOON, headersTime: 40, requestTime: 60 }, async (request) => {
    request.signal.addEventListener("abort", learned);
    return new Response(await request.text());
  });
  const socket = await open(port);
  const answer = received(socket);
  socket.write("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{");
  await left;
  await answer;
  expect(asked).toHaveLength(1);
});

test("an answer that takes longer than a request may is none of that", async () => {
  let goOn = () => {};
  await listen({ ...SOON, headersTime: 40, requestTime: 60, idleTime: 20 }, async () => {
    // Another connection's end shows that both times are over.
    await new Promise<void>((resolve) => {
      goOn = resolve;
    });
    return new Response("late");
  });
  const socket = await open(port);
  const answer = received(socket);
  socket.write(GET);
  await received(await open(port));
  goOn();
  expect(await answer).toMatch(/^HTTP\/1\.1 200 /);
});

test("of the requests that come at once on one connection, it begins no more than it may", async () => {
  await listen({ pipelined: 16 }, () => new Promise<Response>(() => {}));
  const socket = await open(port);
  const answer = received(socket);
  socket.write(GET.repeat(3000));
  expect(await answer).toBe("");
  expect(asked).toHaveLength(16);
});

test("one after the other a connection may ask as often as it likes", async () => {
  await listen({});
  const last = GET.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
  const pieces = [...Array.from({ length: 100 }, () => Buffer.from(GET)), Buffer.from(last)];
  const { text } = await exchange(port, pieces);
  expect(text.match(/HTTP\/1\.1 200/g)).toHaveLength(101);
});

test("connections beyond the limit are closed, those that are there stay", async () => {
  await listen({ connections: 2 });
  const [first, second] = [await open(port), await open(port)];
  const third = await open(port);
  expect(await received(third)).toBe("");
  const answer = received(first!);
  first!.write(GET.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"));
  expect(await answer).toMatch(/^HTTP\/1\.1 200/);
  // The place is free again.
  expect((await exchange(port, [Buffer.from(GET)], 1000)).status).toBe(200);
  second!.destroy();
});

test("a hundred thousand headers are refused by their size, and those below it all count", async () => {
  await listen({}, (request) => new Response(request.headers.get("x-last")));
  const begin = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
  const refused = await exchange(port, [Buffer.from(`${begin}${"a:b\r\n".repeat(1e5)}\r\n`)]);
  expect(refused.status).toBe(431);
  const most = Math.floor((SOCKET_LIMITS.headerBytes - 200) / 5);
  expect(most).toBeGreaterThan(2000);
  const all = `${begin}${"a:b\r\n".repeat(most)}x-last: there\r\n\r\n`;
  expect((await exchange(port, [Buffer.from(all)])).text).toMatch(/there$/);
});
