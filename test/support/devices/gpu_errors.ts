/**
 * WebGPU errors that no error scope caught, collected for the test that caused them.
 *
 * @module
 */

interface GpuErrors {
  readonly messages: string[];
  /** Resolves when the device has reported everything about the work given to it. */
  flush: () => Promise<unknown>;
}

/** On the global object, because a runner may load this module more than once in one process. */
const shared = globalThis as { wispGpuErrors?: GpuErrors };
shared.wispGpuErrors ??= { messages: [], flush: async () => {} };

export const gpuErrors: GpuErrors = shared.wispGpuErrors;
