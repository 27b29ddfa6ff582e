/**
 * The network devices between machines: the variable NCCL_IB_HCA names them on other servers, and
 * UCX_NET_DEVICES to the library that MPI sends with.
 *
 * @module
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Environment } from "../hub/hub_settings.ts";

export const HCA = "NCCL_IB_HCA";
const UCX = "UCX_NET_DEVICES";
const DEVICES = "/sys/class/infiniband";
const INTERFACES = "/sys/class/net";

/** What the variable comes to. */
export interface NetworkDevices {
  /** The value of UCX_NET_DEVICES; undefined where that stays as it is. */
  readonly devices?: string;
  /** Why it has no effect. */
  readonly problem?: string;
}

/**
 * `mlx5_0,mlx5_1:2` names devices by how their names begin, `=` in front by their whole names, a port
 * behind each: 1 where there is none.
 */
export function networkDevices(env: Environment, folder = DEVICES): NetworkDevices {
  const asked = env[HCA]?.trim();
  if (!asked) return {};
  if (env[UCX] !== undefined) return { problem: `${UCX} is set, which says the same` };
  if (asked.startsWith("^")) {
    return { problem: `devices that are left out cannot be told UCX; name the others in ${UCX}` };
  }
  const isWhole = asked.startsWith("=");
  const there = existsSync(folder) ? readdirSync(folder) : [];
  const found = asked
    .slice(isWhole ? 1 : 0)
    .split(",")
    .flatMap((one) => {
      const [name, port = "1"] = one.trim().split(":") as [string, string?];
      const fits = (device: string) => (isWhole ? device === name : device.startsWith(name));
      return there.filter(fits).map((device) => `${device}:${port}`);
    });
  if (found.length === 0) return { problem: "this machine has no such device of InfiniBand" };
  return { devices: [...new Set(found)].join(",") };
}

/** To be called before MPI is loaded, which has UCX read its variables. */
export function chooseNetworkDevices(env: NodeJS.ProcessEnv): void {
  const { devices } = networkDevices(env);
  if (devices !== undefined) env[UCX] = devices;
}

/**
 * Devices that are named as a whole, as UCX names them: one of InfiniBand has a port, 1 where none is
 * given; an interface of the system, such as `eth0`, has none.
 */
export function ucxDevices(
  asked: string,
  { devices = DEVICES, interfaces = INTERFACES } = {},
): { readonly names: string; readonly missing?: string } {
  const names: string[] = [];
  for (const one of asked.split(",")) {
    const [name = "", port] = one.trim().split(":");
    const isThere = (folder: string) => /^\w[\w.-]*$/.test(name) && existsSync(join(folder, name));
    if (isThere(devices)) names.push(`${name}:${port ?? 1}`);
    else if (port === undefined && isThere(interfaces)) names.push(name);
    else return { names: "", missing: JSON.stringify(one.trim()) };
  }
  return { names: names.join(",") };
}
