/**
 * What comes by a connection, until it is listened to and from then on. The first messages come as soon
 * as a socket is open, so they wait.
 *
 * @module
 */
import type { ChannelEvents, ChannelMessage } from "./channel.ts";

export class ChannelInbox {
  #events: ChannelEvents | undefined;
  readonly #early: ChannelMessage[] = [];
  #closed: string | undefined;
  #isOver = false;

  /** Whether nothing comes or goes any more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  listen(events: ChannelEvents): void {
    this.#events = events;
    for (const message of this.#early.splice(0)) events.onMessage(message);
    if (this.#closed !== undefined) events.onClose(this.#closed);
  }

  take(message: ChannelMessage): void {
    if (this.#isOver) return;
    if (this.#events === undefined) this.#early.push(message);
    else this.#events.onMessage(message);
  }

  /** The connection has ended, for this reason. */
  end(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#closed = reason;
    this.#events?.onClose(reason);
  }

  /** This side ends it, and tells its listener nothing. @returns Whether it was there until now. */
  close(): boolean {
    const wasOpen = !this.#isOver;
    this.#isOver = true;
    return wasOpen;
  }
}
