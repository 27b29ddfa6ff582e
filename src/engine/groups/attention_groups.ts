/**
 * Engines that share the ranks of one model, each with an attention group: a scheduler, a cache and
 * batches of its own.
 *
 * @module
 */
import type { WeightSource } from "../../checkpoint/source.ts";
import { InvalidRequestError } from "../../errors.ts";
import { Engine } from "../engine.ts";
import type { EngineOptions } from "../engine_options.ts";
import { GroupLoading } from "./group_loading.ts";
import type { LedAttentionGroups } from "./led_groups.ts";

/** Groups keep less room free for what running requests will generate than one rank does. */
const CONSERVATIVENESS = 0.3;

export type GroupedOptions = EngineOptions & { readonly attentionGroups: number };

/**
 * Loads a model on ranks in groups that attend to different requests: the same answers as those of one
 * rank.
 *
 * @param open Opens the checkpoint, once for each group.
 * @param led Where the other ranks are elsewhere. Default: all are in this process.
 * @returns An engine for each group; they are closed together.
 * @throws {InvalidRequestError | UnsupportedError} naming an option that groups do not go with.
 * @throws As `Engine.load`.
 */
export async function loadGroupEngines(
  open: () => WeightSource | Promise<WeightSource>,
  options: GroupedOptions,
  led?: LedAttentionGroups,
): Promise<readonly Engine[]> {
  const ranks = led && { tensorParallelSize: led.options.communicator.size };
  requireUsableGroups({ ...options, ...ranks });
  const { attentionGroups } = options;
  const loading = led?.loading ?? new GroupLoading(attentionGroups);
  const engines: Engine[] = [];
  try {
    for (let group = 0; group < attentionGroups; group++) {
      const { randomSeed: seed } = options;
      const randomSeed = seed === undefined ? undefined : (seed + group) % 2 ** 32;
      const own = { ...optionsOfGroup(options, group), randomSeed };
      const loadRanks = loading.of(group);
      engines.push(await Engine.load(await open(), { ...own, ...led?.options, loadRanks }));
    }
    return engines;
  } catch (error) {
    await Promise.allSettled(engines.map((engine) => engine.close()));
    loading.destroy();
    throw error;
  }
}

/** What an engine of one of the groups is loaded with: what a step has is shared out among them. */
export function optionsOfGroup<T extends Partial<GroupedOptions>>(
  { attentionGroups = 1, ...options }: T,
  group: number,
): Omit<T, "attentionGroups"> {
  const { maxRunningRequests: running, chunkedPrefillSize: chunk } = options;
  const { scheduleConservativeness = 1, experts } = options;
  return {
    ...options,
    ...(running !== undefined && { maxRunningRequests: Math.floor(running / attentionGroups) }),
    ...(chunk !== undefined &&
      chunk !== -1 && { chunkedPrefillSize: Math.floor(chunk / attentionGroups) }),
    scheduleConservativeness: CONSERVATIVENESS * scheduleConservativeness,
    // The experts of all groups are the same: one of them has them moved.
    ...(group > 0 && { experts: experts && { ...experts, rebalance: undefined } }),
  };
}

/** @throws {InvalidRequestError} naming what groups do not go with. */
export function requireUsableGroups(options: Omit<GroupedOptions, "device">): void {
  const { attentionGroups: groups, tensorParallelSize: size = 1 } = options;
  const refuse = (field: string, problem: string): never => {
    throw new InvalidRequestError(`Cannot use ${field}: ${problem}`, field);
  };
  if (!Number.isInteger(groups) || groups < 1 || size % groups !== 0) {
    refuse(
      "attentionGroups",
      `${groups} groups cannot share ${size} ranks (tensorParallelSize) out evenly`,
    );
  }
  const { maxRunningRequests = groups, chunkedPrefillSize = -1, pageSize = 1 } = options;
  if (maxRunningRequests < groups) {
    refuse("maxRunningRequests", `${maxRunningRequests} leave none to one of ${groups} groups`);
  }
  if (chunkedPrefillSize !== -1) {
    const chunk = Math.floor(chunkedPrefillSize / groups);
    if (chunk < 1 || chunk % pageSize !== 0) {
      const each = `${chunk} tokens of each of ${groups} groups`;
      refuse("chunkedPrefillSize", `${each} are not divisible by pages of ${pageSize}`);
    }
  }
}
