/**
 * `--profile-kernels`: a table of all kernels that a server has launched, when it ends.
 *
 * @module
 */
import { UnsupportedError } from "../../errors.ts";
import type { GenerationEngine } from "../../generation.ts";
import { formatProfile } from "../../profile.ts";

/**
 * Measures every launch until the engine is closed. Resolves once it does.
 *
 * @returns Waits for the end and gives the table.
 * @throws {UnsupportedError} when the engine or its GPU cannot be measured.
 */
export async function profileKernels(engine: GenerationEngine): Promise<() => Promise<string>> {
  if (engine.profile === undefined) {
    throw new UnsupportedError("--profile-kernels", "this engine cannot be measured");
  }
  let onStart = () => {};
  const started = new Promise<void>((resolve) => {
    onStart = resolve;
  });
  const untilClosed = () => {
    onStart();
    return new Promise<never>(() => {});
  };
  const profile = engine.profile(untilClosed, { spans: false });
  await Promise.race([started, profile]);
  profile.catch(() => {}); // the caller who asks for the table gets the error
  return async () => formatProfile(await profile);
}
