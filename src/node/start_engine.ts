/**
 * From options to a running engine on this machine: folder, device, engine.
 *
 * @module
 */

import { UnsupportedError } from "../errors.ts";
import type { GenerationEngine } from "../generation.ts";
import { openDevice } from "./device.ts";
import { openFolder } from "./files.ts";
import type { EngineLaunchOptions } from "./options.ts";
import { defaultModelPath } from "./package_root.ts";
import type { StartReport } from "./start_report.ts";

export type StartEngine = (
  options: EngineLaunchOptions,
  report: StartReport,
) => Promise<GenerationEngine>;

/**
 * @throws {CheckpointError} when the folder is not a checkpoint.
 * @throws {DeviceError} when there is no adapter, or not enough memory.
 */
export const startEngine: StartEngine = async (options, report) => {
  const source = await openFolder(options.modelPath ?? defaultModelPath());
  report.model(source.name);
  const { device, adapter } = await openDevice(
    options.adapter === undefined ? {} : { adapter: options.adapter },
  );
  report.adapter(adapter);
  device.destroy();
  await source.close();
  throw new UnsupportedError("this checkpoint", "the engine is not there yet");
};
