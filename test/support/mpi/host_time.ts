/**
 * What the host takes for a step, of the spans of a profile.
 *
 * @module
 */
import type { HostSpan, Profile } from "../../../src/profile.ts";

/** From where to where, in microseconds. */
type Stretch = readonly [from: number, to: number];

/** The host waits for the device. */
const WAIT = "sample readback";

/**
 * Microseconds of a step, on the average, in which the host of the first rank was at work on it: those of
 * its spans, each moment once, without those in which it waited for the device, for an exchange, or for what
 * an exchange needs of the device.
 */
export function hostMicroseconds({ host, exchanges, steps }: Profile): number {
  const waits = joined(exchanges);
  const work = joined(host.filter(({ name }) => name !== WAIT));
  const total = work.reduce((sum, own) => {
    const waited = waits.reduce((all, wait) => all + common(own, wait), 0);
    return sum + own[1] - own[0] - waited;
  }, 0);
  return total / steps;
}

/** Spans that overlap as one. */
function joined(spans: readonly HostSpan[]): readonly Stretch[] {
  const sorted = spans
    .map(({ start, duration }): Stretch => [start, start + duration])
    .sort(([a], [b]) => a - b);
  const all: Stretch[] = [];
  for (const [from, to] of sorted) {
    const last = all.at(-1);
    if (last !== undefined && from <= last[1])
      all[all.length - 1] = [last[0], Math.max(last[1], to)];
    else all.push([from, to]);
  }
  return all;
}

/** How long both last. */
function common([from, to]: Stretch, [otherFrom, otherTo]: Stretch): number {
  return Math.max(0, Math.min(to, otherTo) - Math.max(from, otherFrom));
}
