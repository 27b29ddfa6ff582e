/**
 * Which CPUs each rank process of this machine runs on, where the variable SVC_SET_CPU_AFFINITY asks for
 * ranks that keep out of each other's way.
 *
 * @module
 */
import { existsSync, readFileSync } from "node:fs";
import type { Environment } from "../hub/hub_settings.ts";
import { OptionError } from "../options/option_parser.ts";

export const CPU_AFFINITY = "SVC_SET_CPU_AFFINITY";

const VALUES: Readonly<Record<string, boolean>> = { 0: false, false: false, 1: true, true: true };

/** @throws {OptionError} when the variable is anything but 0, 1, false or true. */
export function bindsRanks(env: Environment): boolean {
  const text = env[CPU_AFFINITY]?.trim();
  if (!text) return false;
  const value = text.toLowerCase();
  if (Object.hasOwn(VALUES, value)) return VALUES[value]!;
  throw new OptionError(`Cannot use ${CPU_AFFINITY} ${text}: it must be true or false`);
}

/** Where a CPU is. */
export interface CpuPlace {
  readonly cpu: number;
  readonly socket: number;
  readonly core: number;
}

/** The CPUs that this process may use; undefined where the system does not tell, as only Linux does. */
export function allowedCpus(root = "/"): readonly CpuPlace[] | undefined {
  const status = `${root}proc/self/status`;
  if (!existsSync(status)) return undefined;
  const list = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync(status, "utf8"))?.[1];
  return list === undefined ? undefined : numbersOf(list).map((cpu) => placeOf(cpu, root));
}

/** "0-3,8". */
function numbersOf(list: string): readonly number[] {
  return list.split(",").flatMap((part) => {
    const [first, last = first] = part.split("-").map(Number) as [number, number?];
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}

function placeOf(cpu: number, root: string): CpuPlace {
  const topology = `${root}sys/devices/system/cpu/cpu${cpu}/topology/`;
  const read = (name: string, otherwise: number) =>
    existsSync(topology + name) ? Number(readFileSync(topology + name, "utf8")) : otherwise;
  return { cpu, socket: read("physical_package_id", 0), core: read("core_id", cpu) };
}

/**
 * CPUs of each rank: parts of equal size, of which each has whole cores of one socket as far as they
 * go round. Ranks share CPUs where there are more ranks.
 */
export function cpusOfRanks(
  places: readonly CpuPlace[],
  ranks: number,
): readonly (readonly number[])[] {
  const cpus = [...places]
    .sort((a, b) => a.socket - b.socket || a.core - b.core || a.cpu - b.cpu)
    .map(({ cpu }) => cpu);
  return Array.from({ length: ranks }, (_, rank) => {
    if (ranks > cpus.length) return [cpus[rank % cpus.length]!];
    const at = (part: number) => Math.floor((part * cpus.length) / ranks);
    return cpus.slice(at(rank), at(rank + 1));
  });
}
