/**
 * What a device thinks of calls: error scopes are one stack of a device, so one is there during the
 * calls only, which must end before they return.
 *
 * @module
 */

/** What calls gave, and how the device answers. */
export interface Validated<T> {
  readonly result: T;
  /** Null where it took them; never rejects: a loss of the device, too, says nothing about the calls. */
  readonly invalid: Promise<GPUError | null>;
}

/** Calls `work`, and asks the device whether what it did is valid. */
export function validated<T>(
  device: GPUDevice,
  work: () => T extends PromiseLike<unknown> ? never : T,
): Validated<T> {
  let invalid: Promise<GPUError | null> | undefined;
  let result: T;
  device.pushErrorScope("validation");
  try {
    result = work();
  } finally {
    invalid = device.popErrorScope().catch(() => null);
  }
  return { result, invalid };
}
