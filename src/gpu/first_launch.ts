/**
 * The first launch of a pipeline, over a grid that holds no workgroup.
 *
 * Some drivers make machine code when a pipeline is launched for the first time, not when it is
 * created. The GPU is told of the empty grid by a buffer: one that the host knows to be empty is not
 * launched at all. As nothing runs, it does not matter what is bound.
 *
 * @module
 */
import { DeviceError, KernelError } from "../errors.ts";
import { validated } from "./error_scope.ts";
import { finished } from "./submit_poll.ts";
import { allocateTensor, type Tensor } from "./tensor.ts";

// The values of GPUBufferUsage, which is a global of browsers only.
const UNIFORM_USAGE = 0x40;
const INDIRECT_USAGE = 0x100;
/** Bytes of a grid: three words. */
const GRID_BYTES = 12;
/** At least what the smallest binding of any kernel may have. */
const BYTES = 4096;

/** A pipeline as it is launched here. */
export interface Launchable {
  readonly kernel: string;
  readonly pipeline: GPUComputePipeline;
  readonly layout: GPUBindGroupLayout;
  /** In the order of the bindings. */
  readonly buffers: readonly GPUBufferBindingType[];
}

export class FirstLaunch {
  readonly #device: GPUDevice;
  readonly #grid: GPUBuffer;
  #uniforms: GPUBuffer | undefined;
  /** By binding: one buffer must not be bound to be read and to be written. */
  readonly #storage: Tensor[] = [];

  constructor(device: GPUDevice) {
    this.#device = device;
    this.#grid = device.createBuffer({
      label: "empty grid",
      size: GRID_BYTES,
      usage: INDIRECT_USAGE,
    });
  }

  /**
   * Resolves when the launch has run.
   *
   * @throws {KernelError} when the device refuses it.
   * @throws {DeviceError} when the device is lost, where the queue tells that.
   */
  async run({ kernel, pipeline, layout, buffers }: Launchable): Promise<void> {
    const device = this.#device;
    const { invalid } = validated(device, () => {
      this.#submit({ kernel, pipeline, layout, buffers });
    });
    try {
      await finished(device, device.queue.onSubmittedWorkDone());
    } catch (cause) {
      throw new DeviceError(`Cannot launch "${kernel}": the device is lost`, { cause });
    }
    const error = await invalid;
    if (error !== null) throw new KernelError(kernel, error.message);
  }

  #submit({ kernel, pipeline, layout, buffers }: Launchable): void {
    const device = this.#device;
    const group = device.createBindGroup({
      label: kernel,
      layout,
      entries: buffers.map((type, binding) => ({
        binding,
        resource: this.#resource(type, binding),
      })),
    });
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroupsIndirect(this.#grid, 0);
    pass.end();
    device.queue.submit([encoder.finish()]);
  }

  destroy(): void {
    this.#grid.destroy();
    this.#uniforms?.destroy();
    for (const { buffer } of this.#storage) buffer.destroy();
  }

  #resource(type: GPUBufferBindingType, binding: number): GPUBufferBinding {
    if (type === "uniform") {
      const label = "unused uniforms";
      this.#uniforms ??= this.#device.createBuffer({ label, size: BYTES, usage: UNIFORM_USAGE });
      return { buffer: this.#uniforms };
    }
    this.#storage[binding] ??= allocateTensor(this.#device, BYTES, "unused");
    return this.#storage[binding];
  }
}
