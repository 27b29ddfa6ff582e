/** Ranks of several nodes, which only a network joins, and ranks that another program starts. */
import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  IN_NETWORKS,
  makeNetworks,
  NEAR_HOST,
  removeNetworks,
} from "../../support/mpi/networks.ts";
import {
  lackOfMpi,
  outcomeIn,
  Programs,
  runOverMpi,
  tellLack,
} from "../../support/mpi/processes.ts";

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

describe.skipIf(lack !== undefined)("ranks over MPI", () => {
  test("of two nodes on one machine exchange over TCP", async () => {
    expect(await runOverMpi(programs, options)).toEqual(gathered);
  });

  test("of two networks, as on two machines", async ({ skip }) => {
    if (!(await makeNetworks())) skip("only root may make networks");
    try {
      const address = { host: NEAR_HOST, port: 29_500 };
      const given = { ...options, address, prefixes: IN_NETWORKS };
      expect(await runOverMpi(programs, given)).toEqual(gathered);
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
