/**
 * The command `wisp serve`: `wisp launch_server` with a model that is fetched first when it is not
 * on this machine.
 *
 * @module
 */

import { hubSettings } from "../hub/hub_settings.ts";
import { MissingModelError, resolveModel } from "../hub/resolve_model.ts";
import { readOptions } from "../options/config_file.ts";
import { formatOptions, OptionError } from "../options/option_parser.ts";
import { SERVE_OPTIONS } from "../options/options.ts";
import type { CommandContext } from "./command_context.ts";

const USAGE = `Usage: wisp serve [options] ID|DIR

Serves a model over HTTP, as "wisp launch_server --model" does. A model that is not on this machine is
downloaded first, unless --offline or HF_HUB_OFFLINE=1 forbids it.
`;

/**
 * Runs until SIGTERM or SIGINT.
 *
 * @throws {OptionError} when the command line is wrong.
 * @throws {EngineError} when the model cannot be had or loaded.
 */
export async function serveCommand(
  args: readonly string[],
  context: CommandContext,
): Promise<void> {
  const { values: options, positionals } = await readOptions(SERVE_OPTIONS, args);
  if (options.help) {
    context.stdout.write(`${USAGE}\n${formatOptions(SERVE_OPTIONS)}\n`);
    return;
  }
  const models = [...positionals, ...(options.modelPath === undefined ? [] : [options.modelPath])];
  const [model, surplus] = models;
  if (model === undefined) {
    const hint = "wisp launch_server serves the one that comes with the package";
    throw new OptionError(`Cannot serve: the id or folder of a model is missing; ${hint}`);
  }
  if (surplus !== undefined) {
    throw new OptionError(`Cannot use argument "${surplus}": one model is expected`);
  }
  const { revision, endpoint } = options;
  const isOffline = options.offline || hubSettings(process.env, endpoint).offline;
  const { draftModelOf } = await import("../serve/open_model.ts");
  const draft = draftModelOf(options);
  for (const wanted of [{ model, revision }, ...(draft === undefined ? [] : [draft])]) {
    await resolveModel(wanted.model, wanted).catch(async (error: unknown) => {
      if (isOffline || !(error instanceof MissingModelError)) throw error;
      const { downloadUntilSignal } = await import("./download_command.ts");
      const { model: id, revision: asked } = wanted;
      await downloadUntilSignal({ model: id, revision: asked, endpoint }, context.stderr);
    });
  }
  const { serveRanks } = await import("../ranks/serve_ranks.ts");
  await serveRanks({ ...options, modelPath: model }, context);
}
