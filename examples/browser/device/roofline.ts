/**
 * Kernels beside the two bounds of an adapter: what its memory feeds and what its arithmetic does.
 *
 * A kernel that does `intensity` operations for every byte that it has to move does at most
 * min(copy rate x intensity, FMA rate) operations a second. (Williams, Waterman & Patterson,
 * "Roofline: An Insightful Visual Performance Model", 2009.)
 *
 * @module
 */
import type { AdapterRates, KernelProfile } from "wisp-llm";
import type { KernelFigures, PhaseKernels } from "./device_report.ts";

export interface KernelPoint {
  readonly phase: PhaseKernels["phase"];
  readonly kernel: string;
  readonly launches: number;
  readonly microseconds: number;
  /** Of the time of all kernels of its phase. */
  readonly share: number;
  /** Bytes and operations a second; undefined where the clock is too coarse to tell. */
  readonly moved: number | undefined;
  readonly achieved: number | undefined;
  /** Operations for a byte; 0 for kernels that only move. */
  readonly intensity: number;
  /** Time at the adapter's rates over the time it took; undefined as above. */
  readonly ofBound: number | undefined;
}

/** One for each kernel of each phase, in the order of the report. */
export function kernelPoints({ phases }: Pick<KernelFigures, "phases">): readonly KernelPoint[] {
  return phases.flatMap(({ phase, kernels }) => {
    const total = kernels.reduce((sum, { microseconds }) => sum + microseconds, 0);
    return kernels.map((kernel) => ({ phase, ...pointOf(kernel, total) }));
  });
}

function pointOf(profile: KernelProfile, total: number): Omit<KernelPoint, "phase"> {
  const { kernel, launches, microseconds, bytes, flops, boundMicroseconds } = profile;
  const isTimed = microseconds > 0;
  return {
    ...{ kernel, launches, microseconds },
    share: total === 0 ? 0 : microseconds / total,
    moved: isTimed ? (1e6 * bytes) / microseconds : undefined,
    achieved: isTimed ? (1e6 * flops) / microseconds : undefined,
    intensity: bytes === 0 ? 0 : flops / bytes,
    ofBound: isTimed ? boundMicroseconds / microseconds : undefined,
  };
}

/** Operations a second that the adapter gives at most to kernels of this intensity. */
export function roof({ copy, fma }: AdapterRates, intensity: number): number {
  return Math.min(copy * intensity, fma);
}

/** Whole powers of ten around what is drawn. */
export interface Decades {
  readonly from: number;
  readonly to: number;
}

/** The decades that hold all values, at least one. */
export function decadesOf(values: readonly number[]): Decades {
  const from = Math.floor(Math.log10(Math.min(...values)));
  const to = Math.ceil(Math.log10(Math.max(...values)));
  return { from, to: Math.max(to, from + 1) };
}

/** Share of the way from the first decade to the last, 0 to 1 within them. */
export function logShare({ from, to }: Decades, value: number): number {
  return (Math.log10(value) - from) / (to - from);
}
