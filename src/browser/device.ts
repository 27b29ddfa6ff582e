/**
 * Opens devices on the adapter that a browser offers.
 *
 * @module
 */

import { DeviceError } from "../errors.ts";
import { deviceDescriptor } from "../gpu/device.ts";

/**
 * Opens a device with everything that kernels can use. Works on a page and in a worker.
 *
 * @throws {DeviceError} when this browser has no WebGPU, no adapter, or refuses the device.
 */
export async function openDevice(): Promise<GPUDevice> {
  if (navigator.gpu === undefined) {
    throw new DeviceError("Cannot find a GPU adapter: this browser or page has no WebGPU");
  }
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
  if (adapter === null) {
    throw new DeviceError("Cannot find a GPU adapter: the browser offers none on this machine");
  }
  try {
    return await adapter.requestDevice({ label: "wisp", ...deviceDescriptor(adapter) });
  } catch (cause) {
    throw new DeviceError(`Cannot open a device: ${(cause as Error).message}`, { cause });
  }
}
