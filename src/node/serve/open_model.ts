/**
 * The model that a command is told to use, and a device for it.
 *
 * @module
 */
import {
  bestAdapter,
  deviceFactory,
  listAdapters,
  type OpenedDevice,
  openDevice,
} from "../device/device.ts";
import { driverThreadsFor } from "../device/driver_threads.ts";
import { adaptersOfRanks, type ListedAdapter } from "../device/listed_adapters.ts";
import { type FolderSource, openFolder } from "../files.ts";
import { type ResolveOptions, resolveModel } from "../hub/resolve_model.ts";
import { OptionError } from "../options/option_parser.ts";
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
  readonly openNext: (which?: number) => Promise<GPUDevice>;
  /** What `openNext` is called with for each rank of this machine. */
  readonly places: readonly number[];
  /** Says which rank of this machine has which adapter, where they have numbers. */
  readonly sentences: readonly string[];
  /** Replicas that have ranks on the same adapters, this one among them. */
  readonly sharers: number;
  /** Gives the newest of each rank's back. */
  readonly destroy: () => void;
}

/** Ranks of this machine for which devices are opened. */
export interface LocalRanksOf {
  readonly ranks: number;
  /** The one whose device is opened first. */
  readonly rank: number;
  /** Replicas that have so many ranks each, and the one that these are of. Default: one. */
  readonly replicas?: number;
  readonly replica?: number;
}

type DeviceChoice = Pick<EngineLaunchOptions, "adapter" | "numericClass"> &
  Partial<Pick<EngineLaunchOptions, "baseGpuId" | "gpuIdStep">>;

/**
 * @throws {DeviceError} when there is no adapter.
 * @throws {OptionError} when a rank has none, or one of another kind than others.
 */
export async function openDeviceFor(
  source: FolderSource,
  options: DeviceChoice,
  report: StartReport,
  { ranks, rank, replicas = 1, replica = 0 }: LocalRanksOf = { ranks: 1, rank: 0 },
): Promise<ReplaceableDevice> {
  const { adapter: wanted, numericClass, baseGpuId, gpuIdStep } = options;
  const driverThreads = await driverThreadsFor(source);
  const subgroupMatrices = numericClass === "mma128" || numericClass === "auto";
  const wishes = { driverThreads, subgroupMatrices, ...(wanted && { adapter: wanted }) };
  const isAsked = baseGpuId !== undefined || gpuIdStep !== undefined;
  const all = ranks * replicas;
  const isChosen = isAsked || (all > 1 && !(await bestAdapter(wishes)).isCpu);
  const adapters = isChosen ? await listAdapters(wishes) : [];
  const everyNumber: readonly (number | undefined)[] = isChosen
    ? adaptersOfRanks({ ranks: all, baseGpuId, gpuIdStep }, adapters)
    : Array.from({ length: all }, () => undefined);
  const sentences = describePlaces(everyNumber, adapters);
  const numbersOf = (one: number) => everyNumber.slice(one * ranks, (one + 1) * ranks);
  const numbers = numbersOf(replica);
  const shares = (one: number) => numbersOf(one).some((number) => numbers.includes(number));
  const sharers = Array.from({ length: replicas }, (_, one) => one).filter(shares).length;
  const first = { ...wishes, number: numbers[rank] };
  const opened = await openDevice(first);
  report.adapter(opened.adapter);
  const newest = new Map([[rank, opened.device]]);
  const factories = new Map([[rank, deviceFactory(first, opened.device)]]);
  return {
    ...opened,
    openNext: async (which = rank) => {
      const open = factories.get(which) ?? deviceFactory({ ...wishes, number: numbers[which] });
      factories.set(which, open);
      const device = await open();
      newest.set(which, device);
      return device;
    },
    destroy: () => {
      for (const device of newest.values()) device.destroy();
    },
    // The first rank that has the adapter stands for all of them.
    places: numbers.map((number) => numbers.indexOf(number)),
    sentences,
    sharers,
  };
}

/** @throws {OptionError} where the bits of ranks would be those of different adapters. */
function describePlaces(
  numbers: readonly (number | undefined)[],
  adapters: readonly ListedAdapter[],
): readonly string[] {
  if (numbers.length === 1 || numbers[0] === undefined) return [];
  const named = numbers.map((number, i) => `rank ${i} has ${number} (${adapters[number!]!.name})`);
  const kinds = new Set(numbers.map((number) => adapters[number!]!.name));
  if (kinds.size === 1) {
    const each = numbers.map((number) => `${number} (${adapters[number!]!.name})`);
    return [`Adapters of this machine's ranks: ${each.join(", ")}`];
  }
  throw new OptionError(
    `Cannot share a model between adapters of different kinds: ${named.join(", ")}; ` +
      "--base-gpu-id and --gpu-id-step choose them",
  );
}
