/**
 * A rank's end of a group whose ranks are processes, as an engine has it.
 *
 * @module
 */
import { SpoiledError } from "../../errors.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { PlainFormat } from "./order_channel.ts";

/** The ranks that are processes, as one of them has them. */
export interface RankLink {
  readonly communicator: Communicator;
  readonly format: PlainFormat;
  /** Does what ranks wait long for each other at: a model is read again. Default: as everything else. */
  readonly whileLoading?: <T>(work: () => Promise<T>) => Promise<T>;
}

/** A rank's end of its group, which a model on one device may leave without breaking the group. */
export class LeavingCommunicator {
  isInOrder = false;
  readonly communicator: Communicator;

  constructor(group: Communicator) {
    const { rank, size, allocate, release } = group;
    // Behind a device that is lost there is another, whatever the model on this one comes to.
    const going = (error: unknown): never => {
      if (error instanceof SpoiledError) this.isInOrder = true;
      throw error;
    };
    this.communicator = {
      rank,
      size,
      allocate,
      release,
      allGather: (part, into, exchange) => group.allGather(part, into, exchange).catch(going),
      allToAll: (part, into, exchange) => group.allToAll(part, into, exchange).catch(going),
      ...(group.spoil && { spoil: (reason: string) => group.spoil!(reason).catch(going) }),
      abort: (reason) => {
        if (!this.isInOrder) group.abort(reason);
      },
    };
  }
}
