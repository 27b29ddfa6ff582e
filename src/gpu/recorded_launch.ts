/**
 * One launch as a recorder takes it: its pipeline, its bindings, its workgroups.
 *
 * @module
 */
import type { LaunchedKernel } from "./launch_cost.ts";

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
