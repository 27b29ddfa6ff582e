/**
 * One segment's work on the GPU: launches in order, one compute pass, one submit. While launches are
 * timed, each has a pass of its own.
 *
 * Every bound launch owns a block of one uniform buffer. Blocks change on the host and travel in
 * one write per submit, and only when a value changed: a steady decode step writes none.
 *
 * @module
 */
import { KernelError } from "../errors.ts";
import { PipelineCache } from "./pipeline_cache.ts";
import type { KeptLaunch, LaunchWatch, RecordedLaunch, UniformBlock } from "./recorded_launch.ts";
import type { Tensor } from "./tensor.ts";

const UNIFORM_USAGE = 0x40 | 0x8; // UNIFORM | COPY_DST

export interface RecorderOptions {
  /** Launches that may be bound in all. Default 16384. */
  readonly maxLaunches?: number;
  /** Rewrites a kernel's code before it is compiled; tests use it to plant faults. */
  readonly rewrite?: (kernel: string, code: string) => string;
  /** Where pipelines are asked for. Default: a cache of its own. */
  readonly pipelines?: PipelineCache;
  /** Whether kernels are compiled and not bound: tensors may be a ledger's, and nothing is recorded. */
  readonly compilesOnly?: boolean;
}

export class Recorder {
  readonly device: GPUDevice;
  readonly pipelines: PipelineCache;
  readonly rewrite: ((kernel: string, code: string) => string) | undefined;
  /** Launches recorded since the recorder was made. */
  launches = 0;
  /** Submits since the recorder was made. */
  submits = 0;
  /** Whether nothing is timed for now, also where a timer is set or unset meanwhile. */
  isUntimed = false;
  readonly #compilesOnly: boolean;
  readonly #alignment: number;
  readonly #uniforms: GPUBuffer;
  readonly #bytes: ArrayBuffer;
  readonly #u32: Uint32Array<ArrayBuffer>;
  readonly #f32: Float32Array<ArrayBuffer>;
  #usedBytes = 0;
  /** Blocks that were given back, by their size, and those that are reserved in a scope. */
  readonly #spare = new Map<number, UniformBlock[]>();
  #scope: UniformBlock[] | undefined;
  #dirtyLow = Number.POSITIVE_INFINITY;
  #dirtyHigh = 0;
  #encoder: GPUCommandEncoder | undefined;
  #pass: GPUComputePassEncoder | undefined;
  #kept: KeptLaunch[] | undefined;
  #timer: LaunchWatch | undefined;

  constructor(device: GPUDevice, options: RecorderOptions = {}) {
    this.device = device;
    this.pipelines = options.pipelines ?? new PipelineCache(device);
    this.rewrite = options.rewrite;
    this.#compilesOnly = options.compilesOnly ?? false;
    this.#alignment = Math.max(device.limits.minUniformBufferOffsetAlignment, 64);
    const size = (options.maxLaunches ?? 16384) * this.#alignment;
    this.#bytes = new ArrayBuffer(size);
    this.#u32 = new Uint32Array(this.#bytes);
    this.#f32 = new Float32Array(this.#bytes);
    this.#uniforms = device.createBuffer({ label: "uniforms", size, usage: UNIFORM_USAGE });
  }

  /** Reserves `words` 32-bit words for one launch. They start as zero. */
  reserveUniforms(words: number): UniformBlock {
    const size = Math.max(Math.ceil(words / 4) * 16, 16);
    const block = this.#spare.get(size)?.pop() ?? this.#newUniforms(size);
    this.#scope?.push(block);
    return block;
  }

