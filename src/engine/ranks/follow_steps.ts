/**
 * A rank of a group whose first rank schedules: it computes its part of each step that it is sent, and
 * decides nothing.
 *
 * @module
 */
import { Checkpoint } from "../../checkpoint/checkpoint.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import { DeviceError, KernelError } from "../../errors.ts";
import { withExportedLayer } from "../draft_model/exported_layer.ts";
import type { LoadedModel } from "../load/load.ts";
import type { LoadOptions } from "../load/load_options.ts";
import { MOST_IN_FLIGHT } from "../schedule/lookahead.ts";
import { OrderChannel } from "./order_channel.ts";
import { OrderReader } from "./order_writer.ts";
import { LeavingCommunicator, loadAlike, type RankLink } from "./rank_leader.ts";
import type { StepOrder } from "./rank_orders.ts";

/**
 * Loads this rank's part of a model.
 *
 * @returns Follows the first rank until that says that the work is done, and frees the model.
 * @throws As `loadModel`; the sources are closed either way.
 */
export async function loadFollower(
  from: WeightSource,
  link: RankLink,
  asked: LoadOptions,
): Promise<() => Promise<void>> {
  let [source, options] = [from, asked];
  const leaving = new LeavingCommunicator(link.communicator);
  try {
    ({ source, options } = await withExportedLayer(from, asked));
    const { communicator } = leaving;
    const loaded = await loadAlike(await Checkpoint.open(source), { ...options, communicator });
    return async () => {
      try {
        await new Follower(loaded, link).run();
        leaving.isInOrder = true;
      } finally {
        loaded.destroy();
      }
    };
  } catch (error) {
    link.communicator.abort(`it could not load the model: ${(error as Error).message}`);
    throw error;
  } finally {
    // What has been read is whole, however its files take being let go of.
    await source.close?.().catch(() => {});
    await options.draftModel?.close?.().catch(() => {});
  }
}

class Follower {
  readonly #loaded: LoadedModel;
  readonly #link: RankLink;
  readonly #reader = new OrderReader((error) => this.#fail(error));
  /** What steps draw here whose tokens the first rank has not told yet. */
  readonly #untold: Promise<Uint32Array>[] = [];
  readonly #inFlight: Promise<unknown>[] = [];
  #failure: unknown;
  #isOver = false;

  constructor(loaded: LoadedModel, link: RankLink) {
    this.#loaded = loaded;
    this.#link = link;
  }

  /**
   * @throws {GroupError} when the group has ended.
   * @throws {DeviceError | KernelError} when this rank cannot go on.
   */
  async run(): Promise<void> {
    const channel = new OrderChannel(this.#link.communicator, this.#link.format);
    this.#watchDevice();
    try {
      for (;;) {
        const order = await channel.receive();
        if (order.type === "end") break;
        await this.#step(order);
        if (this.#failure !== undefined) throw this.#failure;
      }
      await Promise.all(this.#inFlight);
      this.#isOver = true;
    } catch (error) {
      // Where this rank has failed, its group has ended for that.
      throw this.#failure ?? error;
    }
  }

  async #step(order: StepOrder): Promise<void> {
    for (const tokens of order.drawn) this.#compare(this.#untold.shift()!, tokens);
    // The first rank has seen the end of so many steps, but this one perhaps not yet.
    while (this.#inFlight.length >= MOST_IN_FLIGHT) await this.#inFlight.shift();
    const { runner, copier } = this.#loaded;
    const { batch, rows, drafts } = this.#reader.read(order);
    if (order.copies.length > 0) copier!.copy(order.copies);
    const { sampled, scored } = rows;
    const { tokens } = await runner.submit(batch, sampled, { scored, drafts });
    this.#untold.push(tokens);
    this.#inFlight.push(tokens);
  }

  /** Has the group end when the ranks have drawn different tokens. */
  #compare(own: Promise<Uint32Array>, first: Uint32Array): void {
    const compared = own.then((tokens) => {
      const at = tokens.findIndex((token, i) => token !== first[i]);
      if (at === -1) return;
      const drawn = `the first has drawn ${first[at]} from row ${at}, this one ${tokens[at]}`;
      throw new KernelError("ranks", drawn);
    });
    compared.catch((error) => this.#fail(error));
  }

  #watchDevice(): void {
    this.#loaded.device.lost.then(({ message, reason }) => {
      if (this.#isOver) return;
      this.#fail(new DeviceError(`Cannot go on: the device is lost (${message || reason})`));
    });
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#link.communicator.abort((error as Error).message);
  }
}
