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
  /** What takes the most time on it first. */
  readonly kernels: readonly KernelProfile[];
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
  /** What takes the most time first; all launches of the first rank, also those whose spans are not kept. */
  readonly kernels: readonly KernelProfile[];
  /** Spans beyond those that a profile keeps, of all ranks. */
  readonly omittedSpans: number;
  /** Of a group, or of several replicas: those behind the first, whose own spans and kernels are above. */
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

/** The launches of a kernel on all ranks, and the rank on which they took the most time. */
interface RanksKernel extends KernelProfile {
  readonly most: number;
  readonly mostOn: string;
}

/** What takes the most time first. */
function kernelsOf(ranks: readonly PlacedSpans[]): readonly RanksKernel[] {
  const names = processNames(ranks);
  const sums = new Map<string, RanksKernel>();
  for (const [i, { kernels }] of ranks.entries()) {
    for (const one of kernels) {
      const own = { ...one, most: one.microseconds, mostOn: names[i]! };
      sums.set(one.kernel, addedKernel(own, sums.get(one.kernel)));
    }
  }
  return [...sums.values()].sort((a, b) => b.microseconds - a.microseconds);
}

/** Of the rank that launches of all kernels together took the most time on. */
function totalOf(ranks: readonly PlacedSpans[]): RanksKernel {
  const none = { launches: 0, microseconds: 0, bytes: 0, flops: 0, boundMicroseconds: 0 };
  const nothing: RanksKernel = { kernel: "all", ...none, most: 0, mostOn: "" };
  const names = processNames(ranks);
  const own = ranks.map(({ kernels }, i) => {
    const sum = kernels.reduce<RanksKernel>((all, one) => {
      return addedKernel({ ...nothing, ...one, kernel: "all" }, all);
    }, nothing);
    return { ...sum, most: sum.microseconds, mostOn: names[i]! };
  });
  return own.reduce((all, one) => addedKernel(one, all), nothing);
}

function addedKernel(one: RanksKernel, other: RanksKernel | undefined): RanksKernel {
  if (other === undefined) return one;
  const { most, mostOn } = one.most > other.most ? one : other;
  return {
    kernel: one.kernel,
    launches: one.launches + other.launches,
    microseconds: one.microseconds + other.microseconds,
    bytes: one.bytes + other.bytes,
    flops: one.flops + other.flops,
    boundMicroseconds: one.boundMicroseconds + other.boundMicroseconds,
    most,
    mostOn,
  };
}

/**
 * A table with a line for each kernel, and one for all of them. Of several ranks or replicas it has their
 * sums, and what each kernel took on the one where it took the most.
 *
 * The bound of a launch is max(bytes / copy rate, operations / FMA rate). What comes from a cache
 * may beat it, and launches that are too short to fill the adapter stay far from it.
 */
export function formatProfile(profile: Profile): string {
  const { rates, steps } = profile;
  const ranks = ranksOf(profile);
  const isOne = ranks.length === 1;
  const total = totalOf(ranks);
  const percent = (share: number, of: number) =>
    of === 0 ? "" : `${((100 * share) / of).toFixed(1)} %`;
  const line = (one: RanksKernel) => {
    const { kernel, launches, microseconds, bytes, flops, boundMicroseconds, most, mostOn } = one;
    const per = (count: number) => (microseconds === 0 ? "" : count / (1e3 * microseconds));
    return [
      ...[kernel, `${launches}`, microseconds.toFixed(0)],
      ...(isOne ? [] : [most.toFixed(0), mostOn]),
      percent(microseconds, total.microseconds),
      rounded(per(bytes)),
      rounded(per(flops)),
      percent(boundMicroseconds, microseconds),
    ];
  };
  const header = [
    ...["kernel", "launches", "us", ...(isOne ? [] : ["most us", "on"])],
    ...["share", "GB/s", "GFLOP/s", "of bound"],
  ];
  const rows = [header, ...[...kernelsOf(ranks), total].map(line)];
  const widths = header.map((_, c) =>
    rows.reduce((most, row) => Math.max(most, row[c]!.length), 0),
  );
  const lines = rows.map((row) =>
    row
      .map((cell, c) => (c === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[c]!)))
      .join("  "),
  );
  const { copy, fma } = rates;
  const adapter = `copy ${rounded(copy / 1e9)} GB/s, fma ${rounded(fma / 1e9)} GFLOP/s`;
  const who = isOne ? "" : `, ${ranks.length} ranks together`;
  return [`${steps} steps${who}; the adapter: ${adapter}`, ...lines].join("\n");
}

/** All that a profile is of, the first rank first. */
function ranksOf({ otherRanks = [], ...own }: Profile): readonly PlacedSpans[] {
  return [{ ...own, rank: 0 }, ...otherRanks];
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
  const all = ranksOf(profile);
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
