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

/** What was measured one by one; in order, and empty unless spans were asked for. */
export interface Spans {
  readonly launches: readonly LaunchSpan[];
  readonly host: readonly HostSpan[];
  /** What ranks have brought together, each from the last launch before it to the next one behind it. */
  readonly exchanges: readonly HostSpan[];
}

/** What one rank of an engine did. */
export interface PlacedSpans extends Spans {
  readonly rank: number;
  /** Whose it is, of several replicas behind one engine. Default 0. */
  readonly replica?: number;
}

/** What another rank than the first did, in the first one's time. */
export interface RankSpans extends PlacedSpans {
  /** Microseconds that the rank's clock may be off beside the first one's; 0 where they have one clock. */
  readonly clockError: number;
}

export interface Profile extends Spans {
  readonly rates: AdapterRates;
  /** Steps that were measured. */
  readonly steps: number;
  /** From the beginning to the end, steps or none. */
  readonly microseconds: number;
  /** What takes the most time first. */
  readonly kernels: readonly KernelProfile[];
  /** Spans beyond those that a profile keeps, of all ranks; `kernels` counts all of its launches. */
  readonly omittedSpans: number;
  /**
   * Of a group, or of several replicas: those behind the first, whose own are above; `kernels` is of the
   * first rank of each replica.
   */
  readonly otherRanks?: readonly RankSpans[];
  /** Whose the spans are, of several replicas behind one engine. Default 0. */
  readonly replica?: number;
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

/** Of the first rank; the others follow. */
const PROCESS = 1;
const TRACKS = { host: 1, kernels: 2, exchanges: 3 } as const;
type Track = keyof typeof TRACKS;

/**
 * The launches on one track, the host's spans on another, exchanges with other ranks on a third; each
 * rank is a process of the trace, by the clock of the first one.
 */
export function chromeTrace(profile: Profile, options: TraceOptions = {}): ChromeTrace {
  const { rates, steps, omittedSpans, otherRanks = [] } = profile;
  const all: readonly PlacedSpans[] = [{ ...profile, rank: 0 }, ...otherRanks];
  const names = processNames(all);
  const clockError = otherRanks.reduce((most, one) => Math.max(most, one.clockError), 0);
  return {
    traceEvents: all.flatMap((spans, number) => {
      return eventsOf(spans, { number, name: names[number]!, isOne: all.length === 1, ...options });
    }),
    displayTimeUnit: "ms",
    otherData: {
      steps,
      omittedSpans,
      copyBytesPerSecond: rates.copy,
      fmaOperationsPerSecond: rates.fma,
      ...(otherRanks.length > 0 && { clockErrorMicroseconds: clockError }),
    },
  };
}

/** Of replicas and ranks, as far as there are several. */
function processNames(all: readonly PlacedSpans[]): readonly string[] {
  const isOfReplicas = all.some(({ replica = 0 }) => replica > 0);
  const isOfRanks = all.some(({ rank }) => rank > 0);
  if (!isOfReplicas && !isOfRanks) return ["wisp"];
  return all.map(({ rank, replica = 0 }) => {
    const own = isOfRanks ? [`rank ${rank}`] : [];
    return (isOfReplicas ? [`DP${replica}`, ...own] : own).join(" ");
  });
}

/** A process of a trace. */
interface TraceProcess extends TraceOptions {
  /** Among the processes of the trace. */
  readonly number: number;
  readonly name: string;
  /** Whether it is the only one. */
  readonly isOne: boolean;
}

/** Of one rank: the names of its tracks, and what is on them. */
function eventsOf(
  { host, launches, exchanges }: Spans,
  { activities = ["CPU", "GPU"], shapes = true, number, name: own, isOne }: TraceProcess,
): readonly TraceEvent[] {
  const place = (track: Track) => ({ pid: PROCESS + number, tid: TRACKS[track] });
  const named = (track: Track): TraceEvent => {
    return { name: "thread_name", ph: "M", ts: 0, ...place(track), args: { name: track } };
  };
  const spansOn = (track: Track, spans: readonly HostSpan[]): readonly TraceEvent[] =>
    spans.map(({ name, start, duration }) => {
      return { name, ph: "X", ...place(track), ts: start, dur: duration };
    });
  const process = { ph: "M", ts: 0, pid: PROCESS + number, tid: 0 } as const;
  const events: TraceEvent[] = [{ name: "process_name", ...process, args: { name: own } }];
  if (!isOne) {
    events.push({ name: "process_sort_index", ...process, args: { sort_index: number } });
  }
  for (const activity of activities) {
    if (activity === "GPU") events.push(named("kernels"));
    else {
      events.push(named("host"));
      if (!isOne) events.push(named("exchanges"));
    }
  }
  const spans = activities.includes("CPU")
    ? [...spansOn("host", host), ...spansOn("exchanges", exchanges)]
    : [];
  if (!activities.includes("GPU")) return [...events, ...spans];
  const launched = launches.map(({ kernel, part, grid, start, duration, bytes, flops }) => {
    const args = { part, ...(shapes && { grid: grid.join("x") }), bytes, flops };
    return { name: kernel, ph: "X", ...place("kernels"), ts: start, dur: duration, args } as const;
  });
  return [...events, ...spans, ...launched];
}
