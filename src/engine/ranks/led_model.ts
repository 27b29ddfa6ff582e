/**
 * The first rank's part of a model whose other parts follow it: how it has all ranks do something
 * together, and what becomes of them where that fails.
 *
 * @module
 */
import { DeviceError, SpoiledError } from "../../errors.ts";
import { lossOf } from "../../gpu/device.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { LoadedModel } from "../load/load.ts";
import type { LedGroup } from "./led_group.ts";

type Loss = Pick<GPUDeviceLostInfo, "message" | "reason">;

export class LedModel {
  readonly loaded: LoadedModel;
  readonly group: LedGroup;
  /** Of all ranks; a model that is destroyed leaves it. */
  readonly communicator: Communicator;
  /** Resolves when this rank's device is lost, or another one tells that its own is. */
  readonly lost: Promise<Loss>;
  #tellLoss: (loss: Loss) => void = () => {};

  constructor(loaded: LoadedModel, group: LedGroup, communicator: Communicator) {
    this.loaded = loaded;
    this.group = group;
    this.communicator = communicator;
    const told = new Promise<Loss>((resolve) => {
      this.#tellLoss = resolve;
    });
    this.lost = Promise.race([loaded.device.lost, told]);
  }

  /**
   * Does in a turn of its own what all ranks do. The others wait for the next order, or for this rank's
   * part of what they do: where it fails though no device is lost, the group ends.
   *
   * @param failure What they are told then, in front of the reason.
   * @throws {DeviceError} when a rank has lost its device.
   */
  async together<T>(work: () => Promise<T>, failure: string): Promise<T> {
    try {
      return await this.group.inTurn(work);
    } catch (error) {
      if (error instanceof SpoiledError) throw this.lossBy(error);
      this.communicator.abort(`${failure}: ${(error as Error).message}`);
      throw error;
    }
  }

  /** Every rank moves them, with the bytes of the rank that has each. */
  moveExperts(layer: number, after: readonly number[]): Promise<void> {
    return this.together(async () => {
      await this.group.send({ type: "move experts", layer, after });
      await this.loaded.runner.moveExperts(layer, after);
    }, "its experts did not move");
  }

  /** A device is lost, this rank's or another one's. */
  lossBy(cause: Error): DeviceError {
    const { message } = cause;
    this.#tellLoss({ message, reason: "unknown" });
    return cause instanceof DeviceError ? cause : new DeviceError(message, { cause });
  }

  /**
   * No step of ranks that are processes is computed again while their devices are there: the others are
   * not to wait for the next.
   */
  async endUnlessLost({ message }: Error): Promise<void> {
    if ((await lossOf(this)) !== undefined) return;
    this.communicator.abort(`its step failed: ${message}`);
  }
}
