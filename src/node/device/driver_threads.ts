/**
 * How many threads lavapipe should run a model's launches on.
 *
 * @module
 */
import type { WeightSource } from "../../checkpoint/source.ts";

/**
 * Waking a thread for a launch takes some 40 us, and a decode step has dozens of launches. A model
 * below this size has not enough work in a launch to make that good: the embedded one decodes
 * twice as fast on the driver's own thread.
 */
const SMALL_MODEL_BYTES = 64 * 2 ** 20;

/** For `openDevice`: 0 for a small checkpoint, else the driver's default. */
export async function driverThreadsFor(source: WeightSource): Promise<0 | undefined> {
  let bytes = 0;
  for (const { name, size } of await source.list()) {
    if (name.endsWith(".safetensors")) bytes += size;
  }
  return bytes < SMALL_MODEL_BYTES ? 0 : undefined;
}
