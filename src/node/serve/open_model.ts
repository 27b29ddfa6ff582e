/**
 * The model that a command is told to use, and a device for it.
 *
 * @module
 */
import { deviceFactory, type OpenedDevice, openDevice } from "../device/device.ts";
import { driverThreadsFor } from "../device/driver_threads.ts";
import { type FolderSource, openFolder } from "../files.ts";
import { type ResolveOptions, resolveModel } from "../hub/resolve_model.ts";
import type { EngineLaunchOptions } from "../options/options.ts";
import { defaultModelPath } from "../package_root.ts";
import type { StartReport } from "./start_report.ts";

/**
 * @throws {CheckpointError} when the folder is not a checkpoint.
 * @throws {MissingModelError} when a model from a hub is not here, or not all of it.
 */
export async function openModel(
  { modelPath, revision }: Pick<EngineLaunchOptions, "modelPath" | "revision">,
  report: StartReport,
): Promise<FolderSource> {
  const { name, folder, commit } = await resolveModel(modelPath ?? defaultModelPath(), {
    revision,
  });
  // A model from a hub is known by its id, not by where the cache has put it.
  const source = await openFolder(folder, commit === undefined ? undefined : name);
  report.model(source.name);
  return source;
}

/** What says which model drafts. */
export type DraftModelOptions = Pick<
  EngineLaunchOptions,
  "speculativeAlgorithm" | "speculativeDraftModelPath" | "speculativeDraftModelRevision"
>;

/**
 * How the model that drafts is looked for; undefined where none does. What other options make of its
 * path is for the engine to refuse.
 */
export function draftModelOf({
  speculativeAlgorithm: algorithm,
  speculativeDraftModelPath: model,
  speculativeDraftModelRevision: revision,
}: DraftModelOptions): (ResolveOptions & { readonly model: string }) | undefined {
  if (model === undefined || algorithm === undefined || algorithm === "NGRAM") return undefined;
  const revisionOption = "--speculative-draft-model-revision";
  return { model, revision, revisionOption, withoutTokenizer: true };
}

/**
 * @throws {CheckpointError} when the folder is not a checkpoint.
 * @throws {MissingModelError} when a model from a hub is not here, or not all of it.
 */
export async function openDraftModel(
  options: DraftModelOptions,
): Promise<FolderSource | undefined> {
  const wanted = draftModelOf(options);
  if (wanted === undefined) return undefined;
  const { name, folder } = await resolveModel(wanted.model, wanted);
  return openFolder(folder, name);
}

export interface ReplaceableDevice extends OpenedDevice {
  /** Gives the device to the engine, and others when it is lost. */
  readonly openNext: () => Promise<GPUDevice>;
}

/** @throws {DeviceError} when there is no adapter. */
export async function openDeviceFor(
  source: FolderSource,
  { adapter: wanted, numericClass }: Pick<EngineLaunchOptions, "adapter" | "numericClass">,
  report: StartReport,
): Promise<ReplaceableDevice> {
  const driverThreads = await driverThreadsFor(source);
  const subgroupMatrices = numericClass === "mma128";
  const wishes = { driverThreads, subgroupMatrices, ...(wanted && { adapter: wanted }) };
  const opened = await openDevice(wishes);
  report.adapter(opened.adapter);
  return { ...opened, openNext: deviceFactory(wishes, opened.device) };
}
