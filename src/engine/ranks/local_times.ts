/**
 * Times of ranks that are in one process: each measures the steps that the first one does.
 *
 * @module
 */
import type { ModelRunner } from "../step/model_runner.ts";
import type { MeasuredRanks, RankTimes, WantedTimes } from "../step/step_runner.ts";
import { asMeasured, onClockOf, RankStopwatch } from "./rank_stopwatch.ts";

export class LocalTimes implements RankTimes {
  readonly size: number;
  readonly #first: ModelRunner;
  readonly #others: readonly ModelRunner[];
  #watches: readonly RankStopwatch[] = [];

  constructor(ranks: readonly ModelRunner[]) {
    this.size = ranks.length;
    this.#first = ranks[0]!;
    this.#others = ranks.slice(1);
  }

  async begin(wanted: WantedTimes): Promise<void> {
    const watches: RankStopwatch[] = [];
    try {
      for (const { recorder } of this.#others) {
        watches.push(new RankStopwatch(recorder.device, wanted, this.size));
      }
    } catch (error) {
      for (const one of watches) one.destroy();
      throw error;
    }
    this.#watches = watches;
  }

  /** A step is about to be recorded, which the first rank measures or does not. */
  beginStep(): void {
    const isTimed = this.#first.recorder.timer !== undefined;
    for (const [i, { recorder }] of this.#others.entries()) {
      recorder.timer = isTimed ? this.#watches[i]?.timer : undefined;
    }
  }

  async end(started: number): Promise<MeasuredRanks> {
    for (const { recorder } of this.#others) recorder.timer = undefined;
    const watches = this.#watches;
    this.#watches = [];
    const all = await Promise.allSettled(watches.map((watch) => watch.end()));
    const ranks = all.map((one, i) => {
      if (one.status === "rejected") throw one.reason;
      const earlier = 1000 * (watches[i]!.collector.started - started);
      return { spans: onClockOf(one.value, (time) => time + earlier), clockError: 0 };
    });
    return asMeasured(ranks);
  }
}
