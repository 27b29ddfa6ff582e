/**
 * Compiled pipelines of one device, shared by everything that asks for the same code.
 *
 * Compilation is asynchronous: a plan binds its launches first, while the driver compiles, and
 * waits once before its first step.
 *
 * @module
 */
import { KernelError } from "../errors.ts";

/** A pipeline that may still be compiling. */
export interface PipelineEntry {
  readonly label: string;
  readonly layout: GPUBindGroupLayout;
  pipeline: GPUComputePipeline | undefined;
}

export interface PipelineRequest {
  readonly kernel: string;
  readonly label: string;
  readonly code: string;
  /** In the order of the bindings. */
  readonly buffers: readonly GPUBufferBindingType[];
}

const VISIBLE_TO_COMPUTE = 0x4;

export class PipelineCache {
  readonly #device: GPUDevice;
  readonly #entries = new Map<string, PipelineEntry>();
  readonly #layouts = new Map<string, GPUBindGroupLayout>();
  readonly #pending = new Set<Promise<void>>();
  readonly #failures: unknown[] = [];
  #compiled = 0;

  constructor(device: GPUDevice) {
    this.#device = device;
  }

  /** Pipelines asked for so far. */
  get size(): number {
    return this.#entries.size;
  }

  /** The entry for exactly this code; compilation starts at the first request. */
  get(request: PipelineRequest): PipelineEntry {
    const known = this.#entries.get(request.code);
    if (known !== undefined) return known;
    const layout = this.#layout(request.buffers);
    const entry: PipelineEntry = { label: request.label, layout, pipeline: undefined };
    this.#entries.set(request.code, entry);
    const compilation = this.#compile(request, entry).finally(() => {
      this.#pending.delete(compilation);
    });
    this.#pending.add(compilation);
    return entry;
  }

  /**
   * Waits until every pipeline asked for is compiled.
   *
   * @throws {KernelError} with the compiler's messages when one does not compile.
   */
  async ready(onProgress?: (done: number, total: number) => void): Promise<void> {
    while (this.#pending.size > 0) {
      await Promise.race(this.#pending);
      onProgress?.(this.#compiled, this.#entries.size);
    }
    const failure = this.#failures.shift();
    if (failure !== undefined) throw failure;
  }

  async #compile({ kernel, label, code }: PipelineRequest, entry: PipelineEntry): Promise<void> {
    const device = this.#device;
    device.pushErrorScope("validation");
    const module = device.createShaderModule({ label: kernel, code });
    // Rejects when the device is lost, which says nothing about the code.
    const scope = device.popErrorScope().catch(() => null);
    try {
      entry.pipeline = await device.createComputePipelineAsync({
        label,
        layout: device.createPipelineLayout({ bindGroupLayouts: [entry.layout] }),
        compute: { module, entryPoint: "main" },
      });
      this.#compiled += 1;
    } catch (cause) {
      const invalid = await scope;
      const message = invalid?.message ?? (cause instanceof Error ? cause.message : String(cause));
      this.#failures.push(new KernelError(label, message, { cause }));
    }
  }

  // Explicit, because "auto" drops any binding that a specialisation leaves unused.
  #layout(buffers: readonly GPUBufferBindingType[]): GPUBindGroupLayout {
    const key = buffers.join();
    const known = this.#layouts.get(key);
    if (known !== undefined) return known;
    const layout = this.#device.createBindGroupLayout({
      entries: buffers.map((type, binding) => ({
        binding,
        visibility: VISIBLE_TO_COMPUTE,
        buffer: { type },
      })),
    });
    this.#layouts.set(key, layout);
    return layout;
  }
}
