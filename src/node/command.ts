/**
 * Chooses the command and turns what goes wrong into one sentence and an exit code.
 *
 * @module
 */

import type { EventEmitter } from "node:events";
import type { CommandContext } from "./commands/command_context.ts";
import { StoppedError } from "./commands/stopped_error.ts";
import { LaunchError } from "./mpi/launch_error.ts";
import { OptionError } from "./options/option_parser.ts";
import { packageVersion } from "./package_root.ts";
import { shown } from "./terminal_text.ts";

const USAGE = `Usage: wisp COMMAND [options]

Commands:
  serve ID|DIR                  serve a model over HTTP, downloaded first when it is not here
  download ID                   fetch a model from a model hub
  inspect ID|DIR                tell how large a model is, and how many devices hold it
  simulate                      predict how fast a model is on devices that are not here
  launch_server                 serve a model over HTTP
  launch_router                 send requests to several servers of a model
  chat                          talk with a model, or a server, in the terminal
  generate "prompt"             stream one answer into the terminal
  compile_kernels               compile what a model runs with ahead of its first start
  tune                          find the fastest form of the kernels on this adapter
  bench_serving                 put a load on a server that runs, and tell its speed
  check_ranks                   try out the transport between ranks, on one machine or several
  build-mpi                     build what ranks talk to MPI through
  check-schema FILE             tell what a JSON schema means here, and an answer that fits it
  doctor                        tell what this machine has for serving models, and what it lacks

Options:
  --help                        print this help, or that of a command
  --version                     print the version
`;

type Command = (args: readonly string[], context: CommandContext) => Promise<void>;

const compile = async () => (await import("./commands/compile_command.ts")).compileCommand;

/** Each is loaded when it is run: help and messages come at once. */
const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import("./commands/serve_command.ts")).serveCommand,
  download: async () => (await import("./commands/download_command.ts")).downloadCommand,
  inspect: async () => (await import("./commands/inspect_command.ts")).inspectCommand,
  simulate: async () => (await import("./simulate/simulate_command.ts")).simulateCommand,
  launch_server: async () => (await import("./commands/launch_server.ts")).launchServer,
  launch_router: async () => (await import("./commands/launch_router.ts")).launchRouter,
  chat: async () => (await import("./commands/chat_command.ts")).chatCommand,
  generate: async () => (await import("./commands/generate_command.ts")).generateCommand,
  compile_kernels: compile,
  compile_deep_gemm: compile,
  tune: async () => (await import("./commands/tune_command.ts")).tuneCommand,
  bench_serving: async () =>
    (await import("./commands/bench_serving_command.ts")).benchServingCommand,
  check_ranks: async () => (await import("./commands/check_ranks_command.ts")).checkRanksCommand,
  "build-mpi": async () => (await import("./commands/build_mpi_command.ts")).buildMpiCommand,
  "check-schema": async () =>
    (await import("./commands/check_schema_command.ts")).checkSchemaCommand,
  doctor: async () => (await import("./doctor/doctor_command.ts")).doctorCommand,
};

/**
 * Runs one command line, without the program's name.
 *
 * @returns The exit code: 0, 1 when something failed, 2 when the command line is wrong, 3 when a rank
 * was lost, 4 when not all ranks came in time, 128 and its number when a signal has ended a download or
 * a group of ranks.
 */
export async function runCommand(
  args: readonly string[],
  context: CommandContext,
): Promise<number> {
  try {
    await run(args, context);
    return 0;
  } catch (error) {
    // What a server or a file says may be in it.
    context.stderr.write(`${shown(error instanceof Error ? error.message : String(error))}\n`);
    if (error instanceof StoppedError || error instanceof LaunchError) return error.exitCode;
    return error instanceof OptionError ? 2 : 1;
  }
}

/**
 * Ends the program once the program that reads its output has ended, as after `wisp generate ... |
 * head`.
 */
export function exitOnBrokenPipe(output: EventEmitter, exit: (code: number) => void): void {
  output.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    exit(0);
  });
}

async function run([name, ...args]: readonly string[], context: CommandContext): Promise<void> {
  if (name === "--help" || name === "help") {
    context.stdout.write(USAGE);
    return;
  }
  if (name === "--version") {
    context.stdout.write(`${packageVersion()}\n`);
    return;
  }
  const names = Object.keys(COMMANDS).join(", ");
  if (name === undefined) throw new OptionError(`Cannot start: name a command, one of ${names}`);
  const load = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (load === undefined) {
    throw new OptionError(`Cannot run "${name}": there is no such command, only ${names}`);
  }
  const command = await load();
  await command(args, context);
}
