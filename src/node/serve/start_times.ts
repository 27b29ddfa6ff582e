/**
 * How long a start takes, and of that the loading of weights.
 *
 * @module
 */
import type { StartReport } from "./start_report.ts";

export class StartTimes {
  readonly #begunAt = performance.now();
  #endedAt: number | undefined;
  /** When the first and the newest weights came. */
  #weights: { readonly from: number; readonly to: number } | undefined;

  /** The same report, which also tells the times here. */
  watch(report: StartReport): StartReport {
    return {
      ...report,
      progress: (progress) => {
        if (progress.phase === "weights") this.#seeWeights();
        report.progress(progress);
      },
      ...(report.ofReplica && {
        ofReplica: (replica: number) => this.watch(report.ofReplica!(replica)),
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
    return this.#weights === undefined ? 0 : (this.#weights.to - this.#weights.from) / 1000;
  }

  #seeWeights(): void {
    const now = performance.now();
    this.#weights = { from: this.#weights?.from ?? now, to: now };
  }
}
