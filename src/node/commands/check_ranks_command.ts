/**
 * The command `wisp check_ranks`: tries out the transport between ranks, without a model.
 *
 * @module
 */
import { CHECK_RANKS_OPTIONS, type GroupPlace, groupPlace } from "../mpi/rank_options.ts";
import { formatOptions, OptionError, parseOptions } from "../options/option_parser.ts";
import type { CommandContext } from "./command_context.ts";
import { StoppedError } from "./stopped_error.ts";

const USAGE = `Usage: wisp check_ranks [options]

Starts ranks, each a process, has them exchange bytes over MPI, looks at every byte, and prints how
long exchanges take. On several machines run the same command on each, with its --node-rank; machine 0
is the one that --dist-init-addr names. Started by mpiexec, mpirun or srun without these options, it is
a rank of their group. No model is loaded: wisp launch_server takes the same options.
`;

const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

/**
 * @throws {OptionError} when the command line is wrong.
 * @throws {LaunchError} when the group does not start or has lost a rank.
 * @throws {UnsupportedError} where this machine has no MPI.
 */
export async function checkRanksCommand(
  args: readonly string[],
  { stdout }: CommandContext,
): Promise<void> {
  const { values: options, positionals } = parseOptions(CHECK_RANKS_OPTIONS, args);
  if (options.help) {
    stdout.write(`${USAGE}\n${formatOptions(CHECK_RANKS_OPTIONS)}\n`);
    return;
  }
  if (positionals.length > 0) {
    throw new OptionError(`Cannot use argument "${positionals[0]}": only options are expected`);
  }
  const { outerLauncher } = await import("../mpi/outer_launcher.ts");
  if (args.length === 0 && outerLauncher(process.env) !== undefined) {
    const { runRank } = await import("../mpi/run_rank.ts");
    await runRank();
  }
  await launchUntilSignal(groupPlace(options));
}

async function launchUntilSignal(place: GroupPlace): Promise<void> {
  const { launchGroup } = await import("../mpi/launch_group.ts");
  const { rankProgram } = await import("../mpi/rank_program.ts");
  const command = [process.execPath, rankProgram()];
  const ending = new AbortController();
  const stop = (name: NodeJS.Signals) => {
    const exitCode = SIGNALS[name as keyof typeof SIGNALS];
    ending.abort(new StoppedError(`Cannot go on with the ranks: ${name} came`, exitCode));
  };
  for (const name of Object.keys(SIGNALS)) process.once(name, stop);
  try {
    await launchGroup({ ...place, command, signal: ending.signal });
  } catch (error) {
    throw ending.signal.aborted ? ending.signal.reason : error;
  } finally {
    for (const name of Object.keys(SIGNALS)) process.off(name, stop);
  }
}
