/**
 * A server whose ranks another program has started, each as a process of its own: MPICH's mpiexec, Open
 * MPI's mpirun, Slurm's srun. They find each other through that program, and no launchers meet.
 *
 * @module
 */
import type { CommandContext } from "../commands/command_context.ts";
import type { OuterGroup } from "../mpi/outer_launcher.ts";
import { Logger } from "../observe/logger.ts";
import { OptionError } from "../options/option_parser.ts";
import type { LaunchOptions } from "../options/options.ts";
import { serveModel } from "../serve/serve_model.ts";
import { startRanks } from "./group_engine.ts";
import { engineOptionsOf, factsOf, roleOptionsOf } from "./rank_place.ts";
import { serveRank } from "./serve_rank.ts";

/** Seconds that ranks wait for each other at the start, as that program may start them one by one. */
const TIMEOUT = 600;

/**
 * The process of rank 0 is the server, and starts one more for the rank; every other is its rank.
 *
 * @throws {OptionError} where options do not fit how it was started.
 * @throws {LaunchError} when the group has ended.
 */
export async function serveOuter(
  options: LaunchOptions,
  context: CommandContext,
  outer: OuterGroup,
): Promise<void> {
  const { name, rank, size } = outer;
  const { tpSize, restart, stderr } = { ...options, ...context };
  if (tpSize !== 1 && tpSize !== size) {
    throw new OptionError(
      `Cannot use option --tp-size ${tpSize}: ${name} has started ${size} ranks`,
    );
  }
  if (restart) {
    throw new OptionError(`Cannot use option --restart: ${name} starts ranks once`);
  }
  const own = { ...options, tpSize: size };
  const timeout = 1000 * (own.distTimeout ?? TIMEOUT);
  if (rank > 0) await follow(own, outer, timeout);
  const log = new Logger({ stderr, level: own.logLevel, format: own.logFormat });
  log.line("info", `Ranks: ${name} has started ${size} of them`);
  const place = { nodes: 1, node: 0, ranksPerNode: 1, address: undefined, timeout };
  const startEngine = startRanks({ place, outer, role: roleOptionsOf(own), restart, log });
  await serveModel(own, { ...context, startEngine, processes: "outer" });
}

/** Never comes back: the process ends with its group. */
async function follow(
  options: LaunchOptions,
  { local }: OuterGroup,
  timeout: number,
): Promise<never> {
  // The signal is for the whole group: rank 0 ends it once its requests are finished.
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => {});
  const engineOptions = engineOptionsOf(options);
  const facts = { ...factsOf(engineOptions), "--restart": options.restart };
  const load = { type: "load", options: engineOptions, facts, local, reportsSteps: false } as const;
  return serveRank(load, timeout);
}
