/**
 * From options to compiled kernels, in the cache of this machine's driver: folder, device, kernels.
 *
 * @module
 */
import { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { withExportedLayer } from "../../engine/draft_model/exported_layer.ts";
import { type CompiledKernels, compileKernels } from "../../engine/load/compile_kernels.ts";
import { absentGroup } from "../../parallel/communicator.ts";
import type { CompileOptions } from "../options/options.ts";
import { describeRequests, describeSpeculation } from "./describe_sizes.ts";
import { asOptionError, chooseForModel, modelOptions } from "./map_options.ts";
import { openDeviceFor, openDraftModel, openModel } from "./open_model.ts";
import type { StartReport } from "./start_report.ts";

/**
 * @param compile What compiles.
 * @throws {OptionError} when an option does not fit the model.
 * @throws {CheckpointError} when the folder is not a checkpoint.
 * @throws {MissingModelError} when a model from a hub is not here, or not all of it.
 * @throws {DeviceError} when there is no adapter, or not enough memory.
 */
export async function compileModel(
  options: CompileOptions,
  report: StartReport,
  compile = compileKernels,
): Promise<CompiledKernels> {
  const source = await openModel(options, report);
  const draftModel = await openDraftModel(options);
  try {
    const choices = await chooseForModel(options, source, report);
    const opened = await openDeviceFor(source, options, report);
    const { device } = opened;
    const setting = { source, opened, choices, draftModel, report };
    const whole = await withExportedLayer(source, await modelOptions(options, setting));
    const compiled = await compile(await Checkpoint.open(whole.source), {
      device,
      communicator: absentGroup(options.tpSize),
      ...whole.options,
      onPlan: (sizes) => {
        report.sizes(describeRequests(sizes.requests, options.maxRunningRequests));
        report.sizes(describeSpeculation(sizes));
      },
    });
    report.warnings(compiled.selfTest.failures);
    device.destroy();
    return compiled;
  } catch (error) {
    throw asOptionError(error);
  } finally {
    await source.close?.();
    await draftModel?.close();
  }
}
