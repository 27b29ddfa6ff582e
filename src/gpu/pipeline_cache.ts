/**
 * Compiled pipelines of one device, shared by everything that asks for the same code.
 *
 * Compilation is asynchronous: a plan binds its launches first, while the driver compiles, and
 * waits once before its first step. A model that is loaded waits for each pipeline's first launch
 * too, so that no request pays for what a driver puts off until then.
 *
 * @module
 */
import { DeviceError, KernelError } from "../errors.ts";
import { validated } from "./error_scope.ts";
import { FirstLaunch } from "./first_launch.ts";
import { asking, canAskFor } from "./subgroup_size.ts";
import { finished } from "./submit_poll.ts";
import { askedSubgroupSize } from "./tuning.ts";

/** A pipeline that may still be compiling. */
export interface PipelineEntry {
  readonly label: string;
  readonly layout: GPUBindGroupLayout;
  pipeline: GPUComputePipeline | undefined;
}

/** A pipeline that has run once, and what was waited for it. */
export interface CompiledPipeline {
  /** The kernel and its constants. */
  readonly label: string;
  readonly milliseconds: number;
}

interface Entry extends PipelineEntry, Pick<PipelineRequest, "kernel" | "buffers"> {
  /** Resolves to the pipeline, or to nothing when it does not compile. */
  compiled: Promise<GPUComputePipeline | undefined>;
}

export interface PipelineRequest {
  readonly kernel: string;
  /** What the code was specialised by. */
  readonly constants: Readonly<Record<string, number | boolean | string>>;
  readonly code: string;
  /** In the order of the bindings. */
  readonly buffers: readonly GPUBufferBindingType[];
  /** Invocations of a subgroup that the kernel asks for. Default: as the adapter's row of tunings says. */
  readonly subgroupSize?: number | undefined;
}

interface OwnRequest extends PipelineRequest {
  /** The code that asks for no subgroup size, where that is an offer. */
  readonly plain: string | undefined;
}

const VISIBLE_TO_COMPUTE = 0x4;

export class PipelineCache {
  readonly #device: GPUDevice;
  readonly #entries = new Map<string, Entry>();
  readonly #layouts = new Map<string, GPUBindGroupLayout>();
  readonly #failures: unknown[] = [];
  /** Invocations of a subgroup that every kernel asks for that does not say itself. */
  #subgroupSize: number | undefined;

  constructor(device: GPUDevice) {
    this.#device = device;
    const size = askedSubgroupSize(device.adapterInfo);
    this.#subgroupSize = size !== undefined && canAskFor(device, size) ? size : undefined;
  }

  /** Pipelines asked for so far. */
  get size(): number {
    return this.#entries.size;
  }

  /** The entry for exactly this code; compilation starts at the first request. */
  get(given: PipelineRequest): PipelineEntry {
    const { subgroupSize = this.#subgroupSize } = given;
    const code = subgroupSize === undefined ? given.code : asking(given.code, subgroupSize);
    // An adapter may refuse a size that it lists, or for one kernel alone.
    const mayDoWithout = given.subgroupSize === undefined && subgroupSize !== undefined;
    const request = { ...given, code, plain: mayDoWithout ? given.code : undefined };
    const known = this.#entries.get(code);
    if (known !== undefined) return known;
    const { kernel, constants, buffers } = request;
    const label = `${kernel} ${JSON.stringify(constants)}`;
    const layout = this.#layout(buffers);
    const compiled = Promise.resolve(undefined);
    const entry: Entry = { kernel, label, buffers, layout, pipeline: undefined, compiled };
    entry.compiled = this.#compile(request, entry);
    this.#entries.set(code, entry);
    return entry;
  }

  /**
   * Waits until every pipeline asked for is compiled.
   *
   * @throws {KernelError} with the compiler's messages when one does not compile: the first of them,
   * once. Who can do without them goes on.
   */
  async ready(): Promise<void> {
    for (const entry of this.#entries.values()) await entry.compiled;
    const [failure] = this.#failures.splice(0);
    if (failure !== undefined) throw failure;
  }

  /**
   * Launches every pipeline asked for once, each as soon as it is compiled.
   *
   * @returns What each of them took, in the order in which they were done.
   * @throws {KernelError} when one does not compile, or the device refuses it.
   * @throws {DeviceError} when the device is lost.
   */
  async launchAll(
    onProgress?: (done: number, total: number) => void,
  ): Promise<readonly CompiledPipeline[]> {
    const first = new FirstLaunch(this.#device);
    const launched: CompiledPipeline[] = [];
    let before = performance.now();
    const launch = async ({ kernel, label, layout, buffers, ...entry }: Entry) => {
      const pipeline = await entry.compiled;
      if (pipeline === undefined) return;
      await first.run({ kernel, pipeline, layout, buffers });
      const now = performance.now();
      launched.push({ label, milliseconds: now - before });
      before = now;
      onProgress?.(launched.length, this.size);
    };
    const launches = await Promise.allSettled([...this.#entries.values()].map(launch));
    first.destroy();
    await this.ready();
    const failed = launches.find((one) => one.status === "rejected");
    if (failed !== undefined) throw failed.reason;
    // What a lost device is given counts as done on some platforms, and the loss is told before that.
    const { lost, queue } = this.#device;
    if (await Promise.race([lost, finished(this.#device, queue.onSubmittedWorkDone())])) {
      throw new DeviceError("Cannot launch pipelines: the device is lost");
    }
    return launched;
  }

  async #compile(
    request: OwnRequest,
    entry: PipelineEntry,
  ): Promise<GPUComputePipeline | undefined> {
    const { kernel, code, plain } = request;
    const device = this.#device;
    const { label } = entry;
    let scope: Promise<GPUError | null> | undefined;
    try {
      const { result: module, invalid } = validated(device, () =>
        device.createShaderModule({ label: kernel, code }),
      );
      scope = invalid;
      entry.pipeline = await device.createComputePipelineAsync({
        label,
        layout: device.createPipelineLayout({ bindGroupLayouts: [entry.layout] }),
        compute: { module, entryPoint: "main" },
      });
    } catch (cause) {
      if (plain !== undefined) {
        await scope;
        this.#subgroupSize = undefined;
        return this.#compile({ ...request, code: plain, plain: undefined }, entry);
      }
      const invalid = await scope;
      const message = invalid?.message ?? (cause instanceof Error ? cause.message : String(cause));
      this.#failures.push(new KernelError(label, message, { cause }));
    }
    return entry.pipeline;
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
