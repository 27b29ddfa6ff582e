/**
 * What the first rank keeps of its group for as long as it is there, whichever device its model is on:
 * orders go out one at a time, and other ranks keep pages under numbers that it gives.
 *
 * @module
 */
import { DeviceError, SpoiledError } from "../../errors.ts";
import { lossOf } from "../../gpu/device.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { LoadedModel } from "../load/load.ts";
import { OrderChannel } from "./order_channel.ts";
import type { RankLink } from "./rank_link.ts";
import type { RankOrder } from "./rank_orders.ts";

type Loss = Pick<GPUDeviceLostInfo, "message" | "reason">;

export class LedGroup {
  readonly link: RankLink;
  readonly #channel: OrderChannel;
  #turn: Promise<unknown> = Promise.resolve();
  /** Whether the ranks have loaded: another load replaces a device. */
  isLoaded = false;
  readonly #kept = new WeakMap<Uint8Array, number>();
  #nextKept = 0;
  #released: number[] = [];

  constructor(link: RankLink) {
    this.link = link;
    this.#channel = new OrderChannel(link.communicator, link.format);
  }

  /** Begins once everything that took its turn before is done: ranks do one thing at a time. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }

  /** As `OrderChannel.send`; to be called in a turn. */
  send(order: RankOrder): Promise<void> {
    return this.#channel.send(order);
  }

  /** A number for pages that every rank is to keep. */
  nextKept(): number {
    this.#nextKept += 1;
    return this.#nextKept;
  }

  /** Every rank has kept its part under the number; this one's is `bytes`. */
  keeps(bytes: Uint8Array, id: number): void {
    this.#kept.set(bytes, id);
  }

  keptAs(bytes: Uint8Array): number | undefined {
    return this.#kept.get(bytes);
  }

  /** What is not wanted any more, or not every rank has, the others forget with their next order of pages. */
  release(id: number | undefined): void {
    if (id !== undefined) this.#released.push(id);
  }

  takeReleased(): readonly number[] {
    return this.#released.splice(0);
  }
}

/**
 * The first rank's part of a model whose other parts follow it: how it has all ranks do something
 * together, and what becomes of them where that fails.
 */
export class LedModel {
  readonly loaded: LoadedModel;
  readonly group: LedGroup;
  /** Of all ranks; a model that is destroyed leaves it. */
  readonly communicator: Communicator;
  /** Resolves when this rank's device is lost, or another one tells that its own is. */
  readonly lost: Promise<Loss>;
  #tellLoss: (loss: Loss) => void = () => {};
  /** Whether ranks have another model, or are about to: no order is of this one any more. */
  isLeft = false;

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

  /**
   * Every rank moves them, with the bytes of the rank that has each.
   *
   * @throws {DeviceError} where the model is left: its experts are gone with it.
   */
  async moveExperts(layer: number, after: readonly number[]): Promise<void> {
    const hasMoved = await this.together(async () => {
      if (this.isLeft) return false;
      await this.group.send({ type: "move experts", layer, after });
      await this.loaded.runner.moveExperts(layer, after);
      return true;
    }, "its experts did not move");
    if (!hasMoved) throw new DeviceError("Cannot move experts: the device is lost");
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
