/**
 * A device as one caller sees it, whose work can be held back: everything but `queue.submit` goes to
 * the device behind it, which others use meanwhile.
 *
 * @module
 */

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

/** `target` with other members; its own methods are called on it, as native ones have to be. */
function facade<T extends object>(target: T, others: Readonly<Record<string, unknown>>): T {
  return new Proxy(target, {
    get(_, name) {
      if (typeof name === "string" && name in others) return others[name];
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
