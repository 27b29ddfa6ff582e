/** What is no HTTP at all is answered in the form of all errors, and its connection closed. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import { bothForms } from "../../support/server/error_bodies.ts";
import { exchange, open } from "../../support/server/raw_client.ts";
import { until } from "../../support/until.ts";

let server: RunningServer;
let port: number;

beforeEach(async () => {
  server = await serve({ fetch: () => new Response("ok") }, { host: "127.0.0.1", port: 0 });
  port = Number(new URL(server.url).port);
});
afterEach(() => server.close());

const send = (text: string) => exchange(port, [Buffer.from(text, "latin1")]);

test.each([
  ["a word", "hello\r\n\r\n", 400, "Bad Request"],
  ["a lower-case method", "get / HTTP/1.1\r\nhost: x\r\n\r\n", 400, "Bad Request"],
  ["a header without a name", "GET / HTTP/1.1\r\nhost: x\r\n: y\r\n\r\n", 400, "Bad Request"],
  [
    "two lengths",
    "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
    400,
    "Bad Request",
  ],
  [
    "a header without end",
    `GET / HTTP/1.1\r\nhost: x\r\nx: ${"y".repeat(40_000)}\r\n\r\n`,
    431,
    "Request Header Fields Too Large",
  ],
])("%s", async (_, message, status, type) => {
  const { status: answered, text } = await send(message);
  expect(answered).toBe(status);
  const [head, body] = text.split("\r\n\r\n") as [string, string];
  expect(head).toContain("connection: close");
  expect(head).toMatch(/\r\nx-request-id: [\da-f-]{36}\r\n/);
  expect(head).toContain(`content-length: ${body.length}`);
  expect(JSON.parse(body)).toEqual(
    bothForms({
      message: expect.stringMatching(/^Cannot read the (request|headers): /),
      type,
      status,
    }),
  );
});

test.each([
  ["a host with a space", "GET / HTTP/1.1\r\nhost: a b\r\n\r\n"],
  ["a host with a path", "GET / HTTP/1.1\r\nhost: a/b\r\n\r\n"],
  ["an address that is none", "GET http://[::bad/ HTTP/1.1\r\nhost: x\r\n\r\n"],
])("%s", async (_, message) => {
  const { status, text } = await send(message.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"));
  expect(status).toBe(400);
  const [head, body] = text.split("\r\n\r\n") as [string, string];
  expect(head).toMatch(/\r\nx-request-id: [\da-f-]{36}(\r\n|$)/i);
  expect(body).toContain('"message":"Cannot read the request: ');
});

test("behind an answered request, on the same connection, too", async () => {
  const good = Buffer.from("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  const socket = await open(port);
  let text = "";
  socket.on("data", (data) => {
    text += data.toString("latin1");
  });
  socket.write(good);
  await until(() => expect(text).toMatch(/\r\n\r\nok$/));
  socket.write("hello\r\n\r\n");
  await new Promise((resolve) => socket.once("close", resolve));
  expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 400"]);
});
