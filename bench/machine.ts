/**
 * Where figures were taken.
 *
 * @module
 */
import { adapter } from "../test/support/gpu.ts";

/** What figures are worth nothing without. */
export function machine(): string {
  const { name, driver, backend } = adapter;
  return `adapter: ${name} (${driver || "unknown driver"}, ${backend}), Node ${process.versions.node}`;
}
