/**
 * The model that a command is told to use, and a device for it.
 *
 * @module
 */
import { deviceFactory, type OpenedDevice, openDevice } from "../device/device.ts";
import { driverThreadsFor } from "../device/driver_threads.ts";
import { type FolderSource, openFolder } from "../files.ts";
import { resolveModel } from "../hub/resolve_model.ts";
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
