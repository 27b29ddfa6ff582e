/**
 * A device as one caller sees it, whose work can be held back: everything but `queue.submit` goes to
 * the device behind it, which others use meanwhile.
 *
 * @module
 */
import { facade } from "./facade.ts";

export interface UnsentDevice {
  readonly device: GPUDevice;
  /** From now on what is submitted here is dropped. */
  stop(): void;
}

export function unsentDevice(real: GPUDevice): UnsentDevice {
  let isSending = true;
  const queue = facade(real.queue, {
    submit: (buffers: Iterable<GPUCommandBuffer>) => {
      if (isSending) real.queue.submit(buffers);
    },
  });
  const stop = () => {
    isSending = false;
  };
  return { device: facade(real, { queue }), stop };
}
