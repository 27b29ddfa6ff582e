/**
 * How much memory a device may be taken to have, since WebGPU does not tell.
 *
 * @module
 */

import { totalmem } from "node:os";
import type { AdapterDescription } from "./device.ts";

const GIB = 2 ** 30;

/**
 * Gibibytes by what the adapter's name contains, the first match counts. Where a card is sold with
 * several sizes, the smallest one stands here.
 */
const KNOWN: readonly (readonly [name: RegExp, gib: number])[] = [
  [/b200/, 180],
  [/h200/, 139],
  [/h100/, 80],
  [/l40|a6000|a40\b|6000-ada/, 48],
  [/a100/, 40],
  [/rtx-5090/, 32],
  [/rtx-(3090|4090)|\bl4\b|a10\b|7900-xtx/, 24],
  [/rtx-(4080|5080|5070-ti)|\bt4\b|v100|7900-xt\b/, 16],
  [/rtx-(4070|5070|3080-ti)/, 12],
  [/rtx-3080/, 10],
  [/rtx-(2080|3070|3060|4060|5060)/, 8],
];

/** For a GPU that the table does not name. */
const UNKNOWN_GIB = 4;

/**
 * Bytes. Half of the machine's memory where the device shares it (a CPU adapter, Apple's GPUs),
 * else by the table.
 */
export function defaultDeviceMemory(adapter: AdapterDescription): number {
  if (adapter.isCpu || adapter.backend === "Metal") return Math.floor(hostMemory() / 2);
  const name = `${adapter.name} ${adapter.driver}`.toLowerCase().replace(/[ _]+/g, "-");
  const gib = KNOWN.find(([pattern]) => pattern.test(name))?.[1] ?? UNKNOWN_GIB;
  return gib * GIB;
}

/** What this process may use: a container may have less than the machine. */
function hostMemory(): number {
  const limit = process.constrainedMemory?.() ?? 0;
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}
