/**
 * The model that `wisp simulate` is about: a folder, a download, whole or not, or a shape that is known.
 *
 * @module
 */
import { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { isJsonObject, readJson } from "../../checkpoint/json_file.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import type { WeightType } from "../../engine/load/sizing.ts";
import { CheckpointError } from "../../errors.ts";
import { configSource, type ModelConfig, withWeights } from "../../simulate/config_source.ts";
import { KNOWN_MODELS } from "../../simulate/known_models.ts";
import { openFolder } from "../files.ts";
import { CachedModel } from "../hub/hub_cache.ts";
import { hubSettings } from "../hub/hub_settings.ts";
import { MissingModelError, resolveModel } from "../hub/resolve_model.ts";

interface SimulatedModel {
  /** Of the weights that are simulated. */
  readonly source: WeightSource;
  close(): Promise<void>;
}

/**
 * Reads config.json, and headers where all weights are there and are to be taken as they are.
 *
 * @throws {CheckpointError | UnsupportedError} naming what is wrong with the model, or not supported.
 * @throws {EngineError} when there is no such model, and its shape is not known.
 */
export async function openSimulated(
  model: string,
  {
    revision,
    weightType,
  }: { readonly revision?: string | undefined; readonly weightType?: WeightType | undefined },
): Promise<SimulatedModel> {
  const folder = await folderOf(model, revision);
  if (folder === undefined) return ofConfig(model, KNOWN_MODELS.get(model)!, weightType);
  const source = await openFolder(folder, model);
  const close = () => source.close();
  try {
    if (weightType === undefined && (await isWhole(source))) return { source, close };
    const config = await readJson(source, "config.json");
    if (!isJsonObject(config)) throw new CheckpointError("config.json", "it must be an object");
    return { ...(await ofConfig(model, config, weightType)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function ofConfig(
  name: string,
  config: ModelConfig,
  weightType: WeightType | undefined,
): Promise<SimulatedModel> {
  const wanted = weightType === undefined ? config : withWeights(config, weightType);
  return { source: await configSource(name, wanted), close: async () => {} };
}

/** Undefined where nothing of the model is here, and its shape is known. */
async function folderOf(model: string, revision: string | undefined): Promise<string | undefined> {
  try {
    return (await resolveModel(model, { revision })).folder;
  } catch (error) {
    if (!(error instanceof MissingModelError)) throw error;
    const cached = new CachedModel(hubSettings(process.env).cacheFolder, error.id);
    const commit = await cached.commitOf(error.revision);
    if (commit !== undefined) return cached.snapshotPath(commit);
    if (KNOWN_MODELS.has(model)) return undefined;
    throw error;
  }
}

async function isWhole(source: WeightSource): Promise<boolean> {
  try {
    await Checkpoint.open(source);
    return true;
  } catch (error) {
    if (error instanceof CheckpointError) return false;
    throw error;
  }
}
