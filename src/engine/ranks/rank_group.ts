/**
 * A model that ranks of this process share, on one device or several: each loads its part, and the
 * engine has them as one model.
 *
 * @module
 */
import { RankPages } from "../../cache/rank_pages.ts";
import type { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { InvalidRequestError } from "../../errors.ts";
import type { EngineStatus } from "../../generation.ts";
import type { DeviceSource } from "../../gpu/device.ts";
import { MOST_RANKS } from "../../parallel/communicator.ts";
import { localGroup } from "../../parallel/local.ts";
import type { RankStatus } from "../../ranks_status.ts";
import type { EngineOptions } from "../engine_options.ts";
import { type LoadedModel, loadModel } from "../load/load.ts";
import type { LoadOptions } from "../load/load_options.ts";
import type { MemoryBudget } from "../load/memory_budget.ts";
import { DEVICE_MEMORY } from "../resolve_options.ts";
import type { EngineModel } from "./engine_model.ts";
import { allOrCause, RankRunner } from "./rank_runner.ts";

/** How an engine loads its model. */
export interface RankLoading {
  /**
   * On ranks that are elsewhere: as `ledRanks` says, which no page has to download. Default: on ranks of
   * this process.
   */
  readonly loadRanks?: typeof loadRanks;
}

/**
 * Loads a model as the engine's options want it.
 *
 * @throws {InvalidRequestError} when there are to be more ranks than can be, or fewer than one.
 * @throws As `loadModel`.
 */
export async function loadRanks(
  checkpoint: Checkpoint,
  options: EngineOptions & Pick<LoadOptions, "signal">,
): Promise<EngineModel> {
  const { tensorParallelSize: size = 1, attentionGroups = 1 } = options;
  if (attentionGroups !== 1) {
    throw new InvalidRequestError(
      `Cannot use attentionGroups ${attentionGroups} for one engine: loadAttentionGroups loads one for each`,
      "attentionGroups",
    );
  }
  if (size !== 1) {
    const { models, devices, renew } = await loadParts(checkpoint, options);
    return { ...asOne(models), devices, renewGroup: renew };
  }
  const places = placesOf(options, size);
  const model = await loadModel(checkpoint, { ...options, device: placed(options, places[0]!) });
  return { ...model, devices: [model.device] };
}

/** Every rank's part of a model. */
export interface LoadedParts {
  readonly models: readonly LoadedModel[];
  /** Those that are open for them, each once. */
  readonly devices: readonly GPUDevice[];
  /** Has the ranks meet again after one has left. */
  renew(): void;
  /** Has all that wait for others hear why this is for nothing. */
  abort(reason: string): void;
}

/**
 * Loads a model's parts on the ranks of this process.
 *
 * @throws As `loadRanks`.
 */
export async function loadParts(
  checkpoint: Checkpoint,
  options: EngineOptions & Pick<LoadOptions, "signal">,
): Promise<LoadedParts> {
  const { tensorParallelSize: size = 1, attentionGroups = 1 } = options;
  const places = placesOf(options, size);
  const devices = await openAll(options, places);
  const { deviceMemory = DEVICE_MEMORY } = options;
  const own = { ...options, deviceMemory: Math.floor(deviceMemory / mostOnOne(places)) };
  const group = localGroup(size, attentionGroups);
  const loads = group.map((communicator, rank) => {
    const told = rank === 0 ? {} : { onPlan: undefined, onProgress: undefined };
    const device = devices.get(places[rank]!)!;
    // Ranks of one process are replaced together.
    const apart = { communicator: { ...communicator, spoil: undefined } };
    return loadModel(checkpoint, { ...own, ...told, ...apart, device });
  });
  try {
    const models = await allOrCause(loads);
    const [first] = group;
    return {
      models,
      devices: [...devices.values()],
      renew: () => first!.renew(),
      abort: (reason) => first!.abort(reason),
    };
  } catch (error) {
    // The others are of no use.
    for (const load of loads) load.then((model) => model.destroy()).catch(() => {});
    throw error;
  }
}

/** The device of each rank. @throws {InvalidRequestError} where there can be no such ranks. */
function placesOf({ rankDevices, device }: EngineOptions, size: number): readonly number[] {
  if (!Number.isInteger(size) || size < 1 || size > MOST_RANKS) {
    throw new InvalidRequestError(
      `Cannot use tensorParallelSize ${size}: it must be a whole number from 1 to ${MOST_RANKS}`,
      "tensorParallelSize",
    );
  }
  const places = rankDevices ?? Array<number>(size).fill(0);
  requirePlaces(places, { size, device });
  return places;
}

/** @throws {InvalidRequestError} where ranks have no device, or there is none to open. */
function requirePlaces(
  places: readonly number[],
  { size, device }: { readonly size: number; readonly device: DeviceSource },
): void {
  const refuse = (why: string) => {
    throw new InvalidRequestError(`Cannot use rankDevices [${places}]: ${why}`, "rankDevices");
  };
  if (places.length !== size) refuse(`there are ${size} ranks`);
  if (!places.every((place) => Number.isSafeInteger(place) && place >= 0)) {
    refuse("each must be a whole number, 0 or more");
  }
  if (typeof device !== "function" && places.some((place) => place !== 0)) {
    refuse("device has to be a factory, which opens them");
  }
}

function placed({ device }: EngineOptions, place: number): DeviceSource {
  return typeof device === "function" ? () => device(place) : device;
}

/** One after the other; those that are open are let go of when the next cannot be opened. */
async function openAll(
  { device }: EngineOptions,
  places: readonly number[],
): Promise<ReadonlyMap<number, GPUDevice>> {
  const opened = new Map<number, GPUDevice>();
  if (typeof device !== "function") return opened.set(0, device);
  try {
    for (const place of new Set(places)) opened.set(place, await device(place));
  } catch (error) {
    for (const one of opened.values()) one.destroy();
    throw error;
  }
  return opened;
}

/** Ranks that share a device, at most. */
export function mostOnOne(places: readonly number[]): number {
  const counts = places.map((place) => places.filter((other) => other === place).length);
  return counts.reduce((most, count) => Math.max(most, count));
}

/**
 * Ranks that run the same steps as one model.
 *
 * @param before Ranks in front of them, of other attention groups.
 */
export function asOne(
  ranks: readonly LoadedModel[],
  before = 0,
): Omit<EngineModel, "devices" | "runner"> & { readonly runner: RankRunner } {
  const [first] = ranks;
  const size = ranks.length;
  const all = <T>(pick: (model: LoadedModel) => T | undefined): readonly T[] =>
    ranks.flatMap((model) => pick(model) ?? []);
  const copiers = all(({ copier }) => copier);
  const codecs = all(({ codec }) => codec);
  const memoryBudget = budgetOfAll(first!.memoryBudget, size);
  const own = ranks.map(({ memoryBudget: { weightBytes, cacheBytes } }, i) => {
    return { rank: before + i, weightBytes, cacheBytes };
  });
  return {
    ...first!,
    memoryBudget,
    runner: new RankRunner(ranks.map(({ runner }) => runner)),
    codec: codecs.length === 0 ? undefined : new RankPages(codecs),
    copier:
      copiers.length === 0
        ? undefined
        : {
            copy: (copies) => {
              for (const copier of copiers) copier.copy(copies);
            },
          },
    figures: { ...first!.figures, ...sumOfRanks(own) },
    pipelines: ranks.flatMap(({ pipelines }) => pipelines),
    destroy: () => {
      for (const model of ranks) model.destroy();
    },
  };
}

/** What all ranks hold, and each of them. */
export function sumOfRanks(
  ranks: readonly RankStatus[],
): Pick<EngineStatus, "weightBytes" | "cacheBytes" | "ranks"> {
  const sum = (pick: (rank: RankStatus) => number) =>
    ranks.reduce((total, rank) => total + pick(rank), 0);
  return {
    weightBytes: sum(({ weightBytes }) => weightBytes),
    cacheBytes: sum(({ cacheBytes }) => cacheBytes),
    ranks,
  };
}

/** Where the memory of the devices goes that so many ranks like this one have. */
function budgetOfAll(one: MemoryBudget, ranks: number): MemoryBudget {
  return {
    ...one,
    deviceMemory: one.deviceMemory * ranks,
    budget: one.budget * ranks,
    weightBytes: one.weightBytes * ranks,
    workspaceBytes: one.workspaceBytes * ranks,
    cacheBytes: one.cacheBytes * ranks,
    bytesPerToken: one.bytesPerToken * ranks,
  };
}
