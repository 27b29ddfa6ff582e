/**
 * Takes profiles of an engine's steps: the launches on the GPU beside what the host does.
 *
 * While no profile is taken it only counts steps.
 *
 * @module
 */
import { measureRates } from "../../../kernels/adapter_rates.ts";
import { DeviceError, InvalidRequestError } from "../../errors.ts";
import { LaunchTimer } from "../../gpu/launch_timer.ts";
import { ProfileCollector } from "../../gpu/profile_collector.ts";
import type { AdapterRates, Profile, ProfileOptions } from "../../profile.ts";
import type { RankTimes, StepRunner } from "./step_runner.ts";

/** Steps `[first, end)` that are measured. */
interface Taking {
  readonly first: number;
  readonly end: number;
  readonly timer: LaunchTimer;
  readonly collector: ProfileCollector;
  /** Ends the profile, whether its work is done or not. */
  readonly finish: () => void;
  readonly fail: (error: Error) => void;
}

export class Profiler {
  readonly #runner: () => StepRunner;
  /** Steps whose recording has begun, and steps that have been seen to have run. */
  #begun = 0;
  #ended = 0;
  #taking: Taking | undefined;
  #rates: Promise<AdapterRates> | undefined;
  /** The profile that is being taken. */
  #promise: Promise<Profile> | undefined;
  #isClosed = false;

  /** @param runner Of the steps from now on. */
  constructor(runner: () => StepRunner) {
    this.#runner = runner;
  }

  /**
   * Profiles the steps that run while `work` does.
   *
   * @param work Is called once everything is ready; the profile ends with what it returns.
   * @throws {InvalidRequestError} when a profile is being taken, or an option is out of range.
   * @throws {UnsupportedError} when the device, or that of another rank, cannot take times.
   * @throws {GroupError} when a rank has left.
   * @throws whatever `work` rejects with.
   */
  async profile(work: () => Promise<unknown>, options: ProfileOptions = {}): Promise<Profile> {
    if (this.#promise !== undefined) {
      throw new InvalidRequestError("Cannot take a profile: one is being taken already");
    }
    requireWhole("steps", options.steps, 1);
    requireWhole("firstStep", options.firstStep, 0);
    const promise = this.#take(work, options);
    this.#promise = promise;
    try {
      return await promise;
    } finally {
      this.#promise = undefined;
    }
  }

  async #take(work: () => Promise<unknown>, options: ProfileOptions): Promise<Profile> {
    const { steps = Number.POSITIVE_INFINITY, firstStep = 0, spans = true } = options;
    const { recorder, rankTimes } = this.#runner();
    const { device } = recorder;
    let collector: ProfileCollector | undefined;
    const timer = new LaunchTimer(
      device,
      (submit) => collector?.submit(submit),
      (name, begun, ended) => collector?.exchange(name, begun, ended),
    );
    let others: RankTimes | undefined;
    try {
      this.#rates ??= measureRates(device);
      const rates = await this.#rates.catch((error: unknown) => {
        this.#rates = undefined; // there may be memory for it the next time
        throw error;
      });
      if (rankTimes !== undefined) {
        await rankTimes.begin({ rates, spans });
        others = rankTimes;
      }
      const first = Math.max(firstStep, this.#begun);
      collector = new ProfileCollector({ rates, spans, ranks: rankTimes?.size ?? 1 });
      const finished = new Promise<void>((finish, fail) => {
        const end = first + steps;
        this.#taking = { first, end, timer, collector: collector!, finish, fail };
      });
      finished.catch(() => {}); // the race below hears of it, unless its work has ended
      if (!this.#isClosed) await Promise.race([work(), finished]);
      this.#stop();
      await timer.settled();
      const profile = collector.profile(Math.max(Math.min(this.#begun, first + steps) - first, 0));
      if (others === undefined) return profile;
      const ending = others;
      others = undefined;
      const { otherRanks, omittedSpans } = await ending.end(collector.started);
      return { ...profile, otherRanks, omittedSpans: profile.omittedSpans + omittedSpans };
    } finally {
      this.#stop();
      timer.destroy();
      // The caller gets what has failed first.
      others?.end(0).catch(() => {});
    }
  }

  #stop(): void {
    if (this.#taking === undefined) return;
    this.#taking = undefined;
    this.#runner().recorder.timer = undefined;
  }

  /** Runs `work`, which shows in a profile that is being taken. */
  span<T>(name: string, work: () => T): T {
    const taking = this.#taking;
    if (taking === undefined || this.#begun < taking.first) return work();
    const { collector } = taking;
    const start = performance.now();
    const end = () => collector.host(name, start, performance.now());
    const result = work();
    if (result instanceof Promise) result.then(end, end);
    else end();
    return result;
  }

  /** Called before a step is recorded. */
  beginStep(): void {
    const step = this.#begun;
    this.#begun += 1;
    if (this.#taking === undefined) return;
    const { first, end, timer } = this.#taking;
    this.#runner().recorder.timer = step >= first && step < end ? timer : undefined;
  }

  /** Called once a step has run; steps end in the order in which they began. */
  endStep(): void {
    this.#ended += 1;
    if (this.#taking !== undefined && this.#ended >= this.#taking.end) this.#taking.finish();
  }

  /** The device is lost: a profile that is being taken ends with an error, steps that have begun never. */
  lose(cause: Error): void {
    this.#taking?.fail(new DeviceError(`Cannot finish the profile: ${cause.message}`, { cause }));
    // Where the device is still there, so is its recorder, which has no timer from now on.
    this.#stop();
    this.#rates = undefined;
    this.#ended = this.#begun;
  }

  /** Ends a profile that is being taken, and waits for it. The engine takes no more steps. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#taking?.finish();
    await this.#promise?.catch(() => {}); // the caller that takes the profile gets the error
  }
}

function requireWhole(name: keyof ProfileOptions, value: number | undefined, min: number): void {
  if (value === undefined || (Number.isSafeInteger(value) && value >= min)) return;
  throw new InvalidRequestError(
    `${name} must be a whole number of at least ${min}, got ${value}`,
    name,
  );
}
