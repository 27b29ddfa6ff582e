/**
 * Takes the times of a rank above the first, while the first takes a profile.
 *
 * @module
 */
import { LaunchTimer } from "../../gpu/launch_timer.ts";
import { type Collected, ProfileCollector } from "../../gpu/profile_collector.ts";
import type { WantedTimes } from "../step/step_runner.ts";

export class RankStopwatch {
  readonly timer: LaunchTimer;
  readonly collector: ProfileCollector;

  /**
   * @param wanted As of the first rank: adapters of a group are of one kind, so its rates are theirs.
   * @param ranks Those that are measured together.
   * @throws {UnsupportedError} when the device cannot take times.
   */
  constructor(device: GPUDevice, wanted: WantedTimes, ranks: number) {
    const collector = new ProfileCollector({ ...wanted, ranks });
    this.collector = collector;
    this.timer = new LaunchTimer(
      device,
      (submit) => collector.submit(submit),
      (name, begun, ended) => collector.exchange(name, begun, ended),
    );
  }

  /**
   * What there is once everything submitted so far has run; frees the watch.
   *
   * @throws {DeviceError} when the device is lost.
   */
  async end(): Promise<Collected> {
    try {
      await this.timer.settled();
      return this.collector.collected();
    } finally {
      this.destroy();
    }
  }

  destroy(): void {
    this.timer.destroy();
  }
}

/** Spans by another clock: `toFirst` takes the microseconds of one, and gives those of the other. */
export function onClockOf(spans: Collected, toFirst: (time: number) => number): Collected {
  const moved = <T extends { readonly start: number }>(span: T): T => {
    return { ...span, start: toFirst(span.start) };
  };
  const { launches, host, exchanges } = spans;
  return {
    ...spans,
    launches: launches.map(moved),
    host: host.map(moved),
    exchanges: exchanges.map(moved),
  };
}

/** What ranks have measured, in their order, as a profile has it. */
export function asMeasured(
  ranks: readonly { readonly spans: Collected; readonly clockError: number }[],
) {
  return {
    otherRanks: ranks.map(({ spans, clockError }, i) => {
      const { omittedSpans: _, ...own } = spans;
      return { rank: i + 1, clockError, ...own };
    }),
    omittedSpans: ranks.reduce((sum, { spans }) => sum + spans.omittedSpans, 0),
  };
}
