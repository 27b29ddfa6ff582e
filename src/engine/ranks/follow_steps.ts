/**
 * A rank of a group whose first rank schedules: it computes its part of each step that it is sent, and
 * decides nothing.
 *
 * @module
 */
import { Checkpoint } from "../../checkpoint/checkpoint.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import { DeviceError, GroupError, KernelError, SpoiledError } from "../../errors.ts";
import { lossOf } from "../../gpu/device.ts";
import { readPart } from "../../layers/ranks/rank_exchange.ts";
import { inAttentionGroups } from "../../parallel/attention_groups.ts";
import type { AttentionGroup } from "../../parallel/communicator.ts";
import { withExportedLayer } from "../draft_model/exported_layer.ts";
import { type GroupResult, ResultExchange, type RowLogprobs } from "../groups/group_results.ts";
import type { LoadedModel } from "../load/load.ts";
import type { LoadOptions } from "../load/load_options.ts";
import { differenceOf, RECOVERY_WAITS } from "../load/recovery.ts";
import { MOST_IN_FLIGHT } from "../schedule/lookahead.ts";
import type { SubmittedStep } from "../step/step_runner.ts";
import { FollowedPages } from "./followed_pages.ts";
import { FollowedTimes } from "./led_times.ts";
import { OrderChannel } from "./order_channel.ts";
import { OrderReader } from "./order_writer.ts";
import { loadAlike } from "./rank_leader.ts";
import { LeavingCommunicator, type RankLink } from "./rank_link.ts";
import type { ExpertsOrder, GroupsOrder, OrderedStep, StepOrder } from "./rank_orders.ts";

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
  try {
    const load = (device: LoadOptions["device"]) => loadPart(from, link, { ...asked, device });
    const follower = new Follower({ link, options: asked, load, first: await load(asked.device) });
    return () => follower.run();
  } catch (error) {
    link.communicator.abort(`it could not load the model: ${(error as Error).message}`);
    throw error;
  }
}

/** This rank's part on a device, which it may leave without breaking the group. */
interface LoadedPart {
  readonly loaded: LoadedModel;
  readonly leaving: LeavingCommunicator;
  /** Which of several groups this rank attends in. */
  readonly attention: AttentionGroup | undefined;
}

/** The sources are closed either way. */
async function loadPart(
  from: WeightSource,
  { communicator: group }: RankLink,
  asked: LoadOptions,
): Promise<LoadedPart> {
  let [source, options] = [from, asked];
  const leaving = new LeavingCommunicator(group);
  const communicator = inAttentionGroups(leaving.communicator, asked.attentionGroups ?? 1);
  try {
    ({ source, options } = await withExportedLayer(from, asked));
    const loaded = await loadAlike(await Checkpoint.open(source), { ...options, communicator });
    return { loaded, leaving, attention: communicator.attention };
  } finally {
    // What has been read is whole, however its files take being let go of.
    await source.close?.().catch(() => {});
    await options.draftModel?.close?.().catch(() => {});
  }
}

/** A step that this rank has computed its part of. */
interface UntoldStep extends SubmittedStep {
  /** What it has gathered, in front of its tokens; absent where another rank does. */
  readonly logprobs: readonly RowLogprobs[] | undefined;
}

interface FollowerOptions {
  readonly link: RankLink;
  readonly options: LoadOptions;
  /** Loads once more, on another device. */
  readonly load: (device: LoadOptions["device"]) => Promise<LoadedPart>;
  readonly first: LoadedPart;
}

class Follower {
  readonly #given: FollowerOptions;
  readonly #pages: FollowedPages;
  readonly #times: FollowedTimes;
  #part: LoadedPart;
  #reader = this.#newReader();
  readonly #results: ResultExchange;
  /** What steps draw here whose tokens this rank has not been told yet; undefined of idle ones. */
  #untold: (UntoldStep | undefined)[] = [];
  #inFlight: Promise<unknown>[] = [];
  #failure: unknown;

