/**
 * The command `wisp build-mpi`: builds the library through which ranks talk to MPI.
 *
 * @module
 */
import {
  formatOptions,
  OptionError,
  type OptionTable,
  parseOptions,
} from "../options/option_parser.ts";
import type { CommandContext } from "./command_context.ts";

const USAGE = `Usage: wisp build-mpi

Builds the library through which ranks of several processes or machines talk to MPI, from C that comes
with this package, and keeps it in the cache folder. The first start of such ranks does it by itself:
run this where a start should find it, or to see what is missing. Needs a C compiler and MPICH with its
headers; the variable WISP_MPICC names another compiler of MPI.
`;

const OPTIONS = {
  help: {
    flags: ["--help"],
    kind: "flag",
    default: false,
    help: "print this help",
    group: "Other",
  },
} as const satisfies OptionTable;

/**
 * @throws {OptionError} when the command line is wrong.
 * @throws {UnsupportedError} that says what to install.
 */
export async function buildMpiCommand(
  args: readonly string[],
  { stdout }: CommandContext,
): Promise<void> {
  const { values: options, positionals } = parseOptions(OPTIONS, args);
  if (options.help) {
    stdout.write(`${USAGE}\n${formatOptions(OPTIONS)}\n`);
    return;
  }
  if (positionals.length > 0) {
    throw new OptionError(`Cannot use argument "${positionals[0]}": only options are expected`);
  }
  const { buildShim } = await import("../mpi/build_shim.ts");
  const { loadMpiLibrary } = await import("../mpi/mpi_library.ts");
  const { path, compiler, isKept } = buildShim();
  await loadMpiLibrary(path);
  const how = isKept ? "was built already" : "built";
  stdout.write(`The library of ranks over MPI (${how} by ${compiler}): ${path}\n`);
}
