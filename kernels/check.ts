/**
 * The promise every kernel makes: a reference in f64, the cases it must match it on, how close,
 * what one launch costs, and planted faults that the cases must catch. `test/support/devices/kernel_checks.ts`,
 * `test/support/devices/planted_faults.ts` and `bench/kernels.bench.ts` run every `*.check.ts` there is.
 *
 * @module
 */
import type { Recorder } from "../src/gpu/recorder.ts";
import type { Tensor } from "../src/gpu/tensor.ts";

/** Host side of a buffer. The type says how the GPU sees it and how it is compared. */
export type HostArray = Float32Array | Uint32Array | Uint16Array | Uint8Array;
export type HostArrays = Readonly<Record<string, HostArray>>;
/** Expected values: floats are compared within the tolerance, whole numbers exactly. */
export type ExpectedArrays = Readonly<Record<string, Float64Array | Float32Array | Uint32Array>>;

/** A fault planted in the kernel's text. */
export interface Mutant {
  /** What is wrong, for the test's name. */
  readonly name: string;
  /** Text that occurs in the specialised kernel... */
  readonly replace: string;
  /** ...and what stands there instead. */
  readonly with: string;
  /** Index of the case that must catch it. Default 0, the smallest. */
  readonly case?: number;
  /** Index of the tuning to run. Default 0. */
  readonly tuning?: number;
  /** Whether its text is there only where invocations of a subgroup of eight share what they read. */
  readonly ofSubgroups?: boolean;
}

export interface KernelCheck<C> {
  readonly name: string;
  /** What a device must have: on other devices there is nothing to check. */
  readonly feature?: GPUFeatureName;
  /** Storage buffers of a launch, where they are more than default limits allow. */
  readonly storageBuffers?: number;
  /** Shapes to test; the first is the smallest, the last is the one benched. */
  readonly cases: readonly C[];
  /** Tuning values, each of which must give the same answer. The first is the default. */
  readonly tunings: readonly Readonly<Record<string, number>>[];
  /** Indices of the cases that run in every tuning outside the long campaign too. Default: the first. */
  readonly tunedCases?: readonly number[];
  /** Tunings give the same bits, not only the same answer within the tolerance. Default false. */
  readonly exactAcrossTunings?: boolean;
  /** Inputs for one case, from a seeded generator of numbers in [0, 1). */
  inputs(shape: C, random: () => number): HostArrays;
  /**
   * The answer, computed in f64 with plain loops. A name that is also an input is a buffer the
   * kernel updates; any other is an output, and starts poisoned (NaN, or 0xdeadbeef).
   */
  reference(shape: C, inputs: HostArrays): ExpectedArrays;
  /** Binds the launch that is being checked; the returned function records it. */
  bind(
    recorder: Recorder,
    shape: C,
    tensors: Readonly<Record<string, Tensor>>,
    tuning: Readonly<Record<string, number>>,
  ): () => void;
  /** Largest allowed |got - want| / max(|want|, root mean square of the array). */
  readonly tolerance: number;
  /** Bytes that must move, for GB/s in the bench. The wrapper's `cost` tells profiles the same. */
  bytes(shape: C): number;
  /** Floating-point operations (a fused multiply-add is two), for GFLOP/s; as `cost` has them. */
  flops(shape: C): number;
  readonly mutants: readonly Mutant[];
}

export const defineCheck = <C>(check: KernelCheck<C>): KernelCheck<C> => check;
