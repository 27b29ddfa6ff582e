/**
 * Where requests of a prefill server meet the decode servers that open their rooms, in whichever order
 * they come.
 *
 * @module
 */
import type { PageForm } from "../cache/page_form.ts";
import { CapacityError, InvalidRequestError, TransferError } from "../errors.ts";
import type { Channel } from "./channel.ts";
import type { HeartbeatOptions } from "./heartbeat.ts";
import { MAX_OWNER_CHANNELS, MAX_OWNER_LEASES, MAX_ROOMS } from "./limits.ts";
import { shortened } from "./messages.ts";
import { type MetRoom, PrefillLink } from "./prefill_link.ts";
import type { DecodePeer } from "./prefill_room.ts";
import { LinkKey, UsedTickets } from "./ticket.ts";

export interface MeetingOptions {
  readonly form: PageForm;
  /** Empty where there is none. */
  readonly key: string;
  /** Milliseconds until both sides of a room must be there. */
  readonly openTimeout: number;
  readonly heartbeat: HeartbeatOptions;
  /** Whether decode servers are only told which replica has a room, and go there. */
  readonly hasReplicas: boolean;
  /** Told when a decode server comes or goes, or is refused. */
  readonly onEvent?: ((text: string) => void) | undefined;
}

/** Of a room's request. */
interface RoomRequest {
  readonly room: string;
  /** Whose tickets open it. Default: those who know the key do. */
  readonly owner?: string | undefined;
}

/** A lease of a decode server that no request has come for yet. */
interface Awaited {
  readonly peer: DecodePeer;
  readonly link: PrefillLink;
  readonly timer: ReturnType<typeof setTimeout>;
}

const OTHERS_ROOM = "the room was made for another decode server";
/** Failures that are remembered for sides that come too late. */
const REMEMBERED = 1024;

export class Meeting<Room extends MetRoom> {
  readonly #options: MeetingOptions;
  readonly #rooms = new Map<string, Room>();
  readonly #awaited = new Map<string, Awaited>();
  /** Why rooms have failed before a decode server came. */
  readonly #failed = new Map<string, string>();
  readonly #links = new Set<PrefillLink>();
  readonly #tickets = new UsedTickets();

  constructor(options: MeetingOptions) {
    this.#options = options;
  }

  /** Leases without a request, and decode servers that are connected. */
  get meetingCounts() {
    return {
      awaited: this.#awaited.size,
      servers: [...this.#links].filter(({ isReady }) => isReady).length,
    };
  }

  /** Those that have a request. */
  get rooms(): readonly Room[] {
    return [...this.#rooms.values()];
  }

  /**
   * A request has come.
   *
   * @param create Makes its room, which calls `ended` once it is over.
   * @throws {InvalidRequestError} when another one has the room.
   * @throws {CapacityError} when there are too many.
   */
  protected meet({ room: name, owner }: RoomRequest, create: () => Room): Room {
    if (this.#rooms.has(name)) {
      const state = `Cannot open room ${name}: another request that lives has it`;
      throw new InvalidRequestError(state, "bootstrap_room");
    }
    if (this.#rooms.size >= MAX_ROOMS) {
      const state = `all ${MAX_ROOMS} rooms are taken; one is free when a request ends`;
      throw new CapacityError("places in the request queue", MAX_ROOMS, state);
    }
    this.#failed.delete(name);
    const room = create();
    this.#rooms.set(name, room);
    const awaited = this.#awaited.get(name);
    if (awaited !== undefined) {
      this.#forgetAwaited(name);
      if (awaited.link.owner === owner) awaited.link.pair(room, awaited.peer);
      else awaited.link.refuse(awaited.peer.lease, OTHERS_ROOM);
    }
    return room;
  }

  /** A room is over. @param problem Why it has failed, where it has. */
  protected ended(name: string, problem: string | undefined): void {
    const hadPeer = this.#rooms.get(name)?.hasPeer;
    this.#rooms.delete(name);
    if (problem !== undefined && hadPeer === false) this.#remember(name, problem);
  }

  /**
   * A connection from a server that says what it is first.
   *
   * @param needsTicket Whether the key alone is not enough, as of pages of browsers.
   */
  accept(channel: Channel, needsTicket = false): void {
    const { form, key, heartbeat, hasReplicas, onEvent } = this.#options;
    const link = new PrefillLink(channel, {
      form,
      hasReplicas,
      shared: new LinkKey({ key, needsTicket, used: this.#tickets }),
      heartbeat,
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
    const { openTimeout } = this.#options;
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
