/**
 * Where the time of steps goes, as plain data, and the two forms that people read: a table of
 * kernels beside what the adapter can do, and a trace for chrome://tracing and Perfetto.
 *
 * @module
 */

/** Something that the host did, such as "schedule"; microseconds since the profile began. */
export interface HostSpan {
  readonly name: string;
  readonly start: number;
  readonly duration: number;
}

/** One launch on the GPU, on the host's clock. */
export interface LaunchSpan {
  readonly kernel: string;
  /** Part of the model, such as "layer 3". */
  readonly part: string;
  /** Workgroups along x, y and z. */
  readonly grid: readonly [number, number, number];
  readonly start: number;
  readonly duration: number;
  /** What it had to read and write, and to compute, at least. */
  readonly bytes: number;
  readonly flops: number;
}

/** All launches of one kernel. */
export interface KernelProfile {
  readonly kernel: string;
  readonly launches: number;
  readonly microseconds: number;
  readonly bytes: number;
  readonly flops: number;
  /** What the launches would take at the adapter's rates: each the longer of memory and arithmetic. */
  readonly boundMicroseconds: number;
}

/** What an adapter gives to kernels that do nothing else, as measured on it. */
export interface AdapterRates {
  /** Bytes read plus bytes written, a second. */
  readonly copy: number;
  /** Operations a second, a fused multiply-add being two. */
  readonly fma: number;
}

export interface Profile {
  readonly rates: AdapterRates;
  /** Steps that were measured. */
  readonly steps: number;
  /** From the beginning to the end, steps or none. */
  readonly microseconds: number;
  /** What takes the most time first. */
  readonly kernels: readonly KernelProfile[];
  /** In order, unless spans were not asked for. */
  readonly launches: readonly LaunchSpan[];
  /** In order, unless spans were not asked for. */
  readonly host: readonly HostSpan[];
  /** Launches and host spans beyond those that a profile keeps; `kernels` counts them all. */
  readonly omittedSpans: number;
}

export interface ProfileOptions {
  /** Steps to measure at most. Default: all until the work is done. */
  readonly steps?: number | undefined;
  /** Number of the first step to measure, counted from 0 since the engine was loaded. Default: the next. */
  readonly firstStep?: number | undefined;
  /** Keeps each launch and each of the host's spans, not only their sums. Default true. */
  readonly spans?: boolean;
}

const HEADER = ["kernel", "launches", "us", "share", "GB/s", "GFLOP/s", "of bound"];

/**
 * A table with a line for each kernel, and one for all of them.
 *
 * The bound of a launch is max(bytes / copy rate, operations / FMA rate). What comes from a cache
 * may beat it, and launches that are too short to fill the adapter stay far from it.
 */
export function formatProfile({ rates, steps, kernels }: Profile): string {
  const total = kernels.reduce<KernelProfile>(
    (sum, one) => ({
      kernel: "all",
      launches: sum.launches + one.launches,
      microseconds: sum.microseconds + one.microseconds,
      bytes: sum.bytes + one.bytes,
      flops: sum.flops + one.flops,
      boundMicroseconds: sum.boundMicroseconds + one.boundMicroseconds,
    }),
    {
      kernel: "all",
      launches: 0,
      microseconds: 0,
      bytes: 0,
      flops: 0,
      boundMicroseconds: 0,
    },
  );
  const line = (one: KernelProfile) => {
    const { kernel, launches, microseconds, bytes, flops, boundMicroseconds } = one;
    const per = (count: number) => (microseconds === 0 ? "" : count / (1e3 * microseconds));
    const percent = (share: number, of: number) =>
      of === 0 ? "" : `${((100 * share) / of).toFixed(1)} %`;
    return [
      kernel,
      `${launches}`,
      microseconds.toFixed(0),
      percent(microseconds, total.microseconds),
      rounded(per(bytes)),
      rounded(per(flops)),
      percent(boundMicroseconds, microseconds),
    ];
  };
  const rows = [HEADER, ...[...kernels, total].map(line)];
  const widths = HEADER.map((_, c) =>
    rows.reduce((most, row) => Math.max(most, row[c]!.length), 0),
  );
  const lines = rows.map((row) =>
    row
      .map((cell, c) => (c === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[c]!)))
      .join("  "),
  );
  const { copy, fma } = rates;
  const adapter = `copy ${rounded(copy / 1e9)} GB/s, fma ${rounded(fma / 1e9)} GFLOP/s`;
  return [`${steps} steps; the adapter: ${adapter}`, ...lines].join("\n");
}

function rounded(value: number | ""): string {
  if (value === "") return "";
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

/** What of a profile goes into a trace. */
export interface TraceOptions {
  /** Default both. */
  readonly activities?: readonly ("CPU" | "GPU")[];
  /** Adds the grid of each launch. Default true. */
  readonly shapes?: boolean;
}

/** One event of a trace; times in microseconds. */
export interface TraceEvent {
  readonly name: string;
  /** X: a span; M: the name of a track. */
  readonly ph: "X" | "M";
  readonly pid: number;
  readonly tid: number;
  readonly ts: number;
  readonly dur?: number;
  readonly args?: Readonly<Record<string, unknown>>;
}

/** A file for chrome://tracing and ui.perfetto.dev, once it is written as JSON. */
export interface ChromeTrace {
  readonly traceEvents: readonly TraceEvent[];
  readonly displayTimeUnit: "ms";
  readonly otherData: Readonly<Record<string, number>>;
}

const PROCESS = 1;
const TRACKS = { CPU: 1, GPU: 2 } as const;
const TRACK_NAMES = { CPU: "host", GPU: "kernels" } as const;

/** The launches on one track, the host's spans on another. */
export function chromeTrace(profile: Profile, options: TraceOptions = {}): ChromeTrace {
  const { activities = ["CPU", "GPU"], shapes = true } = options;
  const { rates, steps, host, launches, omittedSpans } = profile;
  const place = (track: keyof typeof TRACKS) => ({ pid: PROCESS, tid: TRACKS[track] });
  const names = activities.map((track) => ({
    name: "thread_name",
    ph: "M" as const,
    ts: 0,
    ...place(track),
    args: { name: TRACK_NAMES[track] },
  }));
  const events: TraceEvent[] = [
    { name: "process_name", ph: "M", ts: 0, pid: PROCESS, tid: 0, args: { name: "wisp" } },
    ...names,
  ];
  if (activities.includes("CPU")) {
    for (const { name, start, duration } of host) {
      events.push({ name, ph: "X", ...place("CPU"), ts: start, dur: duration });
    }
  }
  if (activities.includes("GPU")) {
    for (const { kernel, part, grid, start, duration, bytes, flops } of launches) {
      const args = { part, ...(shapes && { grid: grid.join("x") }), bytes, flops };
      events.push({ name: kernel, ph: "X", ...place("GPU"), ts: start, dur: duration, args });
    }
  }
  return {
    traceEvents: events,
    displayTimeUnit: "ms",
    otherData: {
      steps,
      omittedSpans,
      copyBytesPerSecond: rates.copy,
      fmaOperationsPerSecond: rates.fma,
    },
  };
}
