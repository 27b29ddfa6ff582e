/**
 * A prefill server's end of a connection to a decode server or decode node.
 *
 * @module
 */
import type { PageForm } from "../cache/page_form.ts";
import type { Channel, ChannelMessage } from "./channel.ts";
import { differenceOf, isProof, newNonce, proofOf } from "./handshake.ts";
import { Heartbeat, type HeartbeatOptions } from "./heartbeat.ts";
import {
  type DecodeMessage,
  PROTOCOL_VERSION,
  type PrefillMessage,
  parseMessage,
} from "./messages.ts";
import type { DecodePeer } from "./prefill_room.ts";
import type { FailureReason } from "./room_figures.ts";
import type { LinkKey } from "./ticket.ts";

/** A room that has a request, as a decode server speaks of it. */
export interface MetRoom {
  readonly owner: string | undefined;
  /** Whether a decode server has opened it, though it may have left. */
  readonly hasPeer: boolean;
  /** Settles when it is over. */
  readonly over: Promise<unknown>;
  /** The decode server has read the prompt. */
  pair(peer: DecodePeer): void;
  /** It wants pages from `first` on. */
  want(first: number): void;
  /** The oldest pages that were sent are in place. */
  taken(): void;
  /** It has all of the prompt. */
  skip(): void;
  /** It has ended it, or is lost. */
  lose(problem: string, reason: FailureReason): void;
}

export interface PrefillLinkOptions {
  readonly form: PageForm;
  /** Whether decode servers are only told here which replica has a room. */
  readonly hasReplicas: boolean;
  readonly shared: LinkKey;
  readonly heartbeat: HeartbeatOptions;
  /** Told when the decode server comes or goes, or is refused. */
  readonly onEvent: ((text: string) => void) | undefined;
  /** It came by a ticket of this owner. @throws {TransferError} where it may not stay. */
  readonly onOwner: (owner: string) => void;
  readonly onOpen: (room: string, peer: DecodePeer) => void;
  /** A lease that has no room is given back; all of them where none is named. */
  readonly onLeave: (lease?: number) => void;
  readonly onEnd: () => void;
}

export class PrefillLink {
  readonly #channel: Channel;
  readonly #options: PrefillLinkOptions;
  readonly #heartbeat: Heartbeat;
  readonly #rooms = new Map<number, MetRoom>();
  /** Leases without a room, and what was said of them meanwhile. */
  readonly #unpaired = new Map<number, DecodeMessage | undefined>();
  #expected: "hello" | "proof" | "rooms" = "hello";
  /** Whether pages travel as one rank would have them. */
  #isWhole = false;
  #nonces = { decode: "", prefill: newNonce() };
  #newestLease = -1;
  #isOver = false;

