/**
 * Which adapter to look for.
 *
 * @module
 */

/**
 * `auto` takes the best there is, `gpu` the system's own GPU and nothing else; the other two force
 * one of the drivers for the CPU.
 */
export type AdapterPreference = "auto" | "gpu" | "lavapipe" | "swiftshader";

export const ADAPTER_PREFERENCES: readonly AdapterPreference[] = [
  "auto",
  "gpu",
  "lavapipe",
  "swiftshader",
];
