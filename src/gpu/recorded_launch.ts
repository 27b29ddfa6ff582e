/**
 * One launch as a recorder takes it: its pipeline, its bindings, its workgroups.
 *
 * @module
 */
import type { LaunchedKernel, StepArrays } from "./launch_cost.ts";

/** Where one launch keeps its uniform values; 32-bit words. */
export interface UniformBlock {
  /** Index of the first word in the recorder's uniform buffer. */
  readonly word: number;
  readonly binding: { readonly buffer: GPUBuffer; readonly offset: number; readonly size: number };
}

/** One launch as it was recorded. */
export interface RecordedLaunch {
  readonly kernel: LaunchedKernel;
  readonly pipeline: GPUComputePipeline;
  readonly group: GPUBindGroup;
  readonly uniforms: UniformBlock;
  /** Workgroups; as many as there are at most, where the GPU says how many. */
  readonly grid: readonly [x: number, y: number, z: number];
  /** Where the GPU says how many there are. */
  readonly indirect?: IndirectGrid | undefined;
}

/** Three u32 in a buffer of usage INDIRECT: workgroups along x, y and z. */
export interface IndirectGrid {
  readonly buffer: GPUBuffer;
  /** Bytes, a multiple of 4. */
  readonly offset: number;
}

/** A launch to be recorded again as it was, uniform values included. */
export interface KeptLaunch extends RecordedLaunch {
  readonly values: Uint32Array;
}

/** What ranks bring together: rows or logits, sums of rows, what experts made of rows. */
export type ExchangeKind = "gather" | "sum" | "experts";

/** What this rank brings to an exchange of which every rank gets all; on average where values decide it. */
export interface Brought {
  readonly kind: ExchangeKind;
  readonly bytes: number;
}

/** What sees each launch, submit and exchange of a step while it is recorded: each launch has a pass. */
export interface LaunchWatch {
  /** Part of the model that the next launches belong to. */
  part: string;
  /** What the step that is being recorded tells its kernels. */
  step: StepArrays;
  /** Begins the pass of one launch. */
  beginPass(encoder: GPUCommandEncoder, launch: RecordedLaunch): GPUComputePassEncoder;
  /** Submits what the passes are in. */
  submit(encoder: GPUCommandEncoder): void;
  /** @param work Has ranks bring something together. */
  exchange(name: string, work: () => Promise<void>, brought?: Brought): Promise<void>;
}
