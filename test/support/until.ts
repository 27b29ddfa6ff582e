/**
 * Waiting for what a test expects to happen: as long as the test has itself. A busy machine takes many
 * times what a free one does, so that a wait with a time of its own fails for nothing.
 *
 * @module
 */
import { vi } from "vitest";

/** Longer than any test has. */
const TIMEOUT = 600_000;

/**
 * Waits until `check` throws nothing any more; gives what it returns then.
 *
 * @param interval Milliseconds between two checks: more than one where each asks a process that other
 *   work waits for.
 */
export function until<T>(check: () => T | Promise<T>, interval = 1): Promise<T> {
  return vi.waitFor(check, { timeout: TIMEOUT, interval });
}
