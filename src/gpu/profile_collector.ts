/**
 * Gathers timed launches and the host's spans into a profile.
 *
 * The GPU has a clock of its own. A launch cannot begin before it was submitted, and begins right
 * then where the GPU was idle: the largest shift that some submit demands is taken for all.
 *
 * @module
 */
import type {
  AdapterRates,
  HostSpan,
  KernelProfile,
  LaunchSpan,
  Profile,
  Spans,
} from "../profile.ts";
import type { TimedLaunch, TimedSubmit } from "./launch_timer.ts";

/** Launches, host spans, and exchanges, of all ranks, that are kept; what a viewer can still show. */
const MOST_SPANS = 200_000;

type Sums = { -readonly [K in keyof Omit<KernelProfile, "kernel">]: number };

/** What a collector has. */
export interface Collected extends Spans {
  /** What takes the most time first. */
  readonly kernels: readonly KernelProfile[];
  readonly omittedSpans: number;
}

export interface CollectorOptions {
  readonly rates: AdapterRates;
  readonly spans: boolean;
  /** Ranks that are measured together, and share what can be kept. Default 1. */
  readonly ranks?: number;
  /** Milliseconds of `performance.now` that times count from. Default: those of now. */
  readonly started?: number;
}

export class ProfileCollector {
  /** Milliseconds of `performance.now` that times count from. */
  readonly started: number;
  readonly #rates: AdapterRates;
  readonly #keepsSpans: boolean;
  readonly #mostSpans: number;
  readonly #kernels = new Map<string, Sums>();
  readonly #launches: LaunchSpan[] = [];
  readonly #host: HostSpan[] = [];
  readonly #exchanges: HostSpan[] = [];
  #omitted = 0;
  /** What the GPU's clock said at the first launch: times of launches count from there. */
  #gpuStart: bigint | undefined;
  /** Microseconds from the profile's beginning to that launch. */
  #shift = Number.NEGATIVE_INFINITY;

  constructor(options: CollectorOptions) {
    const { rates, spans, ranks = 1, started = performance.now() } = options;
    this.#rates = rates;
    this.#keepsSpans = spans;
    this.#mostSpans = Math.floor(MOST_SPANS / ranks);
    this.started = started;
  }

  /** @param start Milliseconds of `performance.now`, as is `end`. */
  host(name: string, start: number, end: number): void {
    this.#keep(this.#host, { name, start, end });
  }

  /** As `host`, of what ranks bring together. */
  exchange(name: string, start: number, end: number): void {
    this.#keep(this.#exchanges, { name, start, end });
  }

  #keep(
    spans: HostSpan[],
    { name, start, end }: { readonly name: string; readonly start: number; readonly end: number },
  ): void {
    if (!this.#keepsSpans) return;
    if (spans.length >= this.#mostSpans) {
      this.#omitted += 1;
      return;
    }
    spans.push({ name, start: this.#sinceStart(start), duration: 1000 * (end - start) });
  }

  submit({ submitted, returned, launches }: TimedSubmit): void {
    this.host("submit", submitted, returned);
    const first = launches[0];
    if (first === undefined) return;
    this.#gpuStart ??= first.begin;
    const earliest = this.#sinceStart(submitted) - this.#onGpu(first.begin);
    this.#shift = Math.max(this.#shift, earliest);
    for (const launch of launches) this.#launch(launch);
  }

  #launch({ kernel, part, grid, cost, begin, end }: TimedLaunch): void {
    const { bytes = 0, flops = 0 } = cost ?? {};
    const duration = Number(end - begin) / 1000;
    const { copy, fma } = this.#rates;
    let sums = this.#kernels.get(kernel);
    if (sums === undefined) {
      sums = { launches: 0, microseconds: 0, bytes: 0, flops: 0, boundMicroseconds: 0 };
      this.#kernels.set(kernel, sums);
    }
    sums.launches += 1;
    sums.microseconds += duration;
    sums.bytes += bytes;
    sums.flops += flops;
    sums.boundMicroseconds += 1e6 * Math.max(bytes / copy, flops / fma);
    if (!this.#keepsSpans) return;
    if (this.#launches.length >= this.#mostSpans) {
      this.#omitted += 1;
      return;
    }
    const start = this.#onGpu(begin);
    this.#launches.push({ kernel, part, grid, start, duration, bytes, flops });
  }

  /** @param steps How many steps the launches are of. */
  profile(steps: number): Profile {
    return {
      rates: this.#rates,
      steps,
      microseconds: this.#sinceStart(performance.now()),
      ...this.collected(),
    };
  }

  /** What there is so far. */
  collected(): Collected {
    const kernels = Array.from(this.#kernels, ([kernel, sums]) => ({ kernel, ...sums }));
    return {
      kernels: kernels.sort((a, b) => b.microseconds - a.microseconds),
      launches: this.#launches.map((one) => ({ ...one, start: one.start + this.#shift })),
      host: inOrder(this.#host),
      exchanges: inOrder(this.#exchanges),
      omittedSpans: this.#omitted,
    };
  }

  #sinceStart(milliseconds: number): number {
    return 1000 * (milliseconds - this.started);
  }

  #onGpu(nanoseconds: bigint): number {
    return Number(nanoseconds - this.#gpuStart!) / 1000;
  }
}

const inOrder = (spans: readonly HostSpan[]) => [...spans].sort((a, b) => a.start - b.start);
