/**
 * What a router and a decode node say to each other over the node's WebSocket, as JSON texts.
 *
 * | who | says | when |
 * |---|---|---|
 * | node | `join` | it has connected |
 * | router | `joined` or `refused` | the same |
 * | router | `request` | it is to answer; its body comes next, as bytes |
 * | node | `head`, then bytes, then `end` | it answers |
 * | node | `tokens` | its engine has more of an answer; before the bytes that tell them |
 * | node | `failed` | it cannot go on |
 * | router | `taken` | so many bytes of the answer have left the router |
 * | router | `abort` | the answer is not wanted any more |
 * | router | `abort_request` | a client ends the request of this id, or all; what there is of it is answered |
 * | node | `leave` | it takes no more requests, and goes |
 * | both | `beat` | nothing else is to be said |
 *
 * Bytes begin with the number of their request, 32 bits, little endian.
 *
 * @module
 */
import type { MessageFields } from "../../disaggregation/messages.ts";

export const NODE_VERSION = 2;

export type NodeMessage =
  | { readonly type: "join"; readonly version: number; readonly token: string }
  | {
      readonly type: "head";
      readonly id: number;
      readonly status: number;
      readonly headers: Readonly<Record<string, unknown>>;
    }
  | {
      readonly type: "tokens";
      readonly id: number;
      /** Which of the request's answers. */
      readonly answer: number;
      readonly tokens: readonly unknown[];
    }
  | { readonly type: "end"; readonly id: number }
  | { readonly type: "failed"; readonly id: number; readonly problem: string }
  | { readonly type: "leave" }
  | { readonly type: "beat" };

export type GatewayMessage =
  | { readonly type: "joined"; readonly node: string }
  | { readonly type: "refused"; readonly problem: string }
  | {
      readonly type: "request";
      readonly id: number;
      readonly method: string;
      /** With its query. */
      readonly path: string;
      readonly headers: Readonly<Record<string, unknown>>;
      /** Where its pages come from. */
      readonly host: string;
      readonly port: number;
      readonly room: string;
    }
  | { readonly type: "taken"; readonly id: number; readonly bytes: number }
  | { readonly type: "abort"; readonly id: number }
  | { readonly type: "abort_request"; readonly rid?: string | undefined }
  | { readonly type: "beat" };

export const NODE_FIELDS: MessageFields = {
  join: { version: "count", token: "text" },
  head: { id: "count", status: "count", headers: "object" },
  tokens: { id: "count", answer: "count", tokens: "list" },
  end: { id: "count" },
  failed: { id: "count", problem: "text" },
  leave: {},
  beat: {},
};

export const GATEWAY_FIELDS: MessageFields = {
  joined: { node: "text" },
  refused: { problem: "text" },
  request: {
    id: "count",
    method: "text",
    path: "text",
    headers: "object",
    host: "text",
    port: "count",
    room: "text",
  },
  taken: { id: "count", bytes: "count" },
  abort: { id: "count" },
  abort_request: { rid: "maybe text" },
  beat: {},
};

const ID_BYTES = 4;

export function numbered(id: number, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const message = new Uint8Array(ID_BYTES + bytes.length);
  new DataView(message.buffer).setUint32(0, id, true);
  message.set(bytes, ID_BYTES);
  return message;
}

/** @throws {TypeError} for a message that has no number. */
export function ofNumber(message: Uint8Array<ArrayBuffer>): {
  readonly id: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
} {
  if (message.length < ID_BYTES) throw new TypeError("bytes have come without a number");
  const view = new DataView(message.buffer, message.byteOffset, message.length);
  return { id: view.getUint32(0, true), bytes: message.subarray(ID_BYTES) };
}
