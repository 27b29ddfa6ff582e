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
import { ChannelInbox } from "../../disaggregation/channel_inbox.ts";

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
  readonly #inbox = new ChannelInbox();

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      this.#inbox.take(typeof data === "string" ? data : new Uint8Array(data));
    };
    socket.onerror = () => this.#inbox.end("its connection has failed");
    socket.onclose = ({ reason }) => this.#inbox.end(reason || "its connection has ended");
  }

  listen(events: ChannelEvents): void {
    this.#inbox.listen(events);
  }

  send(message: ChannelMessage): void {
    if (this.#inbox.isOver) return;
    this.#socket.send(typeof message === "string" ? message : wholeOf(message));
  }

  close(reason: string): void {
    if (!this.#inbox.close()) return;
    this.#socket.close(NORMAL, reason.slice(0, REASON_UNITS).replace(/[^\x20-\x7e]/g, "?"));
  }
}
