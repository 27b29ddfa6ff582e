/**
 * Has attention groups compute their steps together: each has a scheduler of its own, and all of them
 * meet in front of experts.
 *
 * A step is one of all groups. It takes what each of them has ready; the others are idle in it, and
 * compute what their ranks have for the rows of those that are not. A group that has just been in a step
 * is waited for a moment, so that groups which are busy stay together, and one that comes late, or never,
 * holds no other up for longer.
 *
 * @module
 */
import { GroupError } from "../../errors.ts";
import type { Batch } from "../../layers/batch.ts";
import type { SampledRow } from "../sample/sampled_row.ts";
import type { StepOptions, SubmittedStep } from "../step/step_runner.ts";

/** A group's ranks, as steps reach them. */
export interface ConductedGroup {
  submit(
    batch: Batch,
    sampling: readonly SampledRow[],
    options: StepOptions,
  ): Promise<SubmittedStep>;
  /** Takes part in a step of others. */
  idle(): Promise<void>;
  moveExperts(layer: number, after: readonly number[]): Promise<void>;
}

/** What a group has asked for, as its runner was asked. */
export interface GroupStep {
  readonly batch: Batch;
  readonly sampling: readonly SampledRow[];
  readonly options: StepOptions;
}

/** The ranks of all groups, wherever they are. */
export interface ConductedRanks {
  /** How many groups there are. */
  readonly groups: number;
  /**
   * Computes a step of all groups, in which those that have asked for none are idle. Never rejects.
   *
   * @returns What has become of each group's part.
   */
  compute(steps: ReadonlyMap<number, GroupStep>): Promise<readonly GroupOutcome[]>;
  /** Has ranks meet again behind a step that has failed, once none waits. */
  renew(): void;
  moveExperts(layer: number, after: readonly number[]): Promise<void>;
}

export type GroupOutcome = PromiseSettledResult<SubmittedStep | undefined>;

export interface ConductorOptions {
  readonly ranks: ConductedRanks;
  /** The longest wait for a group that was in the last step, in milliseconds. Default 20. */
  readonly maxWait?: number;
}

interface AskedStep extends GroupStep {
  resolve(step: SubmittedStep): void;
  reject(error: unknown): void;
}

const MAX_WAIT = 20;
/** The shortest, which timers can tell from none. */
const LEAST_WAIT = 1;
/** Of the time that a step takes, what may be waited for another group. */
const WAITED_SHARE = 0.5;
/** Steps that have to succeed behind one that has failed until groups compute together again. */
const STEPS_ALONE = 64;

export class Conductor {
  readonly #options: ConductorOptions;
  readonly #asked = new Map<number, AskedStep>();
  /** Groups that were in the last step and have not come with the next. */
  readonly #due = new Set<number>();
  #allCame: (() => void) | undefined;
  #isRunning = false;
  /** One step, or one move of experts, after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  #stepTime = 0;
  /** Steps in which groups take turns: a step that fails does not tell whose rows are the reason. */
  #alone = 0;
  #last = -1;
  /** Whether a step of any group has sampled a token. */
  hasSampled = false;

  constructor(options: ConductorOptions) {
    this.#options = options;
  }

  /** As `StepRunner.submit`, of one group. */
  submit(
    group: number,
    batch: Batch,
    sampling: readonly SampledRow[],
    options: StepOptions = {},
  ): Promise<SubmittedStep> {
    return new Promise((resolve, reject) => {
      this.#asked.set(group, { batch, sampling, options, resolve, reject });
      this.#due.delete(group);
      if (this.#due.size === 0) this.#allCame?.();
      if (!this.#isRunning) this.#run();
    });
  }

  /** As `StepRunner.moveExperts`, on the ranks of all groups. */
  moveExperts(layer: number, after: readonly number[]): Promise<void> {
    return this.#inTurn(() => this.#options.ranks.moveExperts(layer, after));
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#asked.size > 0) {
      await this.#othersCome();
      await this.#inTurn(() => this.#step());
    }
    this.#isRunning = false;
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }

  /** Waits a moment for groups that may be about to come. */
  async #othersCome(): Promise<void> {
    const { maxWait = MAX_WAIT } = this.#options;
    if (this.#due.size === 0 || this.#alone > 0) return;
    const most = Math.min(Math.max(WAITED_SHARE * this.#stepTime, LEAST_WAIT), maxWait);
    let timer: ReturnType<typeof setTimeout> | undefined;
    await new Promise<void>((resolve) => {
      this.#allCame = resolve;
      timer = setTimeout(resolve, most);
    });
    clearTimeout(timer);
    this.#allCame = undefined;
    this.#due.clear();
  }

  /** Never rejects: those who have asked are told. */
  async #step(): Promise<void> {
    const { ranks } = this.#options;
    const steps = this.#take();
    const begun = performance.now();
    const results = await ranks.compute(steps);
    this.#stepTime = performance.now() - begun;
    const reasons = results.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
    // One that was only left alone by another says less.
    const cause = reasons.find((reason) => !(reason instanceof GroupError)) ?? reasons[0];
    if (reasons.length > 0) {
      ranks.renew();
      this.#alone = STEPS_ALONE;
    } else {
      this.#alone = Math.max(this.#alone - 1, 0);
    }
    for (const [number, { resolve, reject }] of steps) {
      const result = results[number]!;
      this.#due.add(number);
      if (result.status === "rejected") {
        reject(cause);
        continue;
      }
      const step = result.value!;
      const look = ({ length }: Uint32Array) => {
        this.hasSampled ||= length > 0;
      };
      if (!this.hasSampled) step.tokens.then(look, () => {});
      resolve(step);
    }
  }

  /** The steps that are computed now: one where groups take turns, and of experts one counts for all. */
  #take(): ReadonlyMap<number, AskedStep> {
    const waiting = [...this.#asked.keys()].sort((a, b) => a - b);
    const next = waiting.find((group) => group > this.#last) ?? waiting[0]!;
    const numbers = this.#alone > 0 ? [next] : waiting;
    this.#last = next;
    const taken = new Map<number, AskedStep>();
    let isCounted = false;
    for (const number of numbers) {
      const asked = this.#asked.get(number)!;
      this.#asked.delete(number);
      const { onExperts } = asked.options;
      const options = isCounted ? { ...asked.options, onExperts: undefined } : asked.options;
      isCounted ||= onExperts !== undefined;
      taken.set(number, { ...asked, options });
    }
    return taken;
  }
}

/** Groups whose ranks are in this process: each computes its part, all of them at once. */
export interface LocalGroups {
  readonly groups: readonly ConductedGroup[];
  /** Has all ranks hear that one of them does not come; and meet again, once none waits. */
  readonly abort: (reason: string) => void;
  readonly renew: () => void;
}

export function ranksHere({ groups, abort, renew }: LocalGroups): ConductedRanks {
  const compute = async (group: ConductedGroup, step: GroupStep | undefined) => {
    try {
      if (step !== undefined) return await group.submit(step.batch, step.sampling, step.options);
      await group.idle();
      return undefined;
    } catch (error) {
      // The others wait for this group's part of the step.
      abort(`its step failed: ${(error as Error).message}`);
      throw error;
    }
  };
  return {
    groups: groups.length,
    compute: (steps) =>
      Promise.allSettled(groups.map((group, number) => compute(group, steps.get(number)))),
    renew,
    async moveExperts(layer, after) {
      await Promise.all(groups.map((group) => group.moveExperts(layer, after)));
    },
  };
}
