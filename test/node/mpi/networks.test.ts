/** Ranks of several nodes, which only a network joins, and ranks that another program starts. */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  IN_NETWORKS,
  makeNetworks,
  NEAR_HOST,
  removeNetworks,
} from "../../support/mpi/networks.ts";
import {
  LauncherProcess,
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

/** A machine with a device of InfiniBand, as far as Node can see, and none that UCX finds. */
const WITH_DEVICE = `import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
const { existsSync, readdirSync } = fs;
const folder = "/sys/class/infiniband";
fs.existsSync = (path) => path === folder || existsSync(path);
fs.readdirSync = (path, ...rest) => (path === folder ? ["mlx5_0"] : readdirSync(path, ...rest));
syncBuiltinESMExports();`;

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

  describe("with NCCL_IB_HCA", () => {
    const withDevice = () => {
      const file = join(dirname(programs.rank), "with_device.mjs");
      writeFileSync(file, WITH_DEVICE);
      return [`--import=${file}`];
    };
    const asked = { NCCL_IB_HCA: "mlx5", UCX_LOG_LEVEL: "warn" };
    /** UCX itself says what each rank has told it, with numbers of processes of five places. */
    const expectTold = (output: string) => {
      for (const rank of [0, 1]) {
        const [, pid] = new RegExp(`^rank ${rank} is process (\\d+)$`, "m").exec(output) ?? [];
        expect(output).toMatch(
          new RegExp(`:${pid} *:.*network device 'mlx5_0:1' is not available`),
        );
      }
    };

    test("have UCX look for the devices of that name", async () => {
      const told = { program: "signals", flags: withDevice(), env: asked };
      const started = new LauncherProcess(programs, told);
      expect(await started.ended).toMatchObject({ code: 0 });
      expectTold((await started.closed()) + started.stderr);
    });

    test.skipIf(mpiexec === undefined)("do so below mpiexec", () => {
      const args = ["-n", "2", process.execPath, ...withDevice(), programs.rank, "signals"];
      const variables = { ...process.env, ...asked };
      const ended = spawnSync(mpiexec!, args, { encoding: "utf8", env: variables });
      const output = ended.stdout + ended.stderr;
      expect([ended.status, output]).toEqual([0, expect.any(String)]);
      expectTold(output);
    });
  });
});
