/**
 * From what `--model` says to a folder of files: a folder, or the id of a model that a tool for
 * model hubs has downloaded before. Nothing is fetched here.
 *
 * @module
 */

import { stat } from "node:fs/promises";
import { DEFAULT_REVISION, isRevision, parseModelId } from "../../checkpoint/model_id.ts";
import { CheckpointError, EngineError } from "../../errors.ts";
import { OptionError } from "../options/option_parser.ts";
import { CachedModel } from "./hub_cache.ts";
import { type Environment, hubSettings } from "./hub_settings.ts";
import { missingFiles } from "./model_files.ts";

export interface ResolvedModel {
  /** As it was asked for: a path or an id. */
  readonly name: string;
  readonly folder: string;
  /** Commit of a model from a hub. */
  readonly commit?: string;
}

export interface ResolveOptions {
  /** Branch, tag or commit of an id. Default main. */
  readonly revision?: string | undefined;
  /** The option that names the revision, for messages. Default --revision. */
  readonly revisionOption?: string;
  /** Whether the model may come without a tokenizer. Default false. */
  readonly withoutTokenizer?: boolean;
  /** Default this process's. */
  readonly env?: Environment;
}

/** A model from a hub that is not on this machine, or not all of it. A download mends that. */
export class MissingModelError extends EngineError {
  readonly code = "missing_model";
  readonly id: string;
  readonly revision: string;

  constructor(id: string, revision: string, problem: string) {
    super(`Cannot load ${id}: ${problem}`);
    this.id = id;
    this.revision = revision;
  }
}

/** Names spelled out in one message. */
const NAMES_SHOWN = 5;

/**
 * @throws {CheckpointError} when `model` is a path and there is no such folder.
 * @throws {MissingModelError} when `model` is an id that is not in the cache, or incomplete there.
 * @throws {OptionError} when the revision does not fit.
 */
export async function resolveModel(
  model: string,
  options: ResolveOptions = {},
): Promise<ResolvedModel> {
  const { revisionOption = "--revision" } = options;
  const found = await stat(model).catch(() => undefined);
  if (found !== undefined) {
    if (!found.isDirectory()) throw new CheckpointError(model, "it is not a folder");
    if (options.revision === undefined) return { name: model, folder: model };
    const problem = `${model} is a folder and has no revisions`;
    throw new OptionError(`Cannot use option ${revisionOption} ${options.revision}: ${problem}`);
  }
  const { id, revision } = readModelId(model, options.revision, revisionOption);
  const { cacheFolder } = hubSettings(options.env ?? process.env);
  const cached = new CachedModel(cacheFolder, id);
  const commit = await cached.commitOf(revision);
  const command = downloadHint(id, revision);
  if (commit === undefined) {
    const looked = `revision ${revision} is not in ${cacheFolder}`;
    const problem = `there is no such folder, and ${looked}; ${command} fetches it`;
    throw new MissingModelError(id, revision, problem);
  }
  const folder = cached.snapshotPath(commit);
  const missing = await missingFiles(folder, options);
  if (missing.length > 0) {
    const halves = await cached.countPartials();
    const begun = halves === 0 ? "" : ` (${halves} half downloaded)`;
    const problem = `weights not fully downloaded: ${folder} lacks ${names(missing)}${begun}`;
    throw new MissingModelError(id, revision, `${problem}; ${command} goes on with it`);
  }
  return { name: model, folder, commit };
}

/**
 * The id and the revision, main where neither names one.
 *
 * @throws {CheckpointError} when `model` is no id, so that a folder must have been meant.
 * @throws {OptionError} when the revision is none, or there are two.
 */
export function readModelId(
  model: string,
  revision: string | undefined,
  option = "--revision",
): { readonly id: string; readonly revision: string } {
  const parsed = parseModelId(model);
  if (parsed === undefined) {
    throw new CheckpointError(model, "there is no such folder on this machine");
  }
  if (revision !== undefined && !isRevision(revision)) {
    throw new OptionError(`Cannot use option ${option} ${revision}: it is no branch, tag, commit`);
  }
  if (revision !== undefined && parsed.revision !== undefined && revision !== parsed.revision) {
    throw new OptionError(`Cannot use option ${option} ${revision}: the model says ${model}`);
  }
  return { id: parsed.id, revision: revision ?? parsed.revision ?? DEFAULT_REVISION };
}

function names(files: readonly string[]): string {
  const more = files.length - NAMES_SHOWN;
  return files.slice(0, NAMES_SHOWN).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** The command that fetches a model, for messages. */
function downloadHint(id: string, revision: string | undefined): string {
  const suffix = revision === undefined || revision === DEFAULT_REVISION ? "" : `@${revision}`;
  return `"wisp download ${id}${suffix}"`;
}
