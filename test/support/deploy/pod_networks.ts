/**
 * A network of pods on this machine: each has a network namespace and an address of its own, and this
 * machine has one among theirs.
 *
 * @module
 */
import { spawnSync } from "node:child_process";

const SWITCH = `wisp-pods-${process.pid}`;
const CABLE = `wisp${process.pid}`;
const podName = (i: number) => `wisp-pod-${process.pid}-${i}`;

/** Where pods reach this machine. */
export const HOST_ADDRESS = "10.77.1.1";

export interface PodNetwork {
  readonly address: string;
  /** What a command is run by in it. */
  readonly launcher: readonly string[];
}

function ip(...args: string[]): void {
  const { status, stderr } = spawnSync("ip", args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`Cannot run ip ${args.join(" ")}: ${stderr}`);
}

/** @returns Undefined where this user may not make any. */
export function podNetworks(count: number): readonly PodNetwork[] | undefined {
  const isAllowed = spawnSync("ip", ["netns", "add", SWITCH], { stdio: "ignore" }).status === 0;
  if (!isAllowed) return undefined;
  ip("-n", SWITCH, "link", "add", "bridge", "type", "bridge");
  ip("-n", SWITCH, "link", "set", "bridge", "up");
  ip("link", "add", CABLE, "type", "veth", "peer", "name", "host", "netns", SWITCH);
  ip("address", "add", `${HOST_ADDRESS}/24`, "dev", CABLE);
  ip("link", "set", CABLE, "up");
  plugIn("host");
  return Array.from({ length: count }, (_, i) => {
    const [name, port, address] = [podName(i), `pod${i}`, `10.77.1.${10 + i}`];
    ip("netns", "add", name);
    ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", SWITCH);
    ip("-n", name, "address", "add", `${address}/24`, "dev", "eth0");
    for (const device of ["lo", "eth0"]) ip("-n", name, "link", "set", device, "up");
    plugIn(port);
    return { address, launcher: ["ip", "netns", "exec", name] };
  });
}

function plugIn(port: string): void {
  ip("-n", SWITCH, "link", "set", port, "master", "bridge");
  ip("-n", SWITCH, "link", "set", port, "up");
}

export function removePodNetworks(count: number): void {
  const names = [SWITCH, ...Array.from({ length: count }, (_, i) => podName(i))];
  for (const name of names) spawnSync("ip", ["netns", "del", name], { stdio: "ignore" });
}
