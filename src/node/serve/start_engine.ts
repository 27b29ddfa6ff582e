/**
 * From options to a running engine on this machine: folder, device, engine.
 *
 * @module
 */

import { Engine } from "../../engine/engine.ts";
import type { GenerationEngine } from "../../generation.ts";
import type { QuantizationError } from "../../layers/weights/quantizing_upload.ts";
import { readTemplate } from "../options/chat_template.ts";
import { decodeBuckets } from "../options/decode_buckets.ts";
import { chunkedPrefixThreshold } from "../options/engine_variables.ts";
import type { EngineLaunchOptions } from "../options/options.ts";
import { prefixStore } from "../options/prefix_cache_options.ts";
import {
  describeRanks,
  describeRequests,
  describeSizes,
  describeSpeculation,
} from "./describe_sizes.ts";
import { asOptionError, chooseForModel, modelOptions, servingOptions } from "./map_options.ts";
import { openDeviceFor, openDraftModel, openModel } from "./open_model.ts";
import type { StartReport } from "./start_report.ts";

export type StartEngine = (
  options: EngineLaunchOptions,
  report: StartReport,
) => Promise<GenerationEngine>;

/**
 * @throws {OptionError} when an option does not fit the model.
 * @throws {CheckpointError} when the folder is not a checkpoint.
 * @throws {MissingModelError} when a model from a hub is not here, or not all of it.
 * @throws {DeviceError} when there is no adapter, or not enough memory.
 */
export const startEngine: StartEngine = async (options, report) => {
  const asked = {
    decodeBuckets: decodeBuckets(options),
    prefixStore: prefixStore(options, report),
  };
  const source = await openModel(options, report);
  const choices = await chooseForModel(options, source, report);
  const found = {
    ...asked,
    choices,
    chatTemplate: await readTemplate(options.chatTemplate),
    chunkedPrefixThreshold: chunkedPrefixThreshold(process.env),
  };
  const draftModel = await openDraftModel(options);
  const opened = await openDeviceFor(source, options, report);
  try {
    const engine: Engine = await Engine.load(source, {
      device: opened.openNext,
      ...(await modelOptions(options, { source, opened, choices, draftModel, report })),
      ...servingOptions(options, found),
      onPlan: (sizes) => {
        report.sizes(describeSizes(sizes, options.chunkedPrefillSize));
        report.sizes(describeRequests(sizes.requests, options.maxRunningRequests));
        report.sizes(describeSpeculation(sizes));
      },
      onRecovery: (event) => report.recovery(event),
      onStep: report.step && ((step) => report.step?.(step, engine.status())),
    });
    reportLoaded(engine, options, report);
    return engine;
  } catch (error) {
    throw asOptionError(error);
  }
};

/** What a start says once the model is loaded. */
function reportLoaded(
  engine: Engine,
  { quantizationReport, tpSize }: EngineLaunchOptions,
  report: StartReport,
): void {
  report.family(engine.model.family);
  report.sizes(describeRanks(tpSize, engine.unshared));
  report.classes(engine.status().numericClasses);
  report.quantized(describeErrors(engine.quantizationErrors, quantizationReport));
  report.warnings(engine.selfTest.failures);
}

/** Matrices named when not all of them are. */
const WORST_SHOWN = 3;

function describeErrors(errors: readonly QuantizationError[], all: boolean): readonly string[] {
  if (errors.length === 0) return [];
  const sorted = [...errors].sort((a, b) => b.relativeError - a.relativeError);
  const shown = all ? errors : sorted.slice(0, WORST_SHOWN);
  const middle = sorted[Math.floor(sorted.length / 2)]!;
  const percent = (share: number) => `${(100 * share).toFixed(2)} %`;
  return [
    `Quantized ${errors.length} matrices: half of them are off by ${percent(middle.relativeError)} or more`,
    ...shown.map(({ name, relativeError }) => `  ${name}: ${percent(relativeError)}`),
  ];
}
