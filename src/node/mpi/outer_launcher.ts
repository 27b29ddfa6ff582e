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

/** A group of ranks that such a launcher has started, as one of its processes sees it. */
export interface OuterGroup {
  /** The launcher. */
  readonly name: string;
  readonly rank: number;
  readonly size: number;
  /** Of this machine's ranks. */
  readonly local: { readonly rank: number; readonly ranks: number };
}

/** What launchers call these numbers: MPICH's, Open MPI's, those of PMIx, Slurm's. */
const NUMBERS = {
  rank: ["PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID", "PMI_ID"],
  size: ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
  localRank: ["MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"],
  localRanks: ["MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE"],
} as const;

/** Undefined where no launcher has started this process as one of several. */
export function outerGroup(env: Environment): OuterGroup | undefined {
  const name = outerLauncher(env);
  const number = (of: keyof typeof NUMBERS) => {
    const variable = NUMBERS[of].find((one) => env[one] !== undefined);
    // Slurm writes "2(x3)" where three machines have two each.
    const digits = /^\d{1,9}/.exec(env[variable ?? ""] ?? "")?.[0];
    return digits === undefined ? undefined : Number(digits);
  };
  const [rank, size] = [number("rank"), number("size")];
  if (name === undefined || rank === undefined || size === undefined || size === 1) {
    return undefined;
  }
  const ranks = number("localRanks") ?? 1;
  return { name, rank, size, local: { rank: number("localRank") ?? 0, ranks } };
}