  constructor(given: FollowerOptions) {
    this.#given = given;
    this.#part = given.first;
    const { communicator, format } = given.link;
    this.#pages = new FollowedPages(communicator);
    this.#times = new FollowedTimes(communicator, format);
    this.#results = new ResultExchange(communicator, format, given.first.attention?.groups ?? 1);
  }

  /**
   * Follows to the end, and frees the model.
   *
   * @throws {GroupError} when the group has ended.
   * @throws {DeviceError | KernelError} when this rank cannot go on.
   */
  async run(): Promise<void> {
    const { link } = this.#given;
    const channel = new OrderChannel(link.communicator, link.format);
    try {
      for (;;) {
        const receive = () => channel.receive();
        const { watch } = this.#times;
        const order = await (watch?.timer.exchange("an order", receive) ?? receive());
        if (order.type === "end") break;
        if (order.type === "step") await this.#step(order);
        else if (order.type === "step of groups") await this.#stepOfGroups(order);
        else if (order.type === "results") await this.#bringResult();
        else if (order.type === "move experts") await this.#moveExperts(order);
        else if (order.type === "begin times") {
          await this.#times.begin(this.#part.loaded.device, order.wanted);
        } else if (order.type === "end times") await this.#endTimes();
        else if (order.type === "reload") await this.#replaceDevice();
        else await this.#pages.move(order, this.#part.loaded);
        if (this.#failure !== undefined) throw this.#failure;
      }
      await Promise.all(this.#inFlight);
      this.#part.leaving.isInOrder = true;
    } catch (error) {
      // Where this rank has failed, its group has ended for that.
      const reason = this.#failure ?? error;
      if (!(reason instanceof GroupError)) this.#fail(reason);
      throw reason;
    } finally {
      this.#times.forget();
      this.#part.loaded.destroy();
    }
  }

  async #step(order: StepOrder): Promise<void> {
    for (const tokens of order.drawn) this.#compare(this.#untold.shift()!.tokens, tokens);
    await this.#compute(order);
  }

  async #stepOfGroups({ parts, isTimed }: GroupsOrder): Promise<void> {
    const { group, communicator } = this.#part.attention!;
    const part = parts[group];
    if (part !== undefined) {
      // What it gathers, its first rank brings to the first of all.
      const logprobs = communicator.rank === 0 ? [] : undefined;
      return this.#compute({ ...part, isTimed }, logprobs);
    }
    const { runner } = this.#part.loaded;
    runner.recorder.timer = isTimed ? this.#times.watch?.timer : undefined;
    try {
      await runner.idle();
      this.#untold.push(undefined);
    } catch (error) {
      if (!(error instanceof SpoiledError)) throw error;
    }
  }

