/**
 * The texts of kernels as a device would be given them, without a device: wrappers assemble them for an
 * adapter that is only described.
 *
 * @module
 */
import { KernelError } from "../../src/errors.ts";
import {
  PipelineCache,
  type PipelineEntry,
  type PipelineRequest,
} from "../../src/gpu/pipeline_cache.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { type Tensor, whole } from "../../src/gpu/tensor.ts";
import type { KernelCheck } from "../check.ts";

/** What wrappers ask of a device before they bind. */
export type DeviceTraits = Pick<GPUDevice, "adapterInfo" | "features" | "limits">;

/** One case of a check in one of its tunings. */
export interface AssembledCase {
  readonly shape: object;
  readonly tuning: Readonly<Record<string, number>>;
}

const MOST_LAUNCHES = 64;

/** What a check's wrappers would have compiled on such a device, each text once. */
export function assembledKernels(
  check: KernelCheck<object>,
  { shape, tuning }: AssembledCase,
  traits: DeviceTraits,
): readonly PipelineRequest[] {
  const device = describedDevice(traits);
  const pipelines = new NotedPipelines(device);
  const recorder = new Recorder(device, {
    pipelines,
    compilesOnly: true,
    maxLaunches: MOST_LAUNCHES,
  });
  check.bind(recorder, shape, tensorsOf(check, shape), tuning);
  return pipelines.noted;
}

/** Notes what it is asked to compile, and compiles nothing. */
class NotedPipelines extends PipelineCache {
  readonly noted: PipelineRequest[] = [];

  override get(request: PipelineRequest): PipelineEntry {
    if (!this.noted.some(({ code }) => code === request.code)) this.noted.push(request);
    const layout = undefined as unknown as GPUBindGroupLayout;
    return { label: request.kernel, layout, pipeline: undefined };
  }
}

type Sizes = Readonly<Record<string, number>>;

/** Of cases whose references were computed before, which takes long. */
const knownSizes = new WeakMap<KernelCheck<object>, Map<object, Sizes>>();

/** On the GPU expected values are words, whatever the host computes them in. */
const WORD_BYTES = 4;

/** Bytes of each buffer of a case. */
function sizesOf(check: KernelCheck<object>, shape: object): Sizes {
  const known = knownSizes.get(check) ?? new Map<object, Sizes>();
  knownSizes.set(check, known);
  const before = known.get(shape);
  if (before !== undefined) return before;
  const inputs = check.inputs(shape, Math.random);
  const outputs = Object.entries(check.reference(shape, inputs));
  const sizes = Object.fromEntries([
    ...outputs.map(([name, { length }]) => [name, length * WORD_BYTES] as const),
    ...Object.entries(inputs).map(([name, { byteLength }]) => [name, byteLength] as const),
  ]);
  known.set(shape, sizes);
  return sizes;
}

/** Buffers of the sizes that a run of the check has: they decide in which forms wrappers bind. */
function tensorsOf(check: KernelCheck<object>, shape: object): Readonly<Record<string, Tensor>> {
  const tensors = Object.entries(sizesOf(check, shape)).map(([name, bytes]) => {
    const size = Math.max(WORD_BYTES, Math.ceil(bytes / WORD_BYTES) * WORD_BYTES);
    return [name, whole(describedBuffer({ size, usage: 0 }))] as const;
  });
  return Object.fromEntries(tensors);
}

/** A buffer of which only the size is known. */
function describedBuffer({ size, usage, label = "" }: GPUBufferDescriptor): GPUBuffer {
  return { size, usage, label } as GPUBuffer;
}

/** A device that tells what it has, and refuses to do anything. */
function describedDevice({ adapterInfo, features, limits }: DeviceTraits): GPUDevice {
  const known: Readonly<Record<string, unknown>> = {
    adapterInfo,
    features,
    limits,
    createBuffer: describedBuffer,
  };
  return new Proxy({} as GPUDevice, {
    get(_, name) {
      if (typeof name !== "string" || !(name in known)) {
        throw new KernelError("print", `there is no device to ask for ${String(name)}`);
      }
      return known[name];
    },
  });
}
