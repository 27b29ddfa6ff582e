/**
 * The rooms of a prefill server: requests that came by HTTP on one side, decode servers on the other,
 * in whichever order they come.
 *
 * @module
 */
import { PageForm, type SharedLayout } from "../cache/page_form.ts";
import { CapacityError, InvalidRequestError } from "../errors.ts";
import type { Channel, ChannelMessage } from "./channel.ts";
import { FrameGate } from "./frame_gate.ts";
import { differenceOf, isProof, newNonce, proofOf } from "./handshake.ts";
import { Heartbeat, type HeartbeatOptions } from "./heartbeat.ts";
import { MAX_FRAMES_AHEAD, MAX_ROOMS } from "./limits.ts";
import {
  type DecodeMessage,
  PROTOCOL_VERSION,
  type PrefillMessage,
  parseMessage,
  shortened,
} from "./messages.ts";
import { type DecodePeer, PrefillRoom } from "./prefill_room.ts";
import { RoomFigures } from "./room_figures.ts";

export interface RoomTimes {
  /** Milliseconds until both sides of a room must be there. */
  readonly openTimeout: number;
  /** Milliseconds until pages that were sent must be in place. */
  readonly takeTimeout: number;
  readonly heartbeat: HeartbeatOptions;
}

export interface PrefillRoomsOptions {
  readonly layout: SharedLayout;
  /** Empty where there is none. */
  readonly key: string;
  readonly times: RoomTimes;
  /** Prompts whose pages are on their way at once. Default 8. */
  readonly workers?: number | undefined;
  /** Told when a decode server comes or goes, or is refused. */
  readonly onEvent?: ((text: string) => void) | undefined;
}

/** A lease of a decode server that no request has come for yet. */
interface Awaited {
  readonly peer: DecodePeer;
  readonly link: Link;
  readonly timer: ReturnType<typeof setTimeout>;
}

const TRANSFER_WORKERS = 8;
/** Failures that are remembered for sides that come too late. */
const REMEMBERED = 1024;

export class PrefillRooms {
  readonly #options: PrefillRoomsOptions;
  readonly #rooms = new Map<string, PrefillRoom>();
  readonly #awaited = new Map<string, Awaited>();
  /** Why rooms have failed before a decode server came. */
  readonly #failed = new Map<string, string>();
  readonly #links = new Set<Link>();
  readonly #form: PageForm;
  readonly #gate: FrameGate;
  /** Of all rooms so far. */
  readonly figures = new RoomFigures();

  constructor(options: PrefillRoomsOptions) {
    this.#options = options;
    const { layout, workers = TRANSFER_WORKERS } = options;
    this.#form = new PageForm(layout);
    this.#gate = new FrameGate(workers * MAX_FRAMES_AHEAD);
  }

