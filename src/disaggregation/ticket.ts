/**
 * Tickets: by which one that does not know the group's key, such as a page of a browser, may open the
 * rooms that were made for it. A router that knows the key writes them; a prefill server takes each
 * once, and only for a while.
 *
 * A ticket's id is `OWNER.EXPIRES.NONCE`. Its secret, which both ends of a connection then prove to
 * know in place of the key, is the HMAC of the id.
 *
 * @module
 */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import type { PageTicket } from "../bootstrap.ts";
import { TransferError } from "../errors.ts";
import { newNonce } from "./handshake.ts";
import { MAX_USED_TICKETS } from "./limits.ts";

/** Milliseconds in which it has to be used; clocks of machines differ too. */
const TICKET_TIME = 120_000;
const ID = /^([0-9a-f]{1,64})\.(\d{1,16})\.[0-9a-f]{32}$/;

export function newTicket(key: string, owner: string, now = Date.now()): PageTicket {
  const id = `${owner}.${now + TICKET_TIME}.${newNonce()}`;
  return { id, secret: ticketSecret(key, id) };
}

export function ticketSecret(key: string, id: string): string {
  return bytesToHex(hmac(sha256, utf8ToBytes(key), utf8ToBytes(`wisp ticket ${id}`)));
}

/** The tickets of a prefill server that were used and would still be good. */
export class UsedTickets {
  /** Ids -> when they are good no more, in the order in which they were used. */
  readonly #used = new Map<string, number>();

  /**
   * @returns Whose it is.
   * @throws {TransferError} for one that was used, is too old, or is none.
   */
  take(id: string, now = Date.now()): string {
    const [, owner, expires] = ID.exec(id) ?? [];
    const refuse = (problem: string) => new TransferError("a message", "ticket", problem);
    if (owner === undefined) throw refuse("it is no ticket");
    const end = Number(expires);
    if (end < now || end > now + 2 * TICKET_TIME) throw refuse("its time is over");
    for (const [other, until] of this.#used) {
      if (until >= now) break;
      this.#used.delete(other);
    }
    if (this.#used.has(id)) throw refuse("it was used already");
    if (this.#used.size >= MAX_USED_TICKETS) throw refuse("too many were used of late");
    this.#used.set(id, end);
    return owner;
  }
}

/** What the two ends of a connection know: the group's key, or the secret of a ticket. */
export class LinkKey {
  readonly #options: LinkKeyOptions;
  #ticket: string | undefined;
  #owner: string | undefined;

  constructor(options: LinkKeyOptions) {
    this.#options = options;
  }

  get key(): string {
    const { key } = this.#options;
    return this.#ticket === undefined ? key : ticketSecret(key, this.#ticket);
  }

  /** Whose ticket was used; undefined where it is the group's key. */
  get owner(): string | undefined {
    return this.#owner;
  }

  /**
   * The other end says by what it comes.
   *
   * @throws {TransferError} where it may not: without a key of the group, strangers could write tickets.
   */
  show(ticket: string | undefined): void {
    const { key, needsTicket } = this.#options;
    const isRefused = ticket === undefined ? needsTicket : key === "";
    if (isRefused) {
      const problem = "pages of browsers need one, and a group that has a key";
      throw new TransferError("a message", "ticket", problem);
    }
    this.#ticket = ticket;
  }

  /** The other end has proved that it knows the secret. @throws {TransferError} for a ticket that is not good. */
  use(): void {
    if (this.#ticket !== undefined) this.#owner = this.#options.used.take(this.#ticket);
  }
}

export interface LinkKeyOptions {
  /** Of the group. */
  readonly key: string;
  /** Whether the key alone is not enough, as of pages of browsers. */
  readonly needsTicket: boolean;
  readonly used: UsedTickets;
}
