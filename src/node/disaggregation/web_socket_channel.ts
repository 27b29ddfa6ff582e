/**
 * A connection between a prefill and a decode server over a WebSocket.
 *
 * @module
 */
import { type RawData, WebSocket } from "ws";
import type { Channel, ChannelEvents, ChannelMessage } from "../../disaggregation/channel.ts";

/** Bytes that wait to be sent, beyond which the other end counts as lost: it takes nothing. */
export const MAX_UNSENT_BYTES = 2 ** 30;

/** Milliseconds that the other end has to answer a close. */
const LAST_WORDS = 500;
/** Of a WebSocket that ends as it should. */
const NORMAL = 1000;
const REASON_BYTES = 120;

/** The first messages come as soon as it is open, so they wait until they are listened to. */
export class WebSocketChannel implements Channel {
  readonly #socket: WebSocket;
  #events: ChannelEvents | undefined;
  readonly #early: ChannelMessage[] = [];
  #closed: string | undefined;
  #isOver = false;

  /** @param socket That is open, or opens. */
  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.binaryType = "fragments";
    socket.on("message", (data, isBinary) => this.#take(messageOf(data, isBinary)));
    socket.on("error", ({ message }) => this.#end(`its connection has failed: ${message}`));
    socket.on("close", (_, reason) => {
      this.#end(reason.length > 0 ? reason.toString() : "its connection has ended");
    });
  }

  listen(events: ChannelEvents): void {
    this.#events = events;
    for (const message of this.#early.splice(0)) events.onMessage(message);
    if (this.#closed !== undefined) events.onClose(this.#closed);
  }

  send(message: ChannelMessage): void {
    if (this.#isOver) return;
    if (this.#socket.bufferedAmount > MAX_UNSENT_BYTES) {
      this.#socket.terminate();
      this.#end(`it leaves ${MAX_UNSENT_BYTES} bytes lying`);
      return;
    }
    if (typeof message === "string" || message instanceof Uint8Array) this.#socket.send(message);
    // Fragments of one message, as the other end puts them together where it has to.
    else
      for (const [i, piece] of message.entries()) this.#sendPiece(piece, i === message.length - 1);
  }

  close(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#socket.close(NORMAL, shortReason(reason));
    setTimeout(() => this.#socket.terminate(), LAST_WORDS).unref();
  }

  #sendPiece(piece: Uint8Array, fin: boolean): void {
    this.#socket.send(piece, { binary: true, fin });
  }

  #take(message: ChannelMessage): void {
    if (this.#isOver) return;
    if (this.#events === undefined) this.#early.push(message);
    else this.#events.onMessage(message);
  }

  #end(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#closed = reason;
    this.#events?.onClose(reason);
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
