/**
 * Where and when figures were taken.
 *
 * @module
 */
import { adapter } from "../../test/support/devices/gpu.ts";

/** What figures are worth nothing without. */
export function machine(): string {
  const { name, driver, backend } = adapter;
  const date = new Date().toISOString().slice(0, 10);
  const node = `Node ${process.versions.node}`;
  return `adapter: ${name} (${driver || "unknown driver"}, ${backend}), ${node}, ${date}`;
}
