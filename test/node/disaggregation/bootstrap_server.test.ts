/** The port where a prefill server meets decode servers, before strangers. */
import { connect, type Socket } from "node:net";
import { expect, test } from "vitest";
import { listenForDecode } from "../../../src/node/disaggregation/bootstrap_server.ts";

/** A socket that asks for pages as a web page would, and what it was answered. */
async function stranger(port: number): Promise<{ socket: Socket; answer: string }> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const lines = ["GET /pages HTTP/1.1", "host: a", "origin: http://a", "connection: upgrade"];
  socket.write(`${[...lines, "upgrade: websocket"].join("\r\n")}\r\n\r\n`);
  const answer = await new Promise<string>((resolve) => {
    socket.once("data", (data) => resolve(data.toString()));
  });
  socket.on("error", () => {});
  return { socket, answer };
}

test("a stranger is refused, may reset its connection or keep its half of it, and keeps nothing open", async () => {
  const accept = () => expect.unreachable();
  const server = await listenForDecode({ host: "127.0.0.1", port: 0, takesPages: false, accept });
  const reset = await stranger(server.port);
  reset.socket.resetAndDestroy();
  const { socket, answer } = await stranger(server.port);
  expect(answer).toMatch(/^HTTP\/1.1 403 /);
  // It says nothing, and does not end.
  const idle = connect({ port: server.port, host: "127.0.0.1", allowHalfOpen: true });
  await new Promise((resolve) => idle.once("connect", resolve));
  await server.close();
  for (const one of [socket, idle]) one.destroy();
});
