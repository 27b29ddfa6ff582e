/**
 * The rooms of a decode server, and its connections to prefill servers: one to each, which begins with
 * the first room that needs it, and again after it has ended.
 *
 * @module
 */
import type { Bootstrap, PageTicket } from "../bootstrap.ts";
import { PageForm, type SharedLayout } from "../cache/page_form.ts";
import { MAX_PAGE_SIZE } from "../cache/page_pool.ts";
import { CapacityError, InvalidRequestError, UnsupportedError } from "../errors.ts";
import { ArrivingPages } from "./arriving_pages.ts";
import type { Channel, ChannelMessage } from "./channel.ts";
import { DecodeRoom, type LostPeer, type PrefillPeer } from "./decode_room.ts";
import { isProof, newNonce, proofOf } from "./handshake.ts";
import { Heartbeat, type HeartbeatOptions } from "./heartbeat.ts";
import { MAX_ROOMS } from "./limits.ts";
import {
  type DecodeMessage,
  PROTOCOL_VERSION,
  type PrefillMessage,
  parseMessage,
  shortened,
} from "./messages.ts";
import { decodeFrame } from "./page_frame.ts";
import { RoomFigures } from "./room_figures.ts";

/** Where a prefill server of the group is. */
export interface KnownHost {
  /** A name in small letters, an address without brackets, or a network of addresses. */
  readonly host: string;
  /** Of a network: whether an address is in it. */
  readonly includes?: ((address: string) => boolean) | undefined;
  /** Default: that of requests that name none. */
  readonly port?: number | undefined;
}

export interface DecodeRoomsOptions {
  readonly layout: SharedLayout;
  /** Empty where there is none. */
  readonly key: string;
  /** Whether requests bring tickets, as those of a decode node do that does not know the key. Default false. */
  readonly takesTickets?: boolean | undefined;
  readonly times: {
    /** Milliseconds for a connection and what both ends say of themselves. */
    readonly connectTimeout: number;
    /** Milliseconds until all pages of a prompt must be there, from when they are asked for. */
    readonly waitTimeout: number;
    readonly heartbeat: HeartbeatOptions;
  };
  /** Of requests that name none. */
  readonly port: number;
  /** That requests may name. */
  readonly hosts: readonly KnownHost[];
  /** Connects, or rejects. */
  readonly connect: (host: string, port: number) => Promise<Channel>;
  /** Told when a connection is there or ends. */
  readonly onEvent?: ((text: string) => void) | undefined;
}

export class DecodeRooms {
  readonly #options: DecodeRoomsOptions;
  readonly #rooms = new Map<string, DecodeRoom>();
  readonly #links = new Map<string, Link>();
  readonly #form: PageForm;
  /** Of all rooms so far. */
  readonly figures = new RoomFigures();

  constructor(options: DecodeRoomsOptions) {
    this.#options = options;
    this.#form = new PageForm(options.layout);
  }

