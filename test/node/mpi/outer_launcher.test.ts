import { expect, test } from "vitest";
import {
  ofOuterLaunchers,
  outerGroup,
  outerLauncher,
} from "../../../src/node/mpi/outer_launcher.ts";

test.each([
  [{ PATH: "/bin" }, undefined],
  [{ PMI_FD: "6", PMI_RANK: "0", PMI_SIZE: "2" }, "MPICH's mpiexec"],
  [{ PMI_PORT: "host:5000", PMI_ID: "1" }, "MPICH's mpiexec"],
  [{ OMPI_COMM_WORLD_SIZE: "2", PMIX_RANK: "0" }, "Open MPI's mpirun"],
  [{ SLURM_PROCID: "1", PMI2_JOBID: "7.0", PMI_RANK: "1" }, "Slurm's srun"],
  [{ SLURM_PROCID: "1", PMIX_RANK: "1" }, "Slurm's srun"],
  // Slurm without an interface for ranks: its processes know nothing of each other.
  [{ SLURM_PROCID: "1", SLURM_NTASKS: "2" }, undefined],
])("of %j the launcher is %s", (env, name) => {
  expect(outerLauncher(env)).toBe(name);
});

test("what such a launcher has set for its rank is not handed on to ranks of ours", () => {
  const env = { PMI_RANK: "0", PMIX_RANK: "0", HYDI_CONTROL_FD: "5", OMPI_X: "1", UCX_TLS: "tcp" };
  expect(ofOuterLaunchers(env)).toEqual(["PMI_RANK", "PMIX_RANK", "HYDI_CONTROL_FD", "OMPI_X"]);
});

test.each([
  [
    { PMI_FD: "6", PMI_RANK: "1", PMI_SIZE: "2", MPI_LOCALNRANKS: "2", MPI_LOCALRANKID: "1" },
    [1, 2, 1, 2],
  ],
  [
    {
      ...{ OMPI_COMM_WORLD_SIZE: "4", OMPI_COMM_WORLD_RANK: "3", PMIX_RANK: "3" },
      ...{ OMPI_COMM_WORLD_LOCAL_RANK: "1", OMPI_COMM_WORLD_LOCAL_SIZE: "2" },
    },
    [3, 4, 1, 2],
  ],
  [
    {
      ...{ PMI2_JOBID: "7.0", SLURM_PROCID: "2", SLURM_STEP_NUM_TASKS: "6", SLURM_LOCALID: "0" },
      ...{ SLURM_STEP_TASKS_PER_NODE: "2(x3)", SLURM_NTASKS: "8" },
    },
    [2, 6, 0, 2],
  ],
  // Nothing says which ranks are on this machine.
  [{ PMI_RANK: "1", PMI_SIZE: "2" }, [1, 2, 0, 1]],
])("%j is a rank of a group", (env, [rank, size, localRank, ranks]) => {
  expect(outerGroup(env)).toMatchObject({ rank, size, local: { rank: localRank, ranks } });
});

test.each([
  [{}],
  [{ PMI_FD: "6", PMI_RANK: "0", PMI_SIZE: "1" }],
  [{ SLURM_PROCID: "1", SLURM_NTASKS: "2" }],
  [{ PMI_FD: "6", PMI_RANK: "x", PMI_SIZE: "2" }],
])("%j is none", (env) => {
  expect(outerGroup(env)).toBeUndefined();
});
