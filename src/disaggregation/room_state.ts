/**
 * How far a room has come. It only goes forward, and ends once.
 *
 * @module
 */
import { KernelError } from "../errors.ts";

/** As servers of this kind call them, in their order; `failed` may follow each but the last. */
export const ROOM_STATES = [
  "bootstrapping",
  "waiting for input",
  "transferring",
  "success",
  "failed",
] as const;

export type RoomStateName = (typeof ROOM_STATES)[number];

export class RoomState {
  #name: RoomStateName = "bootstrapping";

  get name(): RoomStateName {
    return this.#name;
  }

  get isOver(): boolean {
    return this.#name === "success" || this.#name === "failed";
  }

  /**
   * @returns Whether it went there: not where it is over already.
   * @throws {KernelError} for a state that lies behind.
   */
  advance(name: RoomStateName): boolean {
    if (this.isOver) return false;
    if (ROOM_STATES.indexOf(name) < ROOM_STATES.indexOf(this.#name)) {
      throw new KernelError("room", `it cannot go from "${this.#name}" to "${name}"`);
    }
    this.#name = name;
    return true;
  }
}
