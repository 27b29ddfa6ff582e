/**
 * From options to a running engine on this machine: folder, device, engine.
 *
 * @module
 */

import type { SharedLayout } from "../../cache/page_form.ts";
import { Engine } from "../../engine/engine.ts";
import type { EngineOptions } from "../../engine/engine_options.ts";
import { optionsOfGroup } from "../../engine/groups/attention_groups.ts";
import type { StartSizes } from "../../engine/load/start_sizes.ts";
import type { RankLoading } from "../../engine/ranks/rank_group.ts";
import type { GenerationEngine } from "../../generation.ts";
import type { QuantizationError } from "../../layers/weights/quantizing_upload.ts";
import type { RoleCounts } from "../../server/server_context.ts";
import type { DisaggregationOptions } from "../disaggregation/disaggregation_options.ts";
import type { FolderSource } from "../files.ts";
import { readTemplate } from "../options/chat_template.ts";
import { decodeBuckets } from "../options/decode_buckets.ts";
import { chunkedPrefixThreshold } from "../options/engine_variables.ts";
import type { EngineLaunchOptions, LaunchOptions } from "../options/options.ts";
import { prefixStore } from "../options/prefix_cache_options.ts";
import { attentionGroupsOf } from "../ranks/attention_group_options.ts";
import {
  describeRanks,
  describeRequests,
  describeSizes,
  describeSpeculation,
} from "./describe_sizes.ts";
import { asOptionError, chooseForModel, modelOptions, servingOptions } from "./map_options.ts";
import {
  type LocalRanksOf,
  openDeviceFor,
  openDraftModel,
  openModel,
  type ReplaceableDevice,
} from "./open_model.ts";
import type { StartReport } from "./start_report.ts";

export interface StartedEngine extends GenerationEngine {
  /** Of its pages; absent where ranks are processes, unless this process says where these are met. */
  readonly pageLayout?: SharedLayout | undefined;
  /** What it has of requests that it shares with other servers itself, where ranks are processes. */
  readonly roomCounts?: (() => RoleCounts) | undefined;
  /** Rejects when the engine is gone for good, and a server of it has to end. */
  readonly lost?: Promise<never>;
  /** Gives the device back, once the engine is closed. */
  readonly freeDevice?: () => void;
}

/** What an engine is started with; a server's says too what it shares with others, and its groups. */
export type StartOptions = EngineLaunchOptions & Partial<DisaggregationOptions & StartedGroups>;

type StartedGroups = Pick<
  LaunchOptions,
  "dpSize" | "loadBalanceMethod" | "enableDpAttention" | "enableDpLmHead"
>;

/** One of several replicas of a model. */
export interface ReplicaPart {
  /** Which of those of this machine. */
  readonly replica: number;
  /** Of this machine. */
  readonly replicas: number;
  /** Its number among those of all machines. Default: that of this machine. */
  readonly number?: number;
  /** That all of them share. */
  readonly services: Pick<EngineOptions, "grammarService" | "textService">;
  /** Where they are attention groups, which share the ranks of one model. */
  readonly group?: AttentionGroupPart;
}

/** What an attention group shares with the others. */
export interface AttentionGroupPart extends Required<RankLoading> {
  readonly headByGroup: boolean;
  /** Opens the devices of all groups, once. */
  readonly openDevices: (open: () => Promise<ReplaceableDevice>) => Promise<ReplaceableDevice>;
}

/** @param part Default: the only one. */
export type StartEngine = (
  options: StartOptions,
  report: StartReport,
  part?: ReplicaPart,
) => Promise<StartedEngine>;

/** What an engine is loaded from, and with. */
export interface EngineSetting {
  readonly source: FolderSource;
  readonly opened: ReplaceableDevice;
  readonly given: Omit<EngineOptions, "device">;
}

/**
 * @throws {OptionError} when an option does not fit the model.
 * @throws {CheckpointError} when the folder is not a checkpoint.
 * @throws {MissingModelError} when a model from a hub is not here, or not all of it.
 * @throws {DeviceError} when there is no adapter.
 */
export async function engineSetting(
  options: StartOptions,
  report: StartReport,
  place: LocalRanksOf = { ranks: options.tpSize, rank: 0 },
  openDevices: AttentionGroupPart["openDevices"] = (open) => open(),
): Promise<EngineSetting> {
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
  const opened = await openDevices(() => openDeviceFor(source, options, report, place));
  if (place.rank === 0 && !place.replica) report.sizes(opened.sentences);
  const groups = attentionGroupsOf(options) ?? 1;
  const { chunkedPrefillSize: chunk, maxRunningRequests } = options;
  const onPlan = (sizes: StartSizes) => {
    report.sizes(describeSizes(sizes, chunk > 0 ? Math.floor(chunk / groups) : chunk));
    report.sizes(describeRequests(sizes.requests, maxRunningRequests, groups));
    report.sizes(describeSpeculation(sizes));
  };
  const model = await modelOptions(options, { source, opened, choices, draftModel, report });
  return { source, opened, given: { ...model, ...servingOptions(options, found), onPlan } };
}

/**
 * @throws As `engineSetting`.
 * @throws {DeviceError} when there is not enough memory.
 */
export const startEngine: StartEngine = async (options, report, part) => {
  const { services, group, ...replica } = part ?? {};
  // Groups have the same devices.
  const place = { ranks: options.tpSize, rank: 0, ...(group === undefined && replica) };
  const { source, opened, given } = await engineSetting(options, report, place, group?.openDevices);
  try {
    const engine: Engine = await Engine.load(source, {
      ...(part === undefined || group === undefined ? given : groupOptions(given, part, group)),
      ...services,
      device: opened.openNext,
      rankDevices: opened.places,
      onRecovery: (event) => report.recovery(event),
      onRebalance: (event) => report.rebalanced(event),
      ...balanceOf(options, report),
      onStep: report.step && ((step) => report.step?.(step, engine.status())),
    });
    reportLoaded(engine, options, report);
    const where = new Set(opened.places).size > 1 ? "on their adapters" : undefined;
    // Ranks of all groups are those of the first.
    if (group === undefined || part!.replica === 0) {
      report.sizes(describeRanks(options.tpSize, engine.unshared, where));
    }
    return Object.assign(engine, { freeDevice: opened.destroy });
  } catch (error) {
    throw asOptionError(error);
  }
};

/** Has an engine tell how even the steps of its ranks are, where options ask for it. */
export function balanceOf(
  { expertMetrics }: Pick<EngineLaunchOptions, "expertMetrics">,
  report: StartReport,
): Pick<EngineOptions, "onExpertBalance"> {
  return { onExpertBalance: expertMetrics ? (balance) => report.balance(balance) : undefined };
}

function groupOptions(
  given: EngineSetting["given"],
  { replica, replicas: attentionGroups }: ReplicaPart,
  { loadRanks, headByGroup }: AttentionGroupPart,
) {
  return { ...optionsOfGroup({ ...given, attentionGroups }, replica), loadRanks, headByGroup };
}

/** What a start says once the model is loaded. */
export function reportLoaded(
  engine: Engine,
  { quantizationReport }: EngineLaunchOptions,
  report: StartReport,
): void {
  report.family(engine.model.family);
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
