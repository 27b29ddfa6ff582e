/**
 * The command `wisp launch_server`: loads a model and serves it until a signal comes.
 *
 * @module
 */

import { readOptions } from "../options/config_file.ts";
import { formatOptions, OptionError } from "../options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../options/options.ts";
import type { CommandContext } from "./command_context.ts";

const USAGE = `Usage: wisp launch_server [options]

Serves a model over HTTP. An option may be shortened to any prefix that only it has, unless that is
the name of another server's option. Nothing is downloaded: a model from a hub has to be complete before
the start ("wisp download ID"), while "wisp serve ID" fetches what is missing. The log goes to the
standard error.

SIGTERM or SIGINT ends the server once running requests have finished, with exit code 0; 1 says that
something failed or requests had to be aborted, 2 that the command line is wrong. A second signal ends
it at once, with 128 and the signal's number.
`;

/**
 * Runs until SIGTERM or SIGINT, then lets the running requests finish. A second signal ends the
 * process at once.
 *
 * @throws {OptionError} when the command line is wrong.
 * @throws {EngineError} when the model cannot be loaded.
 * @throws {Error} when requests did not finish in time.
 */
export async function launchServer(
  args: readonly string[],
  context: CommandContext,
): Promise<void> {
  const { values: options, positionals } = await readOptions(LAUNCH_OPTIONS, args);
  if (options.help) {
    context.stdout.write(`${USAGE}\n${formatOptions(LAUNCH_OPTIONS)}\n`);
    return;
  }
  if (positionals.length > 0) {
    throw new OptionError(`Cannot use argument "${positionals[0]}": only options are expected`);
  }
  const { serveRanks } = await import("../ranks/serve_ranks.ts");
  await serveRanks(options, context);
}
