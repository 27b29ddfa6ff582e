/**
 * A remedy for platforms that look for finished work only now and then.
 *
 * Firefox sees that a buffer can be mapped when it is told to submit something, and else every
 * 100 ms (https://bugzilla.mozilla.org/show_bug.cgi?id=1870699). Submitting nothing, over and over
 * while a caller waits, makes it look at once.
 *
 * @module
 */

/** Milliseconds between two looks; browsers make it 4 after a few. */
const INTERVAL_MS = 1;
/** Milliseconds after which a wait is too long for 100 ms more to matter, or the device is lost. */
const GIVE_UP_MS = 1000;

const polls = new WeakMap<GPUDevice, SubmitPoll>();

/** Says that the device is on such a platform: every `finished` on it polls from now on. */
export function pollBySubmits(device: GPUDevice): void {
  if (!polls.has(device)) polls.set(device, new SubmitPoll(device));
}

/** Waits for work of the device. */
export function finished<T>(device: GPUDevice, work: Promise<T>): Promise<T> {
  return polls.get(device)?.during(work) ?? work;
}

class SubmitPoll {
  readonly #device: GPUDevice;
  /** Those who wait. */
  #count = 0;
  /** When the last of them came. */
  #since = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(device: GPUDevice) {
    this.#device = device;
  }

  async during<T>(work: Promise<T>): Promise<T> {
    this.#count += 1;
    this.#since = performance.now();
    this.#timer ??= setTimeout(() => this.#look(), INTERVAL_MS);
    try {
      return await work;
    } finally {
      this.#count -= 1;
      if (this.#count === 0) this.#stop();
    }
  }

  #look(): void {
    if (performance.now() - this.#since > GIVE_UP_MS) {
      this.#stop();
      return;
    }
    this.#device.queue.submit([this.#device.createCommandEncoder().finish()]);
    this.#timer = setTimeout(() => this.#look(), INTERVAL_MS);
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
