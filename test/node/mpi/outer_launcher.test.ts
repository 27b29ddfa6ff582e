import { expect, test } from "vitest";
import { ofOuterLaunchers, outerLauncher } from "../../../src/node/mpi/outer_launcher.ts";

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
