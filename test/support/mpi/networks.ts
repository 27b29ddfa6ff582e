/**
 * Two networks with one cable between them, as two machines have them.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { expect } from "vitest";
import { until } from "../until.ts";

const [NEAR, FAR] = [`wisp-near-${process.pid}`, `wisp-far-${process.pid}`];

/** Where the near one is reached from the far one. */
export const NEAR_HOST = "10.77.0.1";
/** What a command is run by in each. */
export const IN_NETWORKS = [NEAR, FAR].map((name) => ["ip", "netns", "exec", name]);

function ip(...args: string[]): void {
  const { status, stderr } = spawnSync("ip", args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`Cannot run ip ${args.join(" ")}: ${stderr}`);
}

/** @returns False where this user may not make any. */
export async function makeNetworks(): Promise<boolean> {
  const isAllowed = spawnSync("ip", ["netns", "add", NEAR], { stdio: "ignore" }).status === 0;
  if (!isAllowed) return false;
  ip("netns", "add", FAR);
  ip("-n", NEAR, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", FAR);
  for (const [name, address] of [
    [NEAR, `${NEAR_HOST}/24`],
    [FAR, "10.77.0.2/24"],
  ] as const) {
    ip("-n", name, "address", "add", address, "dev", "cable");
    for (const device of ["lo", "cable"]) ip("-n", name, "link", "set", device, "up");
  }
  await untilCarrying();
  return true;
}

/** Waits until the cable carries: UCX passes over a device that does not when a rank starts. */
async function untilCarrying(): Promise<void> {
  await until(() => {
    for (const name of [NEAR, FAR]) {
      const { stdout } = spawnSync("ip", ["-n", name, "link", "show", "cable"], {
        encoding: "utf8",
      });
      expect(stdout).toContain("state UP");
    }
  });
}

/** Nothing comes through any more, and neither end is told. */
export function cutCable(): void {
  ip("-n", FAR, "link", "set", "cable", "down");
}

export function removeNetworks(): void {
  for (const name of [NEAR, FAR]) spawnSync("ip", ["netns", "del", name], { stdio: "ignore" });
}
