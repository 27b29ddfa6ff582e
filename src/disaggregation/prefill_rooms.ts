/**
 * The rooms of a prefill server: requests that came by HTTP on one side, decode servers on the other,
 * in whichever order they come.
 *
 * @module
 */
import { PageForm, type SharedLayout } from "../cache/page_form.ts";
import { CapacityError, InvalidRequestError, TransferError } from "../errors.ts";
import type { Channel } from "./channel.ts";
import { FrameGate } from "./frame_gate.ts";
import type { HeartbeatOptions } from "./heartbeat.ts";
import { MAX_FRAMES_AHEAD, MAX_OWNER_CHANNELS, MAX_OWNER_LEASES, MAX_ROOMS } from "./limits.ts";
import { shortened } from "./messages.ts";
import { PrefillLink } from "./prefill_link.ts";
import { type DecodePeer, PrefillRoom } from "./prefill_room.ts";
import { RoomFigures } from "./room_figures.ts";
import { LinkKey, UsedTickets } from "./ticket.ts";

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
  readonly link: PrefillLink;
  readonly timer: ReturnType<typeof setTimeout>;
}

const TRANSFER_WORKERS = 8;
const OTHERS_ROOM = "the room was made for another decode server";
/** Failures that are remembered for sides that come too late. */
const REMEMBERED = 1024;

export class PrefillRooms {
  readonly #options: PrefillRoomsOptions;
  readonly #rooms = new Map<string, PrefillRoom>();
  readonly #awaited = new Map<string, Awaited>();
  /** Why rooms have failed before a decode server came. */
  readonly #failed = new Map<string, string>();
  readonly #links = new Set<PrefillLink>();
  readonly #form: PageForm;
  readonly #gate: FrameGate;
  /** Of pages of browsers, so that those that take nothing hold no server up. */
  readonly #pagesGate: FrameGate;
  readonly #tickets = new UsedTickets();
  /** Of all rooms so far. */
  readonly figures = new RoomFigures();

  constructor(options: PrefillRoomsOptions) {
    this.#options = options;
    const { layout, workers = TRANSFER_WORKERS } = options;
    this.#form = new PageForm(layout);
    this.#gate = new FrameGate(workers * MAX_FRAMES_AHEAD);
    this.#pagesGate = new FrameGate(workers * MAX_FRAMES_AHEAD);
  }

  /** Rooms with a request, of them those whose pages are on their way, and leases without one. */
  get counts() {
    return {
      frames: this.#gate.used + this.#pagesGate.used,
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
   * @param owner Whose tickets open it. Default: those who know the key do.
   * @throws {InvalidRequestError} when another one has the room.
   * @throws {CapacityError} when there are too many.
   */
  open(name: string, requestId?: string, owner?: string): PrefillRoom {
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
      owner,
      openTimeout,
      takeTimeout,
      gate: owner === undefined ? this.#gate : this.#pagesGate,
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
      if (awaited.link.owner === owner) awaited.link.pair(room, awaited.peer);
      else awaited.link.refuse(awaited.peer.lease, OTHERS_ROOM);
    }
    return room;
  }

  /** Ends rooms of a request, or all, whose pages are still leaving. */
  abort(requestId?: string): void {
    for (const room of [...this.#rooms.values()]) {
      if (requestId === undefined || room.requestId === requestId) room.abort();
    }
  }

  /**
   * A connection from a server that says what it is first.
   *
   * @param needsTicket Whether the key alone is not enough, as of pages of browsers.
   */
  accept(channel: Channel, needsTicket = false): void {
    const { key, times, onEvent } = this.#options;
    const link = new PrefillLink(channel, {
      form: this.#form,
      shared: new LinkKey({ key, needsTicket, used: this.#tickets }),
      heartbeat: times.heartbeat,
      onEvent,
      onOwner: (owner) => this.#owned(owner, link),
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

  /** @throws {TransferError} where too many pages of browsers are here. */
  #owned(owner: string, link: PrefillLink): void {
    const owned = [...this.#links].filter((one) => one !== link && one.owner !== undefined);
    // It has connected again: its older connection is lost, or one too many.
    const older = owned.find((one) => one.owner === owner);
    if (older !== undefined) older.end("its owner has connected again");
    else if (owned.length >= MAX_OWNER_CHANNELS) {
      const problem = `${MAX_OWNER_CHANNELS} pages of browsers are here, which are the most`;
      throw new TransferError("a message", "ticket", problem);
    }
  }

  #leasesOf(owner: string): number {
    let count = 0;
    for (const { link } of this.#awaited.values()) if (link.owner === owner) count += 1;
    return count;
  }

  #opened(name: string, peer: DecodePeer, link: PrefillLink): void {
    const room = this.#rooms.get(name);
    const refuse = (problem: string) => link.refuse(peer.lease, problem);
    if (room !== undefined && room.owner !== link.owner) {
      refuse(OTHERS_ROOM);
      return;
    }
    if (room !== undefined && !room.hasPeer) {
      link.pair(room, peer);
      return;
    }
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
    if (link.owner !== undefined && this.#leasesOf(link.owner) >= MAX_OWNER_LEASES) {
      refuse(`${MAX_OWNER_LEASES} leases wait for their requests, which are the most`);
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

/** A request whose room another server has to open, and that names none. */
export function requireRoom(room: string | undefined, requestId: string | undefined): string {
  if (room !== undefined) return room;
  const state = `Disaggregated request received without boostrap room id. req.rid='${requestId ?? ""}'`;
  throw new InvalidRequestError(`Cannot generate: ${state}`, "bootstrap_room");
}
