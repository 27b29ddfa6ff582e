/**
 * A connection of a page, or of its worker, over a WebSocket of the browser.
 *
 * @module
 */
import {
  type Channel,
  type ChannelEvents,
  type ChannelMessage,
  wholeOf,
} from "../../disaggregation/channel.ts";

/** Of a WebSocket that ends as it should. */
const NORMAL = 1000;
/** Characters of a reason; a close takes 123 bytes. */
const REASON_UNITS = 40;

/** @throws {Error} as a rejection, when no server answers there in time. */
export function connectPage(url: string, timeout: number): Promise<Channel> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    const giveUp = (problem: string) => {
      clearTimeout(timer);
      socket.close();
      reject(new Error(problem));
    };
    const timer = setTimeout(() => giveUp("it does not answer"), timeout);
    socket.onerror = () => giveUp("it cannot be reached, or refuses pages of this origin");
    socket.onopen = () => {
      clearTimeout(timer);
      resolve(new PageSocket(socket));
    };
  });
}

class PageSocket implements Channel {
  readonly #socket: WebSocket;
  #events: ChannelEvents | undefined;
  /** What came before it was listened to. */
  readonly #early: ChannelMessage[] = [];
  #closed: string | undefined;
  #isOver = false;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      this.#take(typeof data === "string" ? data : new Uint8Array(data));
    };
    socket.onerror = () => this.#end("its connection has failed");
    socket.onclose = ({ reason }) => this.#end(reason || "its connection has ended");
  }

  listen(events: ChannelEvents): void {
    this.#events = events;
    for (const message of this.#early.splice(0)) events.onMessage(message);
    if (this.#closed !== undefined) events.onClose(this.#closed);
  }

  send(message: ChannelMessage): void {
    if (!this.#isOver) this.#socket.send(typeof message === "string" ? message : wholeOf(message));
  }

  close(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#socket.close(NORMAL, reason.slice(0, REASON_UNITS).replace(/[^\x20-\x7e]/g, "?"));
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