  #newUniforms(size: number): UniformBlock {
    const offset = this.#usedBytes;
    const next = offset + Math.ceil(size / this.#alignment) * this.#alignment;
    if (next > this.#bytes.byteLength) {
      throw new KernelError("uniforms", `${offset / this.#alignment} launches are bound already`);
    }
    this.#usedBytes = next;
    return { word: offset / 4, binding: { buffer: this.#uniforms, offset, size } };
  }

  /**
   * Runs `work`, which binds launches.
   *
   * @returns What it returns, and what gives the uniforms of those launches to others: no submit may
   * be open that has recorded one of them, and none is recorded any more.
   */
  binding<T>(work: () => T): { readonly bound: T; readonly free: () => void } {
    const blocks: UniformBlock[] = [];
    const free = () => {
      for (const block of blocks.splice(0)) this.#giveBack(block);
    };
    this.#scope = blocks;
    try {
      return { bound: work(), free };
    } catch (error) {
      free();
      throw error;
    } finally {
      this.#scope = undefined;
    }
  }

  #giveBack(block: UniformBlock): void {
    const { size } = block.binding;
    for (let i = 0; i < size / 4; i++) this.setU32(block.word + i, 0);
    const spare = this.#spare.get(size);
    if (spare === undefined) this.#spare.set(size, [block]);
    else spare.push(block);
  }

  /** A new bind group; none where nothing is bound. */
  bindGroup(descriptor: GPUBindGroupDescriptor): GPUBindGroup {
    if (this.#compilesOnly) return undefined as unknown as GPUBindGroup;
    return this.device.createBindGroup(descriptor);
  }

  setU32(word: number, value: number): boolean {
    if (this.#u32[word] === value >>> 0) return false;
    this.#u32[word] = value;
    this.#touch(word);
    return true;
  }

  setF32(word: number, value: number): boolean {
    if (Object.is(this.#f32[word], Math.fround(value))) return false;
    this.#f32[word] = value;
    this.#touch(word);
    return true;
  }

  /** The value that a launch recorded now would see. */
  value(word: number, type: "u32" | "f32"): number {
    return type === "u32" ? this.#u32[word]! : this.#f32[word]!;
  }

  #touch(word: number): void {
    if (word < this.#dirtyLow) this.#dirtyLow = word;
    if (word >= this.#dirtyHigh) this.#dirtyHigh = word + 1;
  }

  /** Times every launch while there is one; each then has a pass of its own. */
  get timer(): LaunchWatch | undefined {
    return this.isUntimed ? undefined : this.#timer;
  }

  /** @throws {KernelError} between the first record of a submit and the submit. */
  set timer(timer: LaunchWatch | undefined) {
    if (timer === this.#timer) return;
    if (this.#encoder !== undefined && !this.isUntimed) {
      throw new KernelError("timer", "launches are being recorded");
    }
    this.#timer = timer;
  }

  /** The open pass; the first use after a submit or a copy opens one. */
  get pass(): GPUComputePassEncoder {
    this.#encoder ??= this.device.createCommandEncoder();
    this.#pass ??= this.#encoder.beginComputePass();
    return this.#pass;
  }

  /** Records one launch. */
  launch(launch: RecordedLaunch): void {
    const { pipeline, group, uniforms, grid, indirect } = launch;
    if (group === undefined) throw new KernelError("launch", "kernels are compiled only");
    const { timer } = this;
    const pass = timer === undefined ? this.pass : this.#timedPass(timer, launch);
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    if (indirect === undefined) pass.dispatchWorkgroups(grid[0], grid[1], grid[2]);
    else pass.dispatchWorkgroupsIndirect(indirect.buffer, indirect.offset);
    this.launches += 1;
    if (this.#kept === undefined) return;
    const { word, binding } = uniforms;
    this.#kept.push({ ...launch, values: this.#u32.slice(word, word + binding.size / 4) });
  }

  #timedPass(timer: LaunchWatch, launch: RecordedLaunch): GPUComputePassEncoder {
    this.#encoder ??= this.device.createCommandEncoder();
    this.#pass?.end();
    this.#pass = timer.beginPass(this.#encoder, launch);
    return this.#pass;
  }

  /** Runs `record` and returns the launches it records; it must record nothing else. */
  keep(record: () => void): readonly KeptLaunch[] {
    const kept: KeptLaunch[] = [];
    this.#kept = kept;
    try {
      record();
    } finally {
      this.#kept = undefined;
    }
    return kept;
  }

  /** Records kept launches again. */
  replay(launches: readonly KeptLaunch[]): void {
    for (const launch of launches) {
      const { word } = launch.uniforms;
      const { values } = launch;
      for (let i = 0; i < values.length; i++) this.setU32(word + i, values[i]!);
      this.launch(launch);
    }
  }

  /** Copies the first `bytes` bytes of `from` (a multiple of 4) after everything recorded so far. */
  copy(from: Tensor, to: Tensor, bytes: number): void {
    if (this.#kept !== undefined) throw new KernelError("copy", "only launches can be kept");
    this.#encoder ??= this.device.createCommandEncoder();
    this.#pass?.end();
    this.#pass = undefined;
    this.#encoder.copyBufferToBuffer(from.buffer, from.offset, to.buffer, to.offset, bytes);
  }

  /** Sends everything recorded so far to the queue, in order. */
  submit(): void {
    if (this.#encoder === undefined) return;
    this.#pass?.end();
    if (this.#dirtyHigh > this.#dirtyLow) {
      const offset = this.#dirtyLow * 4;
      const length = this.#dirtyHigh * 4 - offset;
      this.device.queue.writeBuffer(this.#uniforms, offset, this.#bytes, offset, length);
      this.#dirtyLow = Number.POSITIVE_INFINITY;
      this.#dirtyHigh = 0;
    }
    const { timer } = this;
    if (timer === undefined) this.device.queue.submit([this.#encoder.finish()]);
    else timer.submit(this.#encoder);
    this.submits += 1;
    this.#encoder = this.#pass = undefined;
  }

  /** Forgets everything recorded since the last submit. */
  abandon(): void {
    this.#encoder = this.#pass = undefined;
  }

  /** Frees the uniform buffer; bound launches are of no use afterwards. */
  destroy(): void {
    this.#uniforms.destroy();
  }
}
