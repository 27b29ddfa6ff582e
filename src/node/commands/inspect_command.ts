/**
 * The command `wisp inspect`: how large a model is, and how many devices hold it.
 *
 * @module
 */

import type { CheckpointReport, InspectOptions } from "../../engine/checkpoint_report.ts";
import { EngineError } from "../../errors.ts";
import { type FolderSource, openFolder } from "../files.ts";
import { CachedModel } from "../hub/hub_cache.ts";
import { hubSettings } from "../hub/hub_settings.ts";
import { MissingModelError, resolveModel } from "../hub/resolve_model.ts";
import { formatOptions, OptionError, parseOptions } from "../options/option_parser.ts";
import { INSPECT_OPTIONS } from "../options/options.ts";
import { requireUsableGroups } from "../ranks/attention_group_options.ts";
import type { CommandContext } from "./command_context.ts";
import { formatReport } from "./inspect_report.ts";

const USAGE = `Usage: wisp inspect [options] ID|DIR

Tells what a model is, how large it is, and how many devices hold it, from its config.json and the
headers of its weights: no weight is read, no GPU is used, nothing is downloaded. Of a model that is
not all here, it tells what config.json alone can say, and ends with exit code 1.
`;

/** A model that has been told about, and that no engine can load as it is. */
class UnloadableModelError extends EngineError {
  readonly code = "invalid_checkpoint";
}

/** A model by its folder or id. */
interface Named {
  readonly path: string;
  readonly revision: string | undefined;
}

/** A report, and why the model that it is of cannot be started. */
interface Inspected {
  readonly report: CheckpointReport;
  readonly obstacle: Error | undefined;
}

/**
 * Prints the report to the standard output.
 *
 * @throws {OptionError} when the command line is wrong.
 * @throws {EngineError} after the report, when the model is incomplete or damaged.
 */
export async function inspectCommand(
  args: readonly string[],
  { stdout }: CommandContext,
): Promise<void> {
  const { values: options, positionals } = parseOptions(INSPECT_OPTIONS, args);
  if (options.help) {
    stdout.write(`${USAGE}\n${formatOptions(INSPECT_OPTIONS)}\n`);
    return;
  }
  const [model, surplus] = positionals;
  if (model === undefined) {
    throw new OptionError("Cannot inspect: the id or folder of a model is missing");
  }
  if (surplus !== undefined) {
    throw new OptionError(`Cannot use argument "${surplus}": one model is expected`);
  }
  const { deviceMemory, json, revision, ...given } = options;
  const { tpSize, dpSize, enableDpAttention, enableDpLmHead, moeDenseTpSize, ...others } = given;
  requireGroups(options);
  const { speculativeDraftModelPath: path, speculativeDraftModelRevision, ...demand } = others;
  const deviceMemories = deviceMemory === undefined ? undefined : [deviceMemory];
  const draft = path === undefined ? undefined : { path, revision: speculativeDraftModelRevision };
  const { report, obstacle } = await inspect(model, revision, {
    ...demand,
    tensorParallelSize: tpSize,
    attentionGroups: enableDpAttention ? dpSize : 1,
    headByGroup: enableDpLmHead,
    wholeDenseLayers: moeDenseTpSize === 1,
    deviceMemory: deviceMemories,
    draft,
  });
  stdout.write(json ? `${JSON.stringify(report, null, 2)}\n` : formatReport(report));
  if (obstacle !== undefined) throw obstacle;
}

/** @throws {OptionError} where nothing would be told of what is asked for. */
function requireGroups(options: {
  readonly tpSize: number;
  readonly dpSize: number;
  readonly enableDpAttention: boolean;
  readonly enableDpLmHead: boolean;
}): void {
  const { tpSize, dpSize, enableDpAttention } = options;
  if (dpSize > 1 && !enableDpAttention) {
    const state = "each replica holds what is told of one, which --enable-dp-attention changes";
    throw new OptionError(`Cannot use option --dp-size ${dpSize}: ${state}`);
  }
  requireUsableGroups({ ...options, tpSize, chunkedPrefillSize: -1, pageSize: 1 });
}

async function inspect(
  model: string,
  revision: string | undefined,
  { draft, ...options }: Omit<InspectOptions, "draftModel"> & { readonly draft: Named | undefined },
): Promise<Inspected> {
  const { folder, missing } = await find(model, revision);
  const { inspectCheckpoint } = await import("../../engine/load/inspect_checkpoint.ts");
  const source = await openFolder(folder, model);
  let draftModel: FolderSource | undefined;
  try {
    draftModel = draft && (await openDraft(draft));
    const report = await inspectCheckpoint(source, { ...options, draftModel });
    const { problem } = report;
    const damaged = problem === undefined ? undefined : new UnloadableModelError(problem);
    return { report, obstacle: missing ?? damaged };
  } finally {
    await source.close();
    await draftModel?.close();
  }
}

/** Only one that is all here: without its headers nothing can be told of it. */
async function openDraft({ path, revision }: Named): Promise<FolderSource> {
  const revisionOption = "--speculative-draft-model-revision";
  const wanted = { revision, revisionOption, withoutTokenizer: true };
  return openFolder((await resolveModel(path, wanted)).folder, path);
}

/** Also of a model that is only partly in the cache. */
async function find(
  model: string,
  revision: string | undefined,
): Promise<{ readonly folder: string; readonly missing?: MissingModelError }> {
  try {
    return await resolveModel(model, { revision });
  } catch (error) {
    if (!(error instanceof MissingModelError)) throw error;
    const cached = new CachedModel(hubSettings(process.env).cacheFolder, error.id);
    const commit = await cached.commitOf(error.revision);
    if (commit === undefined) throw error;
    return { folder: cached.snapshotPath(commit), missing: error };
  }
}
