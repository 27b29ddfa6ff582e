/**
 * The command `wisp download`: fetches a model from a hub into the local cache.
 *
 * @module
 */

import type { DownloadedModel } from "../hub/download_model.ts";
import { downloadReport } from "../hub/download_progress.ts";
import type { Output } from "../observe/logger.ts";
import { formatOptions, OptionError, parseOptions } from "../options/option_parser.ts";
import { DOWNLOAD_OPTIONS } from "../options/options.ts";
import type { CommandContext } from "./command_context.ts";
import { StoppedError } from "./stopped_error.ts";

const USAGE = `Usage: wisp download [options] ID

Fetches a model, as ORG/NAME or ORG/NAME@REVISION, from a model hub: its weights as safetensors, its
configuration and its tokenizer. It goes to the cache of the hub's own tools ($HF_HUB_CACHE, else
$HF_HOME/hub, else ~/.cache/huggingface/hub), where --model finds it. What an earlier download has
left is used, and every file is checked. The access token is $HF_TOKEN, or what the hub's own tools
have stored.
`;

const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

export interface DownloadRequest {
  readonly model: string;
  readonly revision: string | undefined;
  readonly endpoint: string | undefined;
}

/**
 * Prints the folder of the model to the standard output, once it is complete.
 *
 * @throws {OptionError} when the command line is wrong.
 * @throws {DownloadError} naming the file that cannot be had.
 * @throws {StoppedError} when a signal comes.
 */
export async function downloadCommand(
  args: readonly string[],
  { stdout, stderr }: CommandContext,
): Promise<void> {
  const { values: options, positionals } = parseOptions(DOWNLOAD_OPTIONS, args);
  if (options.help) {
    stdout.write(`${USAGE}\n${formatOptions(DOWNLOAD_OPTIONS)}\n`);
    return;
  }
  const [model, surplus] = positionals;
  if (model === undefined) {
    throw new OptionError("Cannot download: the id of a model is missing, as ORG/NAME");
  }
  if (surplus !== undefined) {
    throw new OptionError(`Cannot use argument "${surplus}": one model is expected`);
  }
  const { revision, endpoint } = options;
  const { folder } = await downloadUntilSignal({ model, revision, endpoint }, stderr);
  stdout.write(`${folder}\n`);
}

/** A download that a signal ends in order, so that the next one goes on with it. */
export async function downloadUntilSignal(
  { model, revision, endpoint }: DownloadRequest,
  output: Output,
): Promise<DownloadedModel> {
  const ending = new AbortController();
  const stop = (name: NodeJS.Signals) => {
    const problem = "a signal came, the same command goes on where it was";
    const exitCode = SIGNALS[name as keyof typeof SIGNALS];
    ending.abort(new StoppedError(`Cannot download ${model}: ${problem}`, exitCode));
  };
  for (const name of Object.keys(SIGNALS)) process.once(name, stop);
  try {
    const { downloadModel } = await import("../hub/download_model.ts");
    const report = downloadReport(model, output);
    return await downloadModel(model, { revision, endpoint, report, signal: ending.signal });
  } catch (error) {
    if (output.isTTY) output.write("\n");
    throw ending.signal.aborted ? ending.signal.reason : error;
  } finally {
    for (const name of Object.keys(SIGNALS)) process.off(name, stop);
  }
}
