/**
 * The command `wisp launch_server`: loads a model and serves it until a signal comes.
 *
 * @module
 */

import type { FinishReason, GenerationEngine } from "../generation.ts";
import { createApp } from "../server/app.ts";
import { type RunningServer, serve } from "./http.ts";
import { formatOptions, OptionError, parseOptions } from "./option_parser.ts";
import { LAUNCH_OPTIONS, type LaunchOptions } from "./options.ts";
import { requireOneKindOfParsers } from "./parser_options.ts";
import type { StartEngine } from "./start_engine.ts";
import { lineReport, type Output } from "./start_report.ts";

export interface CommandContext {
  readonly startEngine: StartEngine;
  readonly stdout: Output;
  readonly stderr: Output;
}

const USAGE = `Usage: wisp launch_server [options]

Serves a model over HTTP. An option may be shortened to any prefix that is not ambiguous. Nothing is
downloaded: a model from a hub has to be complete before the start ("wisp download ID"), while
"wisp serve ID" fetches what is missing.
`;

/** Tokens of the request that the server sends itself before it says that it is ready. */
const WARM_UP_TOKENS = 4;
const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/**
 * Runs until SIGTERM or SIGINT, then lets the running requests finish. A second signal ends the
 * process at once.
 *
 * @throws {OptionError} when the command line is wrong.
 * @throws {EngineError} when the model cannot be loaded.
 */
export async function launchServer(
  args: readonly string[],
  context: CommandContext,
): Promise<void> {
  const { values: options, positionals } = parseOptions(LAUNCH_OPTIONS, args);
  if (options.help) {
    context.stdout.write(`${USAGE}\n${formatOptions(LAUNCH_OPTIONS)}\n`);
    return;
  }
  if (positionals.length > 0) {
    throw new OptionError(`Cannot use argument "${positionals[0]}": only options are expected`);
  }
  await serveModel(options, context);
}

/** Loads the model and serves it until a signal comes. */
export async function serveModel(options: LaunchOptions, context: CommandContext): Promise<void> {
  requireOneKindOfParsers(options);
  const engine = await context.startEngine(options, lineReport(context.stdout));
  const { servedModelName = engine.model.path, toolCallParser, reasoningParser } = options;
  const app = createApp(engine, { servedModelName, toolCallParser, reasoningParser });
  const server = await serve(app, options);
  const stopped = stopOnSignal(server, engine);
  context.stdout.write(`Listening on ${server.url}\n`);
  if (await warmUp(engine)) {
    context.stdout.write("The server is fired up and ready to roll!\n");
  }
  await stopped;
}

/**
 * The first request compiles what is left to compile, and shows that the model works.
 *
 * @returns Whether it came to its end, which a signal may prevent.
 */
async function warmUp(engine: GenerationEngine): Promise<boolean> {
  // Token 0 is in every vocabulary, and one token fits into every context.
  const maxNewTokens = Math.min(WARM_UP_TOKENS, engine.model.contextLength - 1);
  const sampling = { maxNewTokens, temperature: 0, ignoreEos: true };
  let finish: FinishReason | null = null;
  for await (const chunk of engine.generate({ tokens: [0], sampling })) finish = chunk.finish;
  return finish !== null && finish.type !== "abort";
}

/** Resolves once a signal has come and everything that ran then has finished. */
function stopOnSignal(server: RunningServer, engine: GenerationEngine): Promise<void> {
  return new Promise((resolve, reject) => {
    let stopping = false;
    const stop = (_: NodeJS.Signals, number: number) => {
      if (stopping) process.exit(128 + number);
      stopping = true;
      server
        .close()
        .then(() => engine.close())
        .finally(() => {
          for (const name of SIGNALS) process.off(name, stop);
        })
        .then(resolve, reject);
    };
    for (const name of SIGNALS) process.on(name, stop);
  });
}