  /** Rooms, and of them those whose pages were asked for. */
  get counts() {
    return {
      rooms: this.#rooms.size,
      transferring: [...this.#rooms.values()].filter(({ state }) => state !== "bootstrapping")
        .length,
      // Replicas of a prefill server are one.
      servers: [...this.#links.values()].filter(({ isReady, isReplica }) => isReady && !isReplica)
        .length,
    };
  }

  /**
   * @throws {InvalidRequestError | UnsupportedError} for a room that another request has, and a host
   * that the group does not know.
   * @throws {CapacityError} when there are too many.
   */
  open({ host, port, room: name, ticket }: Bootstrap, wantsLogprobs: boolean): DecodeRoom {
    const own = this.#options.takesTickets ? ticketOf(ticket) : undefined;
    const address = { ...this.#addressOf(host, port), ticket: own };
    const key = `${address.text} ${name}`;
    if (this.#rooms.has(key)) {
      const state = `Cannot open room ${name}: another request that lives has it`;
      throw new InvalidRequestError(state, "bootstrap_room");
    }
    if (this.#rooms.size >= MAX_ROOMS) {
      const state = `all ${MAX_ROOMS} rooms are taken; one is free when a request ends`;
      throw new CapacityError("places in the request queue", MAX_ROOMS, state);
    }
    this.figures.opened += 1;
    const links: Link[] = [];
    const open = (at: Address) => {
      const link = this.#linkTo(at);
      links.push(link);
      return link.open(room);
    };
    const room: DecodeRoom = new DecodeRoom({
      room: name,
      wantsLogprobs,
      waitTimeout: this.#options.times.waitTimeout,
      connect: async () => {
        const found = await open(address);
        if (!("movedTo" in found)) return found;
        const { movedTo: port } = found;
        const text = `${address.host}:${port}`;
        const peer = await open({ ...address, port, text, isReplica: true });
        return "movedTo" in peer ? { lost: `replica ${text} has replicas itself` } : peer;
      },
      figures: this.figures,
      onOver: (failure) => {
        this.#rooms.delete(key);
        this.figures.ended(failure);
        for (const link of links) link.forget(room);
      },
    });
    this.#rooms.set(key, room);
    return room;
  }

  close(): void {
    for (const link of [...this.#links.values()]) link.end("the decode server ends");
  }

  #addressOf(host: string | undefined, port = this.#options.port): Address {
    const field = "bootstrap_host";
    if (host === undefined) {
      throw new InvalidRequestError("Cannot open a room: bootstrap_host is missing", field);
    }
    const name = host.toLowerCase();
    const bare = name.replace(/^\[(.*)\]$/, "$1");
    const { hosts, port: own } = this.#options;
    const isKnown = hosts.some((known) => {
      const isHost = known.host === bare || known.includes?.(bare) === true;
      return isHost && (known.port ?? own) === port;
    });
    if (!isKnown) {
      const reason = `the group knows no prefill server at ${JSON.stringify(host.slice(0, 200))}, port ${port}`;
      throw new UnsupportedError(field, reason, { field });
    }
    return { host: bare, port, text: `${bare}:${port}` };
  }

  #linkTo(address: Address): Link {
    const known = this.#links.get(address.text);
    if (known !== undefined) return known;
    const link: Link = new Link(address, { ...this.#options, form: this.#form }, () => {
      if (this.#links.get(address.text) === link) this.#links.delete(address.text);
    });
    this.#links.set(address.text, link);
    return link;
  }
}

interface Address {
  readonly host: string;
  readonly port: number;
  readonly text: string;
  /** Opens a new connection, where this end does not know the key. */
  readonly ticket?: PageTicket | undefined;
  /** Whether the prefill server itself has said that it is there. */
  readonly isReplica?: boolean;
}

/** The prefill server's replica that has a room is at this port of its host. */
interface MovedRoom {
  readonly movedTo: number;
}

function ticketOf(ticket: Bootstrap["ticket"]): PageTicket | undefined {
  return typeof ticket === "object" ? ticket : undefined;
}

interface LinkOptions extends DecodeRoomsOptions {
  readonly form: PageForm;
}

const LOST: LostPeer = { lost: "the prefill server is lost" };

/** A connection to a prefill server. */
class Link {
  readonly #address: Address;
  readonly #options: LinkOptions;
  readonly #onEnd: () => void;
  readonly #rooms = new Map<number, DecodeRoom>();
  /** Where rooms are is asked here, by their leases. */
  readonly #asked = new Map<number, (answer: MovedRoom | LostPeer) => void>();
  /** Resolves once both ends know each other, or with why they never will. */
  readonly #ready: Promise<string | undefined>;
  #settle!: (lost: string | undefined) => void;
  #channel: Channel | undefined;
  #heartbeat: Heartbeat | undefined;
  #expected: "welcome" | "ready" | "rooms" = "welcome";
  readonly #nonce = newNonce();
  #nextLease = 0;
  /** Whether pages come as one rank would have them, and the tokens of each. */
  #pages = { isWhole: false, pageSize: 0 };
  /** Whether its replicas have the rooms, which it knows where to find. */
  #hasReplicas = false;
  #isOver = false;

  constructor(address: Address, options: LinkOptions, onEnd: () => void) {
    this.#address = address;
    this.#options = options;
    this.#onEnd = onEnd;
    this.#ready = new Promise((resolve) => {
      this.#settle = resolve;
    });
    const { connectTimeout } = options.times;
    const timer = setTimeout(() => {
      this.end(`no prefill server has answered within ${connectTimeout / 1000} s`);
    }, connectTimeout);
    void this.#ready.then(() => clearTimeout(timer));
    options.connect(address.host, address.port).then(
      (channel) => this.#begin(channel),
      (error: Error) => this.#end(error.message),
    );
  }

  get isReady(): boolean {
    return this.#expected === "rooms" && !this.#isOver;
  }

  /** Whether it leads to a replica of a prefill server. */
  get isReplica(): boolean {
    return this.#address.isReplica === true;
  }

  /** By a ticket, pages come only as all messages do. */
  get #way() {
    return this.#address.ticket === undefined ? this.#channel?.way : undefined;
  }

  /** Gives a room a lease, once both ends know each other; else says why there is none. */
  async open(room: DecodeRoom): Promise<PrefillPeer | LostPeer | MovedRoom> {
    const lost = await this.#ready;
    if (lost !== undefined) return { lost };
    if (this.#isOver || room.isOver) return LOST;
    const lease = this.#nextLease;
    this.#nextLease += 1;
    this.#rooms.set(lease, room);
    if (this.#hasReplicas) {
      this.#say({ type: "open", lease, room: room.name, digest: "" });
      return new Promise((resolve) => this.#asked.set(lease, resolve));
    }
    const pages = { form: this.#options.form, ...this.#pages };
    return {
      lease,
      say: (message) => this.#say(message),
      arriving: (prompt, first) => new ArrivingPages(pages, prompt, first),
    };
  }

  forget(room: DecodeRoom): void {
    for (const [lease, one] of this.#rooms) {
      if (one !== room) continue;
      this.#rooms.delete(lease);
      const tell = this.#asked.get(lease);
      if (tell === undefined) continue;
      this.#asked.delete(lease);
      this.#say({ type: "leave", lease, problem: "the decode server has left it" });
      tell(LOST);
    }
  }

  end(reason: string): void {
    if (this.#isOver) return;
    this.#channel?.close(reason);
    this.#end(reason);
  }

  #begin(channel: Channel): void {
    if (this.#isOver) {
      channel.close("it came too late");
      return;
    }
    this.#channel = channel;
    this.#heartbeat = new Heartbeat(this.#options.times.heartbeat, {
      beat: () => {
        if (this.isReady) this.#say({ type: "beat" });
      },
      onLost: (reason) => this.end(reason),
    });
    channel.listen({
      onMessage: (message) => this.#take(message),
      onHeard: () => this.#heartbeat?.heard(),
      onClose: (reason) => this.#end(reason),
    });
    const ticket = this.#address.ticket?.id;
    this.#say({ type: "hello", version: PROTOCOL_VERSION, nonce: this.#nonce, ticket });
  }

  #end(reason: string): void {
    if (this.#isOver) return;
    const wasReady = this.isReady;
    this.#isOver = true;
    this.#heartbeat?.stop();
    const { text } = this.#address;
    const lost = `Losing connection with prefill instance (bootstrap_addr: ${text}): ${reason}`;
    this.#settle(lost);
    this.#onEnd();
    for (const room of [...this.#rooms.values()]) room.fail(lost, "lost");
    this.#rooms.clear();
    if (wasReady)
      this.#options.onEvent?.(`The connection to prefill server ${text} has ended: ${reason}`);
    else this.#options.onEvent?.(`Prefill server ${text} cannot be used: ${reason}`);
  }

  #say(message: DecodeMessage): void {
    if (!this.#isOver) this.#channel?.send(JSON.stringify(message));
  }

  #take(message: ChannelMessage): void {
    if (this.#isOver) return;
    this.#heartbeat?.heard();
    try {
      if (typeof message !== "string") this.#takePages(message);
      else if (this.#expected === "rooms") this.#hear(message);
      else this.#meet(message);
    } catch (error) {
      this.end((error as Error).message);
    }
  }

  #takePages(frame: Exclude<ChannelMessage, string>): void {
    if (!this.isReady) throw new TypeError("pages have come before the servers know each other");
    const { lease, ...run } = decodeFrame(frame);
    // Of a room that is over: they were on their way.
    this.#rooms.get(lease)?.take(run);
  }

  #meet(text: string): void {
    const message = parseMessage<PrefillMessage>(text, [
      ...["welcome", "ready", "refused", "beat"],
    ] as PrefillMessage["type"][]);
    if (message.type === "refused") {
      this.end(`it refuses: ${shortened(message.problem)}`);
      return;
    }
    if (message.type === "beat") return;
    if (message.type !== this.#expected) throw new TypeError(`it says ${message.type} too early`);
    if (message.type === "welcome") {
      const { form } = this.#options;
      const key = this.#address.ticket?.secret ?? this.#options.key;
      const nonces = { decode: this.#nonce, prefill: message.nonce };
      if (!isProof(message.proof, proofOf(key, "prefill", nonces))) {
        throw new TypeError("the two servers have different keys");
      }
      this.#expected = "ready";
      const proof = proofOf(key, "decode", nonces);
      const { ranks } = form.shares;
      const offer = this.#way?.offer ?? "";
      this.#say({ type: "proof", proof, layout: form.whole, ranks, offer });
      return;
    }
    this.#hasReplicas = message.hasReplicas;
    const way = this.#hasReplicas ? undefined : this.#way;
    if (way?.isRequired && message.way !== way.name) {
      this.end(`pages are to come by ${way.name}, and the prefill server does not send them so`);
      return;
    }
    const { isWhole, pageSize } = message;
    if (pageSize < 1 || pageSize > MAX_PAGE_SIZE) {
      throw new TypeError(`its pages are of ${pageSize} tokens`);
    }
    this.#pages = { isWhole, pageSize };
    this.#expected = "rooms";
    this.#settle(undefined);
    const by = message.way === "" ? "websocket" : message.way;
    const pages = this.#hasReplicas ? "which has replicas" : `pages come by ${by}`;
    this.#options.onEvent?.(`Connected to prefill server ${this.#address.text}, ${pages}`);
  }

  #hear(text: string): void {
    const types = ["moved", "logprobs", "end", "failed", "beat"] as const;
    const message = parseMessage<PrefillMessage>(text, types);
    if (!("lease" in message)) return;
    const { lease } = message;
    const tell = this.#asked.get(lease);
    if (message.type === "moved" && tell !== undefined) {
      this.#rooms.delete(lease);
      this.#asked.delete(lease);
      tell({ movedTo: message.port });
    } else this.#rooms.get(lease)?.hear(message);
  }
}
