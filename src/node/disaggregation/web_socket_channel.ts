/**
 * A connection between a prefill and a decode server over a WebSocket.
 *
 * @module
 */
import { type RawData, WebSocket } from "ws";
import type { Channel, ChannelEvents, ChannelMessage } from "../../disaggregation/channel.ts";
import { ChannelInbox } from "../../disaggregation/channel_inbox.ts";

/** Bytes that wait to be sent, beyond which the other end counts as lost: it takes nothing. */
export const MAX_UNSENT_BYTES = 2 ** 30;

/** Milliseconds that the other end has to answer a close. */
const LAST_WORDS = 500;
/** Of a WebSocket that ends as it should. */
const NORMAL = 1000;
const REASON_BYTES = 120;

export class WebSocketChannel implements Channel {
  readonly #socket: WebSocket;
  readonly #inbox = new ChannelInbox();

  /** @param socket That is open, or opens. */
  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.binaryType = "fragments";
    socket.on("message", (data, isBinary) => this.#inbox.take(messageOf(data, isBinary)));
    socket.on("error", ({ message }) => this.#inbox.end(`its connection has failed: ${message}`));
    socket.on("close", (_, reason) => {
      this.#inbox.end(reason.length > 0 ? reason.toString() : "its connection has ended");
    });
  }

  listen(events: ChannelEvents): void {
    this.#inbox.listen(events);
  }

  send(message: ChannelMessage): void {
    if (this.#inbox.isOver) return;
    if (this.#socket.bufferedAmount > MAX_UNSENT_BYTES) {
      this.#socket.terminate();
      this.#inbox.end(`it leaves ${MAX_UNSENT_BYTES} bytes lying`);
      return;
    }
    if (typeof message === "string" || message instanceof Uint8Array) this.#socket.send(message);
    // Fragments of one message, as the other end puts them together where it has to.
    else
      for (const [i, piece] of message.entries()) this.#sendPiece(piece, i === message.length - 1);
  }

  close(reason: string): void {
    if (!this.#inbox.close()) return;
    this.#socket.close(NORMAL, shortReason(reason));
    setTimeout(() => this.#socket.terminate(), LAST_WORDS).unref();
  }

  #sendPiece(piece: Uint8Array, fin: boolean): void {
    this.#socket.send(piece, { binary: true, fin });
  }
}

/** Bytes are not copied: the page codec copies what it keeps. */
function messageOf(data: RawData, isBinary: boolean): ChannelMessage {
  if (!isBinary) return (data as Buffer).toString("utf8");
  return (data as Buffer[]).map(
    ({ buffer, byteOffset, length }) => new Uint8Array(buffer as ArrayBuffer, byteOffset, length),
  );
}

/** What a close may say has few bytes, of which none may be half a character. */
function shortReason(reason: string): string {
  return Buffer.from(reason)
    .subarray(0, REASON_BYTES)
    .toString("utf8")
    .replace(/\uFFFD+$/, "");
}

export interface ConnectOptions {
  /** Milliseconds. */
  readonly timeout: number;
  /** Bytes of a message at most. */
  readonly maxMessage: number;
}

/** @throws {Error} when no server answers there. */
export function connectWebSocket(
  url: string,
  { timeout, maxMessage }: ConnectOptions,
): Promise<Channel> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, {
      handshakeTimeout: timeout,
      maxPayload: maxMessage,
      perMessageDeflate: false,
      followRedirects: false,
    });
    socket.once("error", (cause) => reject(new Error(problemOf(cause), { cause })));
    socket.once("open", () => resolve(new WebSocketChannel(socket)));
  });
}

function problemOf(error: NodeJS.ErrnoException): string {
  if (error.code === "ECONNREFUSED") return "no server listens there";
  if (error.code === "ENOTFOUND") return "there is no such host";
  return error.message;
}
