/**
 * What every platform asks of an adapter, and how a device's failures become errors.
 *
 * @module
 */
import { DeviceError } from "../errors.ts";
import { SUBGROUP_SIZE_CONTROL } from "./subgroup_size.ts";

/**
 * A device, or a way to get one, which is used once everything else has been checked, and again for
 * another one when it is lost: each call has to open one. `which` is 0 but for the further devices of
 * `rankDevices`.
 */
export type DeviceSource = GPUDevice | ((which: number) => Promise<GPUDevice>);

// What kernels can use, at most: asking for more only costs portability between machines.
export const WANTED_LIMITS: Readonly<Record<string, number>> = {
  maxBufferSize: Number.POSITIVE_INFINITY,
  maxStorageBufferBindingSize: Number.POSITIVE_INFINITY,
  maxStorageBuffersPerShaderStage: 10,
  maxComputeWorkgroupStorageSize: 32768,
  maxComputeInvocationsPerWorkgroup: 1024,
  maxComputeWorkgroupSizeX: 1024,
  maxComputeWorkgroupsPerDimension: 65535,
};

/** Products of small matrices by the invocations of a subgroup: an experiment of Dawn, no standard. */
export const SUBGROUP_MATRIX = "chromium-experimental-subgroup-matrix" as GPUFeatureName;

const WANTED_FEATURES: readonly GPUFeatureName[] = [
  ...(["shader-f16", "subgroups", "timestamp-query"] as const),
  SUBGROUP_SIZE_CONTROL,
  SUBGROUP_MATRIX,
];

/** All that a device tells of whose it is: devices of one name give the same bits. */
export function adapterName({ adapterInfo }: GPUDevice): string {
  const { vendor, architecture, device, description } = adapterInfo;
  return [vendor, architecture, device, description].join(", ");
}

/** Everything of this adapter that kernels can use. */
export function deviceDescriptor(adapter: GPUAdapter): GPUDeviceDescriptor {
  const limits = adapter.limits as unknown as Readonly<Record<string, number>>;
  return {
    requiredFeatures: WANTED_FEATURES.filter((feature) => adapter.features.has(feature)),
    requiredLimits: Object.fromEntries(
      Object.entries(WANTED_LIMITS).map(([name, most]) => [name, Math.min(limits[name]!, most)]),
    ),
  };
}

/** Of devices that `requestDevice` opened: Dawn's binding for Node leaves lists out of a device's own. */
const infos = new WeakMap<GPUDevice, GPUAdapterInfo>();

/** A device with everything of this adapter that kernels can use. */
export async function requestDevice(adapter: GPUAdapter): Promise<GPUDevice> {
  const device = await adapter.requestDevice({ label: "wisp", ...deviceDescriptor(adapter) });
  infos.set(device, adapter.info);
  return device;
}

/** What the adapter of a device tells, of a device that a caller brings what that tells itself. */
export function adapterInfoOf(device: GPUDevice): GPUAdapterInfo {
  return infos.get(device) ?? device.adapterInfo;
}

/** Drivers that run shaders on the CPU: Mesa's, Google's, and Microsoft's. */
export const CPU_DRIVERS = ["llvmpipe", "SwiftShader", "Microsoft Basic Render Driver"];

export interface CpuDriver {
  /** Whether the adapter runs shaders on the CPU, by a driver that is known or not. */
  readonly isCpu: boolean;
  readonly name: string | undefined;
}

/** What an adapter tells of a driver that runs shaders on the CPU. */
export function cpuDriverOf(info: GPUAdapterInfo): CpuDriver {
  const { architecture, device, description, isFallbackAdapter } = info;
  const words = `${architecture} ${device} ${description}`.toLowerCase();
  const name = CPU_DRIVERS.find((driver) => words.includes(driver.toLowerCase()));
  return { isCpu: isFallbackAdapter || name !== undefined, name };
}

/** Milliseconds within which a loss is told of once something has failed because of it. */
const NOTICE_MS = 200;

/** How a device was lost; undefined when it is there, whatever has failed. */
export async function lossOf<Loss>({
  lost,
}: {
  readonly lost: Promise<Loss>;
}): Promise<Loss | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const noNotice = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), NOTICE_MS);
  });
  const loss = await Promise.race([lost, noNotice]);
  clearTimeout(timer);
  return loss;
}

/**
 * Runs `work` and waits for the device to say whether it could allocate all of it.
 *
 * Error scopes are one stack of the device, and whatever else uses it pushes onto the same: another
 * load, an engine that runs. So ours are there during `work` only, which must end before it returns.
 *
 * @param what What is being allocated, for the message.
 * @throws {DeviceError} when the device is out of memory or rejects the work.
 */
export async function allocating<T>(
  device: GPUDevice,
  what: string,
  work: () => T extends PromiseLike<unknown> ? never : T,
): Promise<T> {
  let scopes: readonly Promise<GPUError | null>[] = [];
  let result: T;
  device.pushErrorScope("out-of-memory");
  device.pushErrorScope("validation");
  try {
    result = work();
  } finally {
    // Both now: what comes between two turns would have the outer one open.
    const [validation, memory] = [device.popErrorScope(), device.popErrorScope()];
    // They reject when the device is lost, which `device.lost` tells of.
    scopes = [validation, memory].map((scope) => scope.catch(() => null));
  }
  const [invalid, exhausted] = await Promise.all(scopes);
  if (exhausted) {
    throw new DeviceError(
      `Cannot allocate ${what}: the device is out of memory (${exhausted.message})`,
    );
  }
  if (invalid) throw new DeviceError(`Cannot allocate ${what}: ${invalid.message}`);
  return result;
}
