/**
 * Launchers of other programs that have started this process as one of their ranks: Slurm's srun,
 * MPICH's mpiexec, Open MPI's mpirun and their kin.
 *
 * @module
 */
import type { Environment } from "../hub/hub_settings.ts";

/** Which launcher sets a variable of each rank, and how the rank finds the others. */
const LAUNCHERS: readonly (readonly [variable: string, name: string])[] = [
  ["OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"],
  ["PMIX_RANK", "a launcher with PMIx"],
  ["PMI_FD", "MPICH's mpiexec"],
  ["PMI_PORT", "MPICH's mpiexec"],
  ["PMI2_JOBID", "a launcher with PMI-2"],
  ["PMI_RANK", "a launcher with PMI"],
];

/** How the variables begin by which such a launcher would find its ranks again. */
const BEGINNINGS = ["PMI_", "PMI2_", "PMIX_", "OMPI_", "MPIEXEC_", "HYDRA_", "HYDI_"];

/**
 * The launcher that has started this process as a rank of its group; undefined where none has.
 * With srun, `--mpi` says which interface Slurm has for ranks; without one it starts processes that
 * know nothing of each other.
 */
export function outerLauncher(env: Environment): string | undefined {
  const known = LAUNCHERS.find(([variable]) => env[variable] !== undefined);
  if (known === undefined) return undefined;
  return env.SLURM_PROCID === undefined ? known[1] : "Slurm's srun";
}

/** Variables of this environment that a launcher around this process has set for its rank. */
export function ofOuterLaunchers(env: Environment): readonly string[] {
  return Object.keys(env).filter((name) => BEGINNINGS.some((begin) => name.startsWith(begin)));
}
