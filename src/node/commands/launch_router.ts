/**
 * The command `wisp launch_router`: sends requests to servers until a signal comes.
 *
 * @module
 */

import { readOptions } from "../options/config_file.ts";
import { formatOptions, OptionError } from "../options/option_parser.ts";
import { ROUTER_OPTIONS } from "../route/router_options.ts";
import type { CommandContext } from "./command_context.ts";

const USAGE = `Usage: wisp launch_router --worker-urls URL... [options]

Sends each request to one of several servers that serve the same model, and its answer back. It needs
neither a model nor a GPU. It listens at once; requests are refused until a worker is healthy. The log
goes to the standard error.

SIGTERM or SIGINT ends the router once running requests have finished, with exit code 0; 1 says that
workers did not become healthy, something failed or requests had to be aborted, 2 that the command line
is wrong. A second signal ends it at once, with 128 and the signal's number.
`;

/**
 * Runs until SIGTERM or SIGINT, then lets the running requests finish. A second signal ends the
 * process at once.
 *
 * @throws {OptionError} when the command line is wrong.
 * @throws {Error} when workers do not become healthy, or requests did not finish in time.
 */
export async function launchRouter(
  args: readonly string[],
  context: CommandContext,
): Promise<void> {
  const { values: options, positionals } = await readOptions(ROUTER_OPTIONS, args);
  if (options.help) {
    context.stdout.write(`${USAGE}\n${formatOptions(ROUTER_OPTIONS)}\n`);
    return;
  }
  if (positionals.length > 0) {
    throw new OptionError(`Cannot use argument "${positionals[0]}": only options are expected`);
  }
  const { runRouter } = await import("../route/run_router.ts");
  await runRouter(options, context);
}
