/**
 * How long a start takes, and of that the loading of weights.
 *
 * @module
 */
import type { StartReport } from "./start_report.ts";

export class StartTimes {
  readonly #begunAt = performance.now();
  #endedAt: number | undefined;
  /** When the first and the newest weights of each replica came. */
  readonly #weights = new Map<number, { readonly from: number; readonly to: number }>();

  /** The same report, which also tells the times here. */
  watch(report: StartReport, replica = 0): StartReport {
    return {
      ...report,
      progress: (progress) => {
        if (progress.phase === "weights") this.#seeWeights(replica);
        report.progress(progress);
      },
      ...(report.ofReplica && {
        ofReplica: (one: number) => this.watch(report.ofReplica!(one), one),
      }),
    };
  }

  /** The engine is there. */
  end(): void {
    this.#endedAt = performance.now();
  }

  /** From the beginning to the end, or to now. */
  get seconds(): number {
    return ((this.#endedAt ?? performance.now()) - this.#begunAt) / 1000;
  }

  /** Of weights, without what comes before and behind them. */
  get weightSeconds(): number {
    const times = [...this.#weights.values()];
    return times.reduce((sum, { from, to }) => sum + to - from, 0) / 1000;
  }

  #seeWeights(replica: number): void {
    const now = performance.now();
    this.#weights.set(replica, { from: this.#weights.get(replica)?.from ?? now, to: now });
  }
}
