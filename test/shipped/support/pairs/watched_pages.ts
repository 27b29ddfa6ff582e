/**
 * What a prefill and a decode server say to each other, on its way: a test sees each message, holds it
 * up, delays it, or sends it twice.
 *
 * @module
 */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type RawData, WebSocket, WebSocketServer } from "ws";

export type Side = "prefill" | "decode";

/** What becomes of a message: `hold` keeps it, and what follows it, until `release`. */
export type Fate = "pass" | "hold" | "twice";

/** Of a message with pages; others have the types that they name. */
export const PAGES = "pages";

interface Message {
  readonly data: RawData;
  readonly isBinary: boolean;
  readonly type: string;
}

export class WatchedPages {
  /** Bootstrap port of the prefill server. */
  target = 0;
  /** Called with each message but signs of life, which nothing holds up. */
  look: (from: Side, type: string) => Fate = () => "pass";
  /** Milliseconds that a message waits. */
  delay: () => number = () => 0;
  readonly #server: WebSocketServer;
  #released: Promise<void> = Promise.resolve();
  #release = () => {};

  private constructor(server: WebSocketServer) {
    this.#server = server;
    server.on("connection", (decode) => {
      const prefill = new WebSocket(`ws://127.0.0.1:${this.target}/pages`);
      const opened = new Promise<void>((resolve) => {
        for (const event of ["open", "close"]) prefill.once(event, () => resolve());
      });
      this.#follow("decode", decode, prefill, opened);
      this.#follow("prefill", prefill, decode, opened);
    });
  }

  static async open(): Promise<WatchedPages> {
    const server = new WebSocketServer({ host: "127.0.0.1", port: 0, perMessageDeflate: false });
    await once(server, "listening");
    return new WatchedPages(server);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** What is held goes on, and nothing is looked at any more. */
  release(): void {
    this.look = () => "pass";
    this.delay = () => 0;
    this.#release();
  }

  async close(): Promise<void> {
    this.release();
    for (const client of this.#server.clients) client.terminate();
    this.#server.close();
    await once(this.#server, "close");
  }

  #follow(from: Side, near: WebSocket, far: WebSocket, opened: Promise<unknown>): void {
    let sent: Promise<unknown> = opened;
    near.on("error", () => {});
    near.on("message", (data, isBinary) => {
      const message = { data, isBinary, type: isBinary ? PAGES : typeOf(data) };
      if (message.type === "beat") {
        // Before the two know each other there is none.
        far.send(data, { binary: false }, () => {});
        return;
      }
      sent = sent.then(() => this.#pass(from, message, far));
    });
    near.once("close", (_, reason) => {
      void sent.then(() => far.close(1000, reason));
    });
  }

  async #pass(from: Side, { data, isBinary, type }: Message, far: WebSocket): Promise<void> {
    const milliseconds = this.delay();
    if (milliseconds > 0) await sleep(milliseconds);
    await this.#released;
    const fate = this.look(from, type);
    if (fate === "hold") {
      this.#released = new Promise((resolve) => {
        this.#release = resolve;
      });
      await this.#released;
    }
    for (let i = fate === "twice" ? 2 : 1; i > 0; i--) {
      far.send(data, { binary: isBinary }, () => {});
    }
  }
}

function typeOf(data: RawData): string {
  return (JSON.parse(data.toString()) as { readonly type: string }).type;
}
