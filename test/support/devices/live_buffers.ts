/**
 * Bytes of a device's buffers that have been made and not destroyed.
 *
 * @module
 */
import { facade } from "./facade.ts";

export interface LiveBuffers {
  /** Makes what the device behind it makes. */
  readonly device: GPUDevice;
  /** Bytes of buffers that were made here and are not destroyed. */
  readonly byteLength: number;
}

export function liveBuffers(real: GPUDevice): LiveBuffers {
  let byteLength = 0;
  const createBuffer = (descriptor: GPUBufferDescriptor): GPUBuffer => {
    const buffer = real.createBuffer(descriptor);
    const destroy = buffer.destroy.bind(buffer);
    let isLive = true;
    byteLength += buffer.size;
    buffer.destroy = () => {
      if (isLive) byteLength -= buffer.size;
      isLive = false;
      destroy();
      return undefined;
    };
    return buffer;
  };
  return {
    device: facade(real, { createBuffer }),
    get byteLength() {
      return byteLength;
    },
  };
}
