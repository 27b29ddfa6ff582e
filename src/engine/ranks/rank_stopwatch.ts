/**
 * Takes the times of a rank above the first, while the first takes a profile.
 *
 * @module
 */
import { LaunchTimer } from "../../gpu/launch_timer.ts";
import { type KeptSpans, ProfileCollector } from "../../gpu/profile_collector.ts";

/** Sums are the first rank's alone, and so is what they are compared with. */
const NO_RATES = { copy: 1, fma: 1 };

export class RankStopwatch {
  readonly timer: LaunchTimer;
  readonly collector: ProfileCollector;

  /**
   * @param ranks Those that are measured together.
   * @throws {UnsupportedError} when the device cannot take times.
   */
  constructor(device: GPUDevice, ranks: number) {
    const collector = new ProfileCollector({ rates: NO_RATES, spans: true, ranks });
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
  async end(): Promise<KeptSpans> {
    try {
      await this.timer.settled();
      return this.collector.spans();
    } finally {
      this.destroy();
    }
  }

  destroy(): void {
    this.timer.destroy();
  }
}

/** Spans by another clock: `toFirst` takes the microseconds of one, and gives those of the other. */
export function onClockOf(spans: KeptSpans, toFirst: (time: number) => number): KeptSpans {
  const moved = <T extends { readonly start: number }>(span: T): T => {
    return { ...span, start: toFirst(span.start) };
  };
  const { launches, host, exchanges, omittedSpans } = spans;
  return {
    launches: launches.map(moved),
    host: host.map(moved),
    exchanges: exchanges.map(moved),
    omittedSpans,
  };
}

/** What ranks have measured, in their order, as a profile has it. */
export function asMeasured(
  ranks: readonly { readonly spans: KeptSpans; readonly clockError: number }[],
) {
  return {
    otherRanks: ranks.map(({ spans, clockError }, i) => {
      const { launches, host, exchanges } = spans;
      return { rank: i + 1, clockError, launches, host, exchanges };
    }),
    omittedSpans: ranks.reduce((sum, { spans }) => sum + spans.omittedSpans, 0),
  };
}
