/**
 * How long a step takes of which it is known what ranks have to do.
 *
 * @module
 */
import { type AdapterProfile, shareOf } from "./adapter_profile.ts";
import { exchangeSeconds, type Link } from "./link.ts";
import type { LaunchWork, StepWork } from "./step_work.ts";

/** What a step's time goes to, in seconds: the largest is the bound that holds. */
interface StepParts {
  /** Reading weights and activations, multiplying, reading the cache. */
  readonly weights: number;
  readonly arithmetic: number;
  readonly cache: number;
  /** Launches, whatever they do. */
  readonly launches: number;
  /** Bytes between ranks, and between a device and its host for them. */
  readonly link: number;
  readonly readbacks: number;
  /** The host's work that no device's hides. */
  readonly host: number;
}

export type Bound = keyof StepParts;

export interface StepTime {
  readonly seconds: number;
  readonly parts: StepParts;
  readonly bound: Bound;
}

interface TimedRanks {
  readonly profile: AdapterProfile;
  readonly link: Link;
  readonly ranks: number;
  /** Ranks that take turns in an adapter and its host. */
  readonly sharing: number;
}

/** Of a step of `work` on each rank. */
export function stepTime(work: StepWork, timed: TimedRanks): StepTime {
  const { sharing, ranks, profile } = timed;
  const device = deviceTime(work, profile);
  const onDevice = sharing * sum(Object.values(device));
  const launches = sum(work.launches.map(({ count }) => count));
  const recording = sharing * (profile.host.step + launches * profile.host.launch);
  // One rank's host is ahead of its device; in front of an exchange there is nothing to be ahead with.
  const host = ranks === 1 ? Math.max(recording - onDevice, 0) : recording;
  const parts: StepParts = {
    weights: sharing * device.weights,
    arithmetic: sharing * device.arithmetic,
    cache: sharing * device.cache,
    launches: sharing * device.launches,
    link: linkTime(work, timed),
    readbacks: ranks === 1 ? 0 : readTime(work, timed),
    host,
  };
  const names = Object.keys(parts) as Bound[];
  const bound = names.reduce((most, name) => (parts[name] > parts[most] ? name : most));
  return { seconds: sum(Object.values(parts)), parts, bound };
}

type DeviceParts = Record<"weights" | "arithmetic" | "cache" | "launches", number>;

function deviceTime({ launches, rows }: StepWork, profile: AdapterProfile): DeviceParts {
  const parts = { weights: 0, arithmetic: 0, cache: 0, launches: 0 };
  for (const launch of launches) {
    const { kernel, bytes, flops, count } = launch;
    const [moving, computing] = [bytes / profile.copy, flops / profile.fma];
    const seconds = Math.max(moving, computing) / shareOf(profile, kernel, rows);
    parts.launches += count * profile.launch;
    parts[moving >= computing ? placeOf(launch) : "arithmetic"] += count * seconds;
  }
  return parts;
}

/** What a kernel reads most of: of a projection that writes entries of the cache, its weights. */
function placeOf({ kernel }: LaunchWork): "weights" | "cache" {
  return kernel.startsWith("attention/") || kernel === "cache/mla_gather" ? "cache" : "weights";
}

function linkTime({ exchanges }: StepWork, { link, ranks }: TimedRanks): number {
  const seconds = exchanges.map(
    ({ kind, bytes, count }) => count * exchangeSeconds(link, { kind, bytes, ranks }),
  );
  return sum(seconds);
}

/**
 * Each exchange waits for its device; what the rank brings goes to the host, and what all bring to the
 * device. Ranks of one host take turns.
 */
function readTime({ exchanges, readBytes }: StepWork, timed: TimedRanks): number {
  const { profile, sharing, ranks } = timed;
  const { readback, readByte } = profile.host;
  const count = sum(exchanges.map((one) => one.count));
  const written = sum(exchanges.map((one) => one.count * one.bytes * ranks));
  return sharing * (count * readback + (readBytes + written) * readByte);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
