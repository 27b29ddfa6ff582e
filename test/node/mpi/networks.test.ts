/** Ranks of several nodes, which only a network joins, and ranks that another program starts. */
import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  lackOfMpi,
  outcomeIn,
  Programs,
  runOverMpi,
  tellLack,
} from "../../support/mpi/processes.ts";
import { until } from "../../support/until.ts";

const lack = lackOfMpi();
tellLack(lack);

let programs: Programs;
beforeAll(async () => {
  if (lack === undefined) programs = await Programs.build();
});
afterAll(() => programs?.remove());

/** UCX would find the memory that two nodes on one machine share. */
const env = { UCX_TLS: "tcp,self" };
const options = { program: "gathers", size: 4, nodes: 2, env };
const gathered = [0, 1, 2, 3].map((rank) =>
  expect.objectContaining({ place: [rank, 4], ragged: 80, agree: "done" }),
);

const [NEAR, FAR] = [`wisp-near-${process.pid}`, `wisp-far-${process.pid}`];

function ip(...args: string[]): void {
  const { status, stderr } = spawnSync("ip", args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`Cannot run ip ${args.join(" ")}: ${stderr}`);
}

/** Two networks with one cable between them; false where this user may not make any. */
function makeNetworks(): boolean {
  const isAllowed = spawnSync("ip", ["netns", "add", NEAR], { stdio: "ignore" }).status === 0;
  if (!isAllowed) return false;
  ip("netns", "add", FAR);
  ip("-n", NEAR, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", FAR);
  for (const [name, address] of [
    [NEAR, "10.77.0.1/24"],
    [FAR, "10.77.0.2/24"],
  ] as const) {
    ip("-n", name, "address", "add", address, "dev", "cable");
    for (const device of ["lo", "cable"]) ip("-n", name, "link", "set", device, "up");
  }
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

function removeNetworks(): void {
  for (const name of [NEAR, FAR]) spawnSync("ip", ["netns", "del", name], { stdio: "ignore" });
}

describe.skipIf(lack !== undefined)("ranks over MPI", () => {
  test("of two nodes on one machine exchange over TCP", async () => {
    expect(await runOverMpi(programs, options)).toEqual(gathered);
  });

  test("of two networks, as on two machines", async ({ skip }) => {
    if (!makeNetworks()) skip("only root may make networks");
    try {
      await untilCarrying();
      const address = { host: "10.77.0.1", port: 29_500 };
      const prefixes = [NEAR, FAR].map((name) => ["ip", "netns", "exec", name]);
      expect(await runOverMpi(programs, { ...options, address, prefixes })).toEqual(gathered);
    } finally {
      removeNetworks();
    }
  });

  const mpiexec = ["mpiexec.hydra", "mpiexec"].find(
    (name) => spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0,
  );
  const startedByMpiexec = (program: string) => {
    const args = ["-n", "4", process.execPath, programs.rank, program];
    const { status, stdout, stderr } = spawnSync(mpiexec!, args, { encoding: "utf8" });
    expect([status, stderr]).toEqual([0, ""]);
    return [0, 1, 2, 3].map((rank) => JSON.parse(outcomeIn(stdout, rank)!));
  };

  test.skipIf(mpiexec === undefined)("that mpiexec starts find each other, and end", () => {
    expect(startedByMpiexec("gathers")).toEqual(gathered);
    // UCX would take signals that are V8's.
    expect(startedByMpiexec("signals")).toEqual([false, false, false, false]);
  });
});