  constructor(channel: Channel, options: PrefillLinkOptions) {
    this.#channel = channel;
    this.#options = options;
    this.#heartbeat = new Heartbeat(options.heartbeat, {
      beat: () => {
        if (this.isReady) this.say({ type: "beat" });
      },
      onLost: (reason) => this.end(reason),
    });
    channel.listen({
      onMessage: (message) => this.#take(message),
      onClose: (reason) => this.#end(reason),
    });
  }

  get isReady(): boolean {
    return this.#expected === "rooms" && !this.#isOver;
  }

  /** Whose tickets brought it here; undefined where it knows the key. */
  get owner(): string | undefined {
    return this.#options.shared.owner;
  }

  say(message: PrefillMessage): void {
    if (!this.#isOver) this.#channel.send(JSON.stringify(message));
  }

  pair(room: MetRoom, peer: DecodePeer): void {
    this.#rooms.set(peer.lease, room);
    const forget = () => this.#rooms.delete(peer.lease);
    room.over.then(forget, forget);
    room.pair(peer);
    const said = this.#unpaired.get(peer.lease);
    this.#unpaired.delete(peer.lease);
    if (said !== undefined) this.#tell(room, said);
  }

  /** A lease gets no room. */
  refuse(lease: number, problem: string): void {
    this.#unpaired.delete(lease);
    this.say({ type: "failed", lease, problem });
  }

  /** Ends the connection from this side. */
  end(reason: string): void {
    if (this.#isOver) return;
    this.#channel.close(reason);
    this.#end(reason);
  }

  #end(reason: string): void {
    if (this.#isOver) return;
    const wasReady = this.isReady;
    this.#isOver = true;
    this.#heartbeat.stop();
    this.#options.onLeave();
    const problem = `the decode server is lost: ${reason}`;
    for (const room of [...this.#rooms.values()]) room.lose(problem, "lost");
    this.#rooms.clear();
    this.#options.onEnd();
    if (wasReady) this.#options.onEvent?.(`A decode server has left: ${reason}`);
  }

  #take(message: ChannelMessage): void {
    if (this.#isOver) return;
    this.#heartbeat.heard();
    try {
      if (typeof message !== "string") throw new TypeError("pages come from prefill servers only");
      if (this.#expected === "hello") this.#hello(message);
      else if (this.#expected === "proof") this.#proof(message);
      else this.#room(message);
    } catch (error) {
      this.end((error as Error).message);
    }
  }

  #hello(text: string): void {
    const message = parseMessage<DecodeMessage>(text, ["hello"]) as DecodeMessage & {
      type: "hello";
    };
    if (message.version !== PROTOCOL_VERSION) {
      this.#refuse(
        `the prefill server speaks version ${PROTOCOL_VERSION}, the decode server ${message.version}`,
      );
      return;
    }
    const { shared } = this.#options;
    shared.show(message.ticket);
    this.#nonces = { ...this.#nonces, decode: message.nonce };
    this.#expected = "proof";
    const proof = proofOf(shared.key, "prefill", this.#nonces);
    this.say({ type: "welcome", version: PROTOCOL_VERSION, nonce: this.#nonces.prefill, proof });
  }

  #proof(text: string): void {
    const message = parseMessage<DecodeMessage>(text, ["proof"]) as DecodeMessage & {
      type: "proof";
    };
    const { form, hasReplicas, onEvent, shared } = this.#options;
    if (!isProof(message.proof, proofOf(shared.key, "decode", this.#nonces))) {
      this.#refuse("the two servers have different keys");
      return;
    }
    shared.use();
    if (shared.owner !== undefined) this.#options.onOwner(shared.owner);
    const difference = differenceOf(form.whole, message.layout);
    if (difference !== undefined) {
      this.#refuse(difference);
      return;
    }
    // A ticket opens no port for other ways, which servers of the group have for each other.
    const way = shared.owner === undefined ? this.#channel.way : undefined;
    const goes = way?.fits(message.offer) === true;
    if (way?.isRequired && !goes) {
      const offered = message.offer === "" ? "has none" : "has another version of it";
      this.#refuse(
        `pages of the prefill server go by ${way.name}, and the decode server ${offered}`,
      );
      return;
    }
    this.#expected = "rooms";
    const { ranks } = form.shares;
    const { pageSize } = form.whole;
    const isAlike = ranks === message.ranks && pageSize === message.layout.pageSize;
    this.#isWhole = !isAlike || !form.isDivided;
    const by = goes ? way!.name : "";
    this.say({ type: "ready", isWhole: this.#isWhole, pageSize, way: by, hasReplicas });
    if (goes) way!.take(message.offer);
    const pages = hasReplicas ? "" : `, pages go by ${by || "websocket"}`;
    onEvent?.(`A decode server has connected${pages}`);
  }

  #refuse(problem: string): void {
    this.say({ type: "refused", problem });
    this.#options.onEvent?.(`A decode server was refused: ${problem}`);
    this.end(problem);
  }

  #room(text: string): void {
    const types = ["open", "want", "taken", "done", "leave", "beat"] as const;
    const message = parseMessage<DecodeMessage>(text, types);
    if (message.type === "open") {
      if (message.lease <= this.#newestLease || message.lease >= 2 ** 32) {
        throw new TypeError(`lease ${message.lease} is not a new one`);
      }
      this.#newestLease = message.lease;
      const { lease, digest, room } = message;
      this.#unpaired.set(lease, undefined);
      const channel = { send: (sent: ChannelMessage) => this.#send(sent) };
      const { form } = this.#options;
      const formed: DecodePeer["formed"] = (bytes) => (this.#isWhole ? form.join(bytes) : bytes);
      this.#options.onOpen(room, { channel, lease, digest, formed });
      return;
    }
    if (!("lease" in message)) return;
    const { lease } = message;
    if (message.type === "leave") {
      this.#unpaired.delete(lease);
      this.#rooms.get(lease)?.lose(message.problem, "other_server");
      this.#options.onLeave(lease);
      return;
    }
    const room = this.#rooms.get(lease);
    if (room !== undefined) this.#tell(room, message);
    else if (this.#unpaired.has(lease)) this.#unpaired.set(lease, message);
  }

  #tell(room: MetRoom, message: DecodeMessage): void {
    if (message.type === "want") room.want(message.first);
    if (message.type === "taken") room.taken();
    if (message.type === "done") room.skip();
  }

  #send(message: ChannelMessage): void {
    if (!this.#isOver) this.#channel.send(message);
  }
}
