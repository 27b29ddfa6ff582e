/**
 * Chooses the command and turns what goes wrong into one sentence and an exit code.
 *
 * @module
 */

import type { EventEmitter } from "node:events";
import { benchServingCommand } from "./bench_serving_command.ts";
import { compileCommand } from "./compile_command.ts";
import { downloadCommand, StoppedError } from "./download_command.ts";
import { generateCommand } from "./generate_command.ts";
import { inspectCommand } from "./inspect_command.ts";
import { type CommandContext, launchServer } from "./launch_server.ts";
import { OptionError } from "./option_parser.ts";
import { packageVersion } from "./package_root.ts";
import { serveCommand } from "./serve_command.ts";
import { tuneCommand } from "./tune_command.ts";

const USAGE = `Usage: wisp COMMAND [options]

Commands:
  serve ID|DIR                  serve a model over HTTP, downloaded first when it is not here
  download ID                   fetch a model from a model hub
  inspect ID|DIR                tell how large a model is, and how many devices hold it
  launch_server                 serve a model over HTTP
  generate "prompt"             stream one answer into the terminal
  compile_kernels               compile what a model runs with ahead of its first start
  tune                          find the fastest form of the kernels on this adapter
  bench_serving                 put a load on a server that runs, and tell its speed

Options:
  --help                        print this help, or that of a command
  --version                     print the version
`;

const COMMANDS: Readonly<
  Record<string, (args: readonly string[], context: CommandContext) => Promise<void>>
> = {
  serve: serveCommand,
  download: downloadCommand,
  inspect: inspectCommand,
  launch_server: launchServer,
  generate: generateCommand,
  compile_kernels: compileCommand,
  compile_deep_gemm: compileCommand,
  tune: tuneCommand,
  bench_serving: benchServingCommand,
};

/**
 * Runs one command line, without the program's name.
 *
 * @returns The exit code: 0, 1 when something failed, 2 when the command line is wrong, 128 and its
 * number when a signal has ended a download.
 */
export async function runCommand(
  args: readonly string[],
  context: CommandContext,
): Promise<number> {
  try {
    await run(args, context);
    return 0;
  } catch (error) {
    context.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    if (error instanceof StoppedError) return error.exitCode;
    return error instanceof OptionError ? 2 : 1;
  }
}

/** Ends the program once nobody reads its output any more, as after `wisp generate ... | head`. */
export function exitOnBrokenPipe(output: EventEmitter, exit: (code: number) => void): void {
  output.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    exit(0);
  });
}

async function run([name, ...args]: readonly string[], context: CommandContext): Promise<void> {
  if (name === "--help") {
    context.stdout.write(USAGE);
    return;
  }
  if (name === "--version") {
    context.stdout.write(`${packageVersion()}\n`);
    return;
  }
  const names = Object.keys(COMMANDS).join(", ");
  if (name === undefined) throw new OptionError(`Cannot start: name a command, one of ${names}`);
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined) {
    throw new OptionError(`Cannot run "${name}": there is no such command, only ${names}`);
  }
  await command(args, context);
}