  /** Rooms with a request, of them those whose pages are on their way, and leases without one. */
  get counts() {
    return {
      frames: this.#gate.used,
      rooms: this.#rooms.size,
      transferring: [...this.#rooms.values()].filter(({ state }) => state === "transferring")
        .length,
      awaited: this.#awaited.size,
      servers: [...this.#links].filter(({ isReady }) => isReady).length,
    };
  }

  /**
   * A request has come.
   *
   * @param requestId By which it may be aborted.
   * @throws {InvalidRequestError} when another one has the room.
   * @throws {CapacityError} when there are too many.
   */
  open(name: string, requestId?: string): PrefillRoom {
    if (this.#rooms.has(name)) {
      const state = `Cannot open room ${name}: another request that lives has it`;
      throw new InvalidRequestError(state, "bootstrap_room");
    }
    if (this.#rooms.size >= MAX_ROOMS) {
      const state = `all ${MAX_ROOMS} rooms are taken; one is free when a request ends`;
      throw new CapacityError("places in the request queue", MAX_ROOMS, state);
    }
    this.#failed.delete(name);
    this.figures.opened += 1;
    const { openTimeout, takeTimeout } = this.#options.times;
    const room = new PrefillRoom({
      room: name,
      requestId,
      openTimeout,
      takeTimeout,
      gate: this.#gate,
      figures: this.figures,
      onOver: (failure) => {
        this.#rooms.delete(name);
        this.figures.ended(failure);
        if (failure !== undefined && !room.hasPeer) this.#remember(name, failure.problem);
      },
    });
    this.#rooms.set(name, room);
    const awaited = this.#awaited.get(name);
    if (awaited !== undefined) {
      this.#forgetAwaited(name);
      awaited.link.pair(room, awaited.peer);
    }
    return room;
  }

  /** Ends rooms of a request, or all, whose pages are still leaving. */
  abort(requestId?: string): void {
    for (const room of [...this.#rooms.values()]) {
      if (requestId === undefined || room.requestId === requestId) room.abort();
    }
  }

  /** A connection from a server that says what it is first. */
  accept(channel: Channel): void {
    const link = new Link(channel, {
      ...this.#options,
      form: this.#form,
      onOpen: (room, peer) => this.#opened(room, peer, link),
      onLeave: (lease) => {
        for (const [name, { peer, link: own }] of this.#awaited) {
          if (own === link && (lease === undefined || peer.lease === lease)) {
            this.#forgetAwaited(name);
          }
        }
      },
      onEnd: () => this.#links.delete(link),
    });
    this.#links.add(link);
  }

  close(): void {
    for (const link of [...this.#links]) link.end("the prefill server ends");
    for (const room of [...this.#rooms.values()]) room.lose("the prefill server ends", "lost");
  }

  #opened(name: string, peer: DecodePeer, link: Link): void {
    const room = this.#rooms.get(name);
    if (room !== undefined && !room.hasPeer) {
      link.pair(room, peer);
      return;
    }
    const refuse = (problem: string) => link.refuse(peer.lease, problem);
    if (room !== undefined || this.#awaited.has(name)) {
      refuse("another decode server has opened the room");
      return;
    }
    const problem = this.#failed.get(name);
    if (problem !== undefined) {
      this.#failed.delete(name);
      refuse(problem);
      return;
    }
    if (this.#awaited.size >= MAX_ROOMS) {
      refuse(`all ${MAX_ROOMS} rooms are taken`);
      return;
    }
    const { openTimeout } = this.#options.times;
    const timer = setTimeout(() => {
      this.#forgetAwaited(name);
      refuse(`no request has come to the prefill server within ${openTimeout / 1000} s`);
    }, openTimeout);
    this.#awaited.set(name, { peer, link, timer });
  }

  #forgetAwaited(name: string): void {
    clearTimeout(this.#awaited.get(name)?.timer);
    this.#awaited.delete(name);
  }

  #remember(name: string, problem: string): void {
    this.#failed.set(name, shortened(problem));
    if (this.#failed.size <= REMEMBERED) return;
    const oldest = this.#failed.keys().next().value;
    if (oldest !== undefined) this.#failed.delete(oldest);
  }
}

interface LinkOptions extends PrefillRoomsOptions {
  readonly form: PageForm;
  readonly onOpen: (room: string, peer: DecodePeer) => void;
  /** A lease that has no room is given back; all of them where none is named. */
  readonly onLeave: (lease?: number) => void;
  readonly onEnd: () => void;
}

/** A connection to a decode server. */
class Link {
  readonly #channel: Channel;
  readonly #options: LinkOptions;
  readonly #heartbeat: Heartbeat;
  readonly #rooms = new Map<number, PrefillRoom>();
  /** Leases without a room, and what was said of them meanwhile. */
  readonly #unpaired = new Map<number, DecodeMessage | undefined>();
  #expected: "hello" | "proof" | "rooms" = "hello";
  /** Whether pages travel as one rank would have them. */
  #isWhole = false;
  #nonces = { decode: "", prefill: newNonce() };
  #newestLease = -1;
  #isOver = false;

  constructor(channel: Channel, options: LinkOptions) {
    this.#channel = channel;
    this.#options = options;
    this.#heartbeat = new Heartbeat(options.times.heartbeat, {
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

  say(message: PrefillMessage): void {
    if (!this.#isOver) this.#channel.send(JSON.stringify(message));
  }

  pair(room: PrefillRoom, peer: DecodePeer): void {
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
    this.#nonces = { ...this.#nonces, decode: message.nonce };
    this.#expected = "proof";
    const proof = proofOf(this.#options.key, "prefill", this.#nonces);
    this.say({ type: "welcome", version: PROTOCOL_VERSION, nonce: this.#nonces.prefill, proof });
  }

  #proof(text: string): void {
    const message = parseMessage<DecodeMessage>(text, ["proof"]) as DecodeMessage & {
      type: "proof";
    };
    const { key, form, onEvent } = this.#options;
    if (!isProof(message.proof, proofOf(key, "decode", this.#nonces))) {
      this.#refuse("the two servers have different keys");
      return;
    }
    const difference = differenceOf(form.whole, message.layout);
    if (difference !== undefined) {
      this.#refuse(difference);
      return;
    }
    const { way } = this.#channel;
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
    this.#isWhole = ranks !== message.ranks || !form.isDivided;
    this.say({ type: "ready", isWhole: this.#isWhole, way: goes ? way!.name : "" });
    if (goes) way!.take(message.offer);
    onEvent?.(`A decode server has connected, pages go by ${goes ? way!.name : "websocket"}`);
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

  #tell(room: PrefillRoom, message: DecodeMessage): void {
    if (message.type === "want") room.want(message.first);
    if (message.type === "taken") room.taken();
    if (message.type === "done") room.skip();
  }

  #send(message: ChannelMessage): void {
    if (!this.#isOver) this.#channel.send(message);
  }
}

/** A request whose room another server has to open, and that names none. */
export function requireRoom(room: string | undefined, requestId: string | undefined): string {
  if (room !== undefined) return room;
  const state = `Disaggregated request received without boostrap room id. req.rid='${requestId ?? ""}'`;
  throw new InvalidRequestError(`Cannot generate: ${state}`, "bootstrap_room");
}
