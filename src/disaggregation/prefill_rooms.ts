/**
 * The rooms of a prefill server: requests that came by HTTP on one side, decode servers on the other,
 * in whichever order they come.
 *
 * @module
 */
import { PageForm, type SharedLayout } from "../cache/page_form.ts";
import { InvalidRequestError } from "../errors.ts";
import { FrameGate } from "./frame_gate.ts";
import type { HeartbeatOptions } from "./heartbeat.ts";
import { MAX_FRAMES_AHEAD } from "./limits.ts";
import { Meeting } from "./meeting.ts";
import { PrefillRoom } from "./prefill_room.ts";
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

const TRANSFER_WORKERS = 8;

export class PrefillRooms extends Meeting<PrefillRoom> {
  readonly #times: RoomTimes;
  readonly #gate: FrameGate;
  /** Of pages of browsers, so that those that take nothing hold no server up. */
  readonly #pagesGate: FrameGate;
  /** Of all rooms so far. */
  readonly figures = new RoomFigures();

  constructor({ layout, key, times, workers = TRANSFER_WORKERS, onEvent }: PrefillRoomsOptions) {
    const { openTimeout, heartbeat } = times;
    const form = new PageForm(layout);
    super({ form, key, openTimeout, heartbeat, hasReplicas: false, onEvent });
    this.#times = times;
    this.#gate = new FrameGate(workers * MAX_FRAMES_AHEAD);
    this.#pagesGate = new FrameGate(workers * MAX_FRAMES_AHEAD);
  }

  /** Rooms with a request, of them those whose pages are on their way, and leases without one. */
  get counts() {
    const { rooms } = this;
    return {
      frames: this.#gate.used + this.#pagesGate.used,
      rooms: rooms.length,
      transferring: rooms.filter(({ state }) => state === "transferring").length,
      ...this.meetingCounts,
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
    const { openTimeout, takeTimeout } = this.#times;
    return this.meet({ room: name, owner }, () => {
      this.figures.opened += 1;
      return new PrefillRoom({
        room: name,
        requestId,
        owner,
        openTimeout,
        takeTimeout,
        gate: owner === undefined ? this.#gate : this.#pagesGate,
        figures: this.figures,
        onOver: (failure) => {
          this.figures.ended(failure);
          this.ended(name, failure?.problem);
        },
      });
    });
  }

  /** Ends rooms of a request, or all, whose pages are still leaving. */
  abort(requestId?: string): void {
    for (const room of this.rooms) {
      if (requestId === undefined || room.requestId === requestId) room.abort();
    }
  }
}

/** A request whose room another server has to open, and that names none. */
export function requireRoom(room: string | undefined, requestId: string | undefined): string {
  if (room !== undefined) return room;
  const state = `Disaggregated request received without boostrap room id. req.rid='${requestId ?? ""}'`;
  throw new InvalidRequestError(`Cannot generate: ${state}`, "bootstrap_room");
}
