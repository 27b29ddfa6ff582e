/**
 * Opens devices on the adapter that a browser offers.
 *
 * @module
 */

import { DeviceError, InvalidRequestError } from "../errors.ts";
import { cpuDriverOf, requestDevice } from "../gpu/device.ts";
import { pollBySubmits } from "../gpu/submit_poll.ts";

export interface OpenDeviceOptions {
  /** Which GPU of a machine with two. Default: the faster one. */
  readonly powerPreference?: GPUPowerPreference | undefined;
}

/** What an adapter is, as far as a browser tells: much of it may be empty. */
export interface AdapterDescription {
  /** For a person. */
  readonly name: string;
  readonly vendor: string;
  readonly architecture: string;
  /** Driver and its version. */
  readonly driver: string;
  /** True for SwiftShader and every other adapter that runs shaders on the CPU. */
  readonly isCpu: boolean;
  readonly features: readonly string[];
  readonly limits: Readonly<Record<string, number>>;
  /** What to tell the person who sits in front of it: that it will be slow, and why. */
  readonly warning: string | undefined;
}

const POWER_PREFERENCES: readonly GPUPowerPreference[] = ["high-performance", "low-power"];
const NO_ADAPTER = "Cannot find a GPU adapter";

/**
 * Opens a device with everything that kernels can use. Works on a page and in a worker.
 *
 * @throws {DeviceError} when this browser has no WebGPU, no adapter, or refuses the device.
 * @throws {InvalidRequestError} naming an option that is unknown.
 */
export async function openDevice(options: OpenDeviceOptions = {}): Promise<GPUDevice> {
  const adapter = await findAdapter(options);
  try {
    const device = await requestDevice(adapter);
    if (isFirefox()) pollBySubmits(device);
    return device;
  } catch (cause) {
    throw new DeviceError(`Cannot open a device: ${(cause as Error).message}`, { cause });
  }
}

/** A factory for `Engine.load`: each call opens a new device. */
export function deviceFactory(options: OpenDeviceOptions = {}): () => Promise<GPUDevice> {
  return () => openDevice(options);
}

/**
 * Says what `openDevice` would open a device on.
 *
 * @throws as `openDevice` does where there is no adapter.
 */
export async function inspectAdapter(options: OpenDeviceOptions = {}): Promise<AdapterDescription> {
  return describeAdapter(await findAdapter(options));
}

export function describeAdapter(adapter: GPUAdapter): AdapterDescription {
  const { vendor, architecture, device, description } = adapter.info;
  const { isCpu, name: driverName } = cpuDriverOf(adapter.info);
  const name = driverName ?? (description || device || architecture || vendor || "unknown adapter");
  const limits = adapter.limits as unknown as Readonly<Record<string, unknown>>;
  // Their names belong to the prototype.
  const names: string[] = [];
  for (const limit in limits) if (typeof limits[limit] === "number") names.push(limit);
  return {
    name,
    vendor,
    architecture,
    isCpu,
    driver: description,
    features: [...adapter.features].sort(),
    limits: Object.fromEntries(names.sort().map((limit) => [limit, limits[limit] as number])),
    warning: isCpu ? slowness(name) : undefined,
  };
}

function slowness(name: string): string {
  return (
    `Answers will be slow: ${name} computes on the CPU. If this machine has a GPU, switch hardware` +
    " acceleration on in the browser's settings"
  );
}

async function findAdapter(options: OpenDeviceOptions): Promise<GPUAdapter> {
  const { powerPreference = "high-performance", ...unknown } = options;
  for (const name of Object.keys(unknown)) {
    throw new InvalidRequestError(`Cannot use option ${name}: a device has no such option`, name);
  }
  if (!POWER_PREFERENCES.includes(powerPreference)) {
    throw new InvalidRequestError(
      `Cannot use powerPreference ${powerPreference}: it must be one of ${POWER_PREFERENCES.join(", ")}`,
      "powerPreference",
    );
  }
  if (navigator.gpu === undefined) throw new DeviceError(`${NO_ADAPTER}: ${whyNoWebGpu()}`);
  const adapter = await navigator.gpu.requestAdapter({ powerPreference });
  if (adapter !== null) return adapter;
  throw new DeviceError(
    `${NO_ADAPTER}: the browser offers none on this machine; it may have hardware acceleration` +
      " switched off, or block this GPU's driver",
  );
}

function whyNoWebGpu(): string {
  if (globalThis.isSecureContext === false) {
    return "browsers have WebGPU on secure pages only, those of https:// or of localhost";
  }
  const isPage = typeof globalThis.document === "object";
  return isPage ? "this browser has no WebGPU" : "this browser has no WebGPU in workers";
}

/** The one browser that looks for finished work every 100 ms; no feature tells. */
function isFirefox(): boolean {
  return /\bFirefox\//.test(navigator.userAgent ?? "");
}
