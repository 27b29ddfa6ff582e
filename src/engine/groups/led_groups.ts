/**
 * Attention groups whose ranks are elsewhere, in processes of their own: the first of all ranks schedules
 * for every group, and an order has what each of them computes in a step.
 *
 * It computes the first group's part as one of its ranks. What the others draw comes back in an exchange
 * of its own, once this rank has computed its part: the next step may be on its way by then.
 *
 * @module
 */
import type { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { DeviceError } from "../../errors.ts";
import { finished } from "../../gpu/submit_poll.ts";
import type { LoadOptions } from "../load/load_options.ts";
import type { EngineModel } from "../ranks/engine_model.ts";
import type { LedModel } from "../ranks/led_group.ts";
import { LedGroup } from "../ranks/led_group.ts";
import { LedTimes } from "../ranks/led_times.ts";
import { OrderWriter } from "../ranks/order_writer.ts";
import { ledMovers, PageLeader } from "../ranks/page_leader.ts";
import { sumOfRanks } from "../ranks/rank_group.ts";
import { loadFirst, sendStep, withoutProcessor } from "../ranks/rank_leader.ts";
import type { RankLink } from "../ranks/rank_link.ts";
import type { GroupPart } from "../ranks/rank_orders.ts";
import type { LogitRows } from "../sample/sampled_row.ts";
import type { StepRunner, SubmittedStep } from "../step/step_runner.ts";
import { type ConductedRanks, Conductor, type GroupOutcome, type GroupStep } from "./conductor.ts";
import { GroupLoading } from "./group_loading.ts";
import { type GroupResult, ResultExchange } from "./group_results.ts";

/** Ranks that attend in groups, an engine for each of which is on the first rank. */
export interface LedAttentionGroups {
  /** What these engines are loaded with, beside what `GroupLoading.of` says of each. */
  readonly options: Required<Pick<LoadOptions, "communicator">>;
  readonly loading: GroupLoading;
  /** As `LedRanks.end`, once all engines are closed. */
  end(): Promise<void>;
}

/** The first of ranks that attend in so many groups. */
export function ledAttentionGroups(link: RankLink, groups: number): LedAttentionGroups {
  const group = new LedGroup(link);
  let newest: LedGroups | undefined;
  const loading = new GroupLoading(groups, async (checkpoint, options) => {
    // An engine that has not heard of a loss yet would order steps, and pages, of the next model.
    newest?.leave();
    newest = await LedGroups.load(checkpoint, group, { ...options, attentionGroups: groups });
    return newest.models;
  });
  return {
    options: { communicator: link.communicator },
    loading,
    end: () => {
      // No engine waits any more for what a last step has drawn.
      newest?.leave();
      return group.inTurn(() => group.send({ type: "end" }));
    },
  };
}

/** A group's part of a step, as its engine waits for it. */
interface WaitingPart {
  readonly group: number;
  readonly rows: LogitRows;
  resolve(result: GroupResult): void;
  reject(error: unknown): void;
}

/** A step that is on the queues of ranks, and what it has come to on this one. */
interface SentStep {
  /** Absent where the first group was idle. */
  readonly own: SubmittedStep | undefined;
  /** Resolves once this rank has computed its part. */
  readonly done: Promise<unknown>;
  readonly waiting: readonly WaitingPart[];
}

class LedGroups implements ConductedRanks {
  readonly groups: number;
  readonly models: readonly EngineModel[];
  readonly #model: LedModel;
  readonly #pages: readonly PageLeader[];
  readonly #writers: readonly OrderWriter[];
  readonly #results: ResultExchange;
  /** The results of one step after the other. */
  #collecting: Promise<void> = Promise.resolve();
  /** Why no step can be computed any more. */
  #failure: unknown;
  /** Groups whose engines have the model. */
  #users: number;

  static async load(
    checkpoint: Checkpoint,
    group: LedGroup,
    options: LoadOptions & { readonly attentionGroups: number },
  ): Promise<LedGroups> {
    return new LedGroups(await loadFirst(checkpoint, group, options), options.attentionGroups);
  }

  private constructor(model: LedModel, groups: number) {
    const { communicator, loaded, group } = model;
    const count = communicator.size / groups;
    const each = <T>(of: (group: number) => T) => Array.from({ length: groups }, (_, i) => of(i));
    this.groups = groups;
    this.#users = groups;
    this.#model = model;
    this.#pages = each((i) => new PageLeader(model, { first: i * count, count }));
    const { maxRunningRequests } = loaded.options;
    this.#writers = each((i) => new OrderWriter(maxRunningRequests, i > 0));
    this.#results = new ResultExchange(communicator, group.link.format, groups);
    const conductor = new Conductor({ ranks: this });
    this.models = each((i) => this.#modelOf(i, conductor));
  }

  /** As the engine of a group has it. */
  #modelOf(group: number, conductor: Conductor): EngineModel {
    const { loaded, lost } = this.#model;
    const { link } = this.#model.group;
    const { first, count } = this.#pages[group]!.ranks;
    let isUsed = true;
    return {
      ...loaded,
      ...ledMovers(this.#model, this.#pages[group]!),
      figures: {
        ...loaded.figures,
        ...sumOfRanks(loaded.figures.ranks!.slice(first, first + count)),
      },
      devices: [loaded.device],
      runner: this.#runnerOf(group, conductor),
      lost,
      hasSampled: () => conductor.hasSampled,
      abandon: (reason) => link.communicator.abort(reason),
      destroy: () => {
        if (isUsed) this.#users -= 1;
        isUsed = false;
        this.#pages[group]!.isGone = true;
        // The others may still compute.
        if (this.#users === 0) loaded.destroy();
      },
    };
  }

  /** A profile is one of all ranks, which the first group's engine takes. */
  #runnerOf(group: number, conductor: Conductor): StepRunner {
    const { loaded, communicator, group: led } = this.#model;
    const { runner } = loaded;
    return {
      ...(group === 0 && { rankTimes: new LedTimes(communicator, led) }),
      recorder: runner.recorder,
      maxScoredRows: runner.maxScoredRows,
      get overlappedSteps() {
        return runner.overlappedStepsOf(group);
      },
      moveExperts: (layer, after) => conductor.moveExperts(layer, after),
      submit: (batch, sampling, options) => conductor.submit(group, batch, sampling, options),
    };
  }

  /** The model is not used any more: ranks have another one, or are about to. */
  leave(): void {
    this.#failure ??= new DeviceError("Cannot compute a step: the device is lost");
    this.#model.isLeft = true;
    for (const pages of this.#pages) pages.isGone = true;
  }

  moveExperts(layer: number, after: readonly number[]): Promise<void> {
    return this.#model.moveExperts(layer, after);
  }

  /** A step that fails though the devices are there ends all groups. */
  renew(): void {}

  async compute(steps: ReadonlyMap<number, GroupStep>): Promise<readonly GroupOutcome[]> {
    const numbers = Array.from({ length: this.groups }, (_, group) => group);
    try {
      const work = () => this.#compute(steps);
      const submitted = await this.#model.together(work, "its step failed");
      if (submitted === undefined) throw this.#failure;
      return numbers.map((group) => ({ status: "fulfilled", value: submitted.get(group) }));
    } catch (reason) {
      this.#failure ??= reason;
      return numbers.map(() => ({ status: "rejected", reason }));
    }
  }

  /** Undefined where no step can be computed any more. */
  async #compute(
    steps: ReadonlyMap<number, GroupStep>,
  ): Promise<ReadonlyMap<number, SubmittedStep> | undefined> {
    if (this.#failure !== undefined) return undefined;
    const { runner, device } = this.#model.loaded;
    const rows = new Map<number, LogitRows>();
    for (const [group, { sampling, options }] of steps) {
      const wanted = { sampled: sampling.map(withoutProcessor), scored: options.scored ?? [] };
      // What this rank has no memory for, it asks no other for.
      rows.set(group, await runner.makeRoom(wanted));
    }
    const parts = this.#pages.map((pages, group): GroupPart | undefined => {
      const step = steps.get(group);
      if (step === undefined) return undefined;
      const given = { ...step, rows: rows.get(group)!, drafts: step.options.drafts };
      return { copies: pages.takeCopies(), ...this.#writers[group]!.write(given) };
    });
    const wanted = [...steps.values()].find(({ options }) => options.onExperts);
    const onExperts = wanted?.options.onExperts;
    const first = steps.get(0);
    // A profile shows what the first group has a part of.
    runner.recorder.isUntimed = first === undefined;
    try {
      await sendStep(this.#model, (isTimed) => ({ type: "step of groups", isTimed, parts }));
      if (first === undefined) {
        const { counted } = await runner.idle(onExperts);
        const computed = finished(device, device.queue.onSubmittedWorkDone());
        const done = Promise.all([counted, computed]);
        // It may fail while results of an earlier step are awaited; who collects them hears of it.
        done.catch(() => {});
        return this.#await({ own: undefined, done }, rows);
      }
      const { sampled, scored } = rows.get(0)!;
      const options = { ...first.options, scored, onExperts };
      const own = await runner.submit(first.batch, sampled, options);
      return this.#await({ own, done: own.tokens }, rows);
    } finally {
      runner.recorder.isUntimed = false;
    }
  }

  /** @param rows Of the groups that are in the step. */
  #await(
    sent: Pick<SentStep, "own" | "done">,
    rows: ReadonlyMap<number, LogitRows>,
  ): ReadonlyMap<number, SubmittedStep> {
    const submitted = new Map<number, SubmittedStep>();
    if (sent.own !== undefined) submitted.set(0, sent.own);
    const waiting: WaitingPart[] = [];
    for (const [group, ofGroup] of rows) {
      if (group === 0) continue;
      const result = new Promise<GroupResult>((resolve, reject) => {
        waiting.push({ group, rows: ofGroup, resolve, reject });
      });
      const [tokens, drafts] = [result.then((one) => one.tokens), result.then((one) => one.drafts)];
      // A caller that takes tokens only is told of a loss by them.
      for (const one of [tokens, drafts]) one.catch(() => {});
      submitted.set(group, { tokens, drafts });
    }
    this.#collecting = this.#collecting.then(() => this.#collect({ ...sent, waiting }));
    return submitted;
  }

  /** Never rejects: those who wait are told. */
  async #collect({ own, done, waiting }: SentStep): Promise<void> {
    try {
      await done;
      const work = () => this.#bring(own);
      const resultOf = await this.#model.together(work, "it could not tell what it has drawn");
      if (resultOf === undefined) throw this.#failure;
      for (const { group, rows, resolve } of waiting) {
        const result = resultOf(group)!;
        deliver(result, rows);
        resolve(result);
      }
    } catch (error) {
      this.#failure ??= error;
      for (const { reject } of waiting) reject(error);
      await this.#model.endUnlessLost(error as Error);
    }
  }

  /** Undefined where the step is of no use any more. */
  async #bring(own: SubmittedStep | undefined) {
    const { group, lost } = this.#model;
    const result = own && { tokens: await own.tokens, drafts: await own.drafts, logprobs: [] };
    // A loss that is told of later spoils what follows.
    const loss = await Promise.race([lost, undefined]);
    if (loss !== undefined) this.#failure ??= new DeviceError(lostText(loss));
    if (this.#failure !== undefined) return undefined;
    await group.send({ type: "results" });
    return this.#results.meet(result);
  }
}

const lostText = ({ message, reason }: Pick<GPUDeviceLostInfo, "message" | "reason">) =>
  `Cannot compute a step: the device is lost (${message || reason})`;

/** Log-probabilities come in front of tokens. What goes wrong with a row's is no other row's matter. */
function deliver({ logprobs }: GroupResult, { sampled, scored }: LogitRows): void {
  const rows = [...sampled, ...scored];
  for (const [number, tokens, values] of logprobs) {
    const row = rows[number]!;
    try {
      row.logprobs!.deliver(tokens, values);
    } catch (error) {
      row.fail?.(error);
    }
  }
}