  /** @param logprobs Takes those that this rank is to gather. Default: it is not to. */
  async #compute(
    order: OrderedStep & Pick<StepOrder, "copies" | "isTimed">,
    logprobs?: RowLogprobs[],
  ): Promise<void> {
    // The first rank has seen the end of so many steps, but this one perhaps not yet.
    while (this.#inFlight.length >= MOST_IN_FLIGHT) await this.#inFlight.shift();
    const { runner, copier } = this.#part.loaded;
    const take = logprobs && ((...row: RowLogprobs) => void logprobs.push(row));
    const { batch, rows, drafts } = this.#reader.read(order, take);
    if (order.copies.length > 0) copier!.copy(order.copies);
    const { sampled, scored } = rows;
    const watch = order.isTimed ? this.#times.watch : undefined;
    runner.recorder.timer = watch?.timer;
    const begun = performance.now();
    try {
      const step = await runner.submit(batch, sampled, { scored, drafts });
      watch?.collector.host("record", begun, performance.now());
      this.#untold.push({ ...step, logprobs });
      this.#inFlight.push(step.tokens.catch((error) => this.#failUnlessLost(error)));
    } catch (error) {
      // The first rank knows too, and has devices replaced.
      if (!(error instanceof SpoiledError)) throw error;
    }
  }

  /** Of the oldest step of groups: the first rank of this one's brings it. */
  async #bringResult(): Promise<void> {
    const step = this.#untold.shift();
    const { attention, loaded } = this.#part;
    try {
      const own = await this.#resultOf(step, loaded);
      const resultOf = await this.#results.meet(
        attention!.communicator.rank === 0 ? own : undefined,
      );
      const first = step && resultOf(attention!.group);
      if (first !== undefined) this.#compare(step!.tokens, first.tokens);
    } catch (error) {
      // The first rank knows too, and has devices replaced.
      if (!(error instanceof SpoiledError)) throw error;
    }
  }

  /** @throws {SpoiledError} on every rank, where this one's device is lost. */
  async #resultOf(
    step: UntoldStep | undefined,
    { device }: LoadedModel,
  ): Promise<GroupResult | undefined> {
    if (step === undefined) return undefined;
    const { communicator } = this.#given.link;
    const { logprobs = [] } = step;
    const results = [step.tokens, step.drafts] as const;
    const own = Promise.all(results).then(([tokens, drafts]) => ({ tokens, drafts, logprobs }));
    await readPart({ device, communicator }, [own.then(() => {})]);
    return own;
  }

  async #moveExperts({ layer, after }: ExpertsOrder): Promise<void> {
    try {
      await this.#part.loaded.runner.moveExperts(layer, after);
    } catch (error) {
      // The first rank knows too, and has devices replaced.
      if (!(error instanceof SpoiledError)) throw error;
    }
  }

  #endTimes(): Promise<void> {
    this.#part.loaded.runner.recorder.timer = undefined;
    return this.#times.end();
  }

  /** Has the group end when the ranks have drawn different tokens. */
  #compare(own: Promise<Uint32Array>, first: Uint32Array): void {
    const compared = own.then((tokens) => {
      const at = tokens.findIndex((token, i) => token !== first[i]);
      if (at === -1) return;
      const drawn = `the first has drawn ${first[at]} from row ${at}, this one ${tokens[at]}`;
      throw new KernelError("ranks", drawn);
    });
    compared.catch((error) => this.#failUnlessLost(error));
  }

  /** Has another device, as empty as those of the other ranks. */
  async #replaceDevice(): Promise<void> {
    const { link, load } = this.#given;
    const { loaded: before, leaving } = this.#part;
    await Promise.all(this.#inFlight);
    this.#inFlight = [];
    this.#untold = [];
    this.#reader = this.#newReader();
    leaving.isInOrder = true;
    this.#times.forget();
    before.destroy();
    before.device.destroy();
    const next = await this.#nextDevice();
    this.#part = await (link.whileLoading ?? ((work) => work()))(() => load(async () => next));
    const difference = differenceOf(before, this.#part.loaded, true);
    if (difference === undefined) return;
    throw new DeviceError(`Cannot go on with another device than the lost one: ${difference}`);
  }

  async #nextDevice(): Promise<GPUDevice> {
    const { device, recoveryWaits = RECOVERY_WAITS } = this.#given.options;
    let cause: unknown;
    for (const seconds of typeof device === "function" ? recoveryWaits : []) {
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
      try {
        return await (device as (which: number) => Promise<GPUDevice>)(0);
      } catch (error) {
        cause = error;
      }
    }
    const reason = cause instanceof Error ? cause.message : "nothing opens another";
    throw new DeviceError(`Cannot replace the device: ${reason}`, { cause });
  }

  #newReader(): OrderReader {
    return new OrderReader((error) => this.#fail(error));
  }

  /** What fails with the device, the first rank hears of by the next exchange. */
  async #failUnlessLost(error: unknown): Promise<void> {
    const { device } = this.#part.loaded;
    if ((await lossOf(device)) === undefined) this.#fail(error);
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#given.link.communicator.abort((error as Error).message);
  }
}
