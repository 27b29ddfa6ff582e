/**
 * A device that has what WebGPU guarantees everywhere and nothing else: default limits, no features.
 *
 * @module
 */
import { openDevice } from "../../../src/node/device/device.ts";
import { gpuErrors } from "./gpu_errors.ts";

/** Opens one on the adapter of the tests, whatever more that has. */
export async function openDefaultDevice(): Promise<GPUDevice> {
  const { requestDevice } = GPUAdapter.prototype;
  GPUAdapter.prototype.requestDevice = function () {
    return requestDevice.call(this, { label: "default limits" });
  };
  try {
    const { device } = await openDevice();
    device.addEventListener("uncapturederror", ({ error }) => {
      gpuErrors.messages.push(error.message);
    });
    return device;
  } finally {
    GPUAdapter.prototype.requestDevice = requestDevice;
  }
}
