/**
 * The WebSockets by which pages of browsers become decode nodes of a router.
 *
 * @module
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { WebSocketServer } from "ws";
import type { DecodeNodes } from "../../router/nodes/decode_nodes.ts";
import { MAX_NODE_MESSAGE_BYTES } from "../../router/nodes/limits.ts";
import { NODE_PATH } from "../../router/routes/nodes.ts";
import { WebSocketChannel } from "../disaggregation/web_socket_channel.ts";
import type { App } from "../serve/http.ts";

/** By which the router says that a request may leave HTTP, and that nothing else is wrong with it. */
const MAY_UPGRADE = 426;

/** Takes connections that ask for `/join_as_decode_node` and that the router's doors let in. */
export function nodeSockets(app: App, nodes: DecodeNodes) {
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_NODE_MESSAGE_BYTES,
    perMessageDeflate: false,
  });
  return (incoming: IncomingMessage, socket: Socket, head: Buffer): void => {
    // Nothing else listens to a socket that has left HTTP.
    socket.on("error", () => {});
    void statusOf(app, incoming).then((status) => {
      if (status !== MAY_UPGRADE) {
        socket.end(`HTTP/1.1 ${status} Refused\r\nconnection: close\r\n\r\n`, () =>
          socket.destroy(),
        );
        return;
      }
      socket.setNoDelay(true);
      sockets.handleUpgrade(incoming, socket, head, (client) => {
        nodes.accept(new WebSocketChannel(client));
      });
    });
  };
}

/** What the router answers to the request without its wish. */
async function statusOf(
  app: App,
  { url = "/", headers, method }: IncomingMessage,
): Promise<number> {
  const path = url.split("?", 1)[0];
  if (path !== NODE_PATH || method !== "GET") return 400;
  const sent = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    if (typeof value === "string") sent.set(name, value);
  }
  try {
    const request = new Request(`http://router${NODE_PATH}`, { headers: sent });
    return (await app.fetch(request)).status;
  } catch {
    return 400;
  }
}
