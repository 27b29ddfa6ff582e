/**
 * The adapters of this machine by their numbers, for ranks that take one each.
 *
 * Dawn has no call that lists adapters. Asked for one that is not there, it names those that are, in
 * the order in which the system has them.
 *
 * @module
 */
import { CPU_DRIVERS } from "../../gpu/device.ts";
import { OptionError } from "../options/option_parser.ts";

/** A flag of Dawn that no adapter fits. */
export const LISTING_FLAG = "adapter=which adapters are there";

const LISTED = /^ \* backend: '([^']*)', name: '(.*)'$/gm;

export interface ListedAdapter {
  /** As its driver calls it. */
  readonly name: string;
  readonly isCpu: boolean;
}

/**
 * What Dawn names when it finds no adapter. Where there are GPUs, adapters that run on the CPU are
 * left out: a number names a GPU then.
 *
 * @param backend In small letters, as "vulkan".
 */
export function listedAdapters(complaint: string, backend: string): readonly ListedAdapter[] {
  const all = Array.from(complaint.matchAll(LISTED), ([, of, name]) => ({ of, name: name! }))
    .filter(({ of }) => of === backend)
    .map(({ name }) => ({ name, isCpu: CPU_DRIVERS.some((driver) => name.includes(driver)) }));
  const gpus = all.filter(({ isCpu }) => !isCpu);
  return gpus.length > 0 ? gpus : all;
}

/** How an adapter is asked for. */
export interface AdapterChoice {
  /** Of Dawn: it takes the first adapter whose name contains this. */
  readonly flag: string;
  /**
   * Set where an adapter of a lower number has the name too: with this value of the variable
   * `DRI_PRIME` the layer that comes with Mesa's Vulkan drivers shows that one adapter alone.
   */
  readonly prime: string | undefined;
}

export function adapterChoice(adapters: readonly ListedAdapter[], number: number): AdapterChoice {
  const { name } = adapters[number]!;
  const first = adapters.findIndex((one) => one.name.includes(name));
  return { flag: `adapter=${name}`, prime: first === number ? undefined : `${number}!` };
}

export interface RankAdaptersOptions {
  /** Of this machine. */
  readonly ranks: number;
  readonly baseGpuId: number | undefined;
  readonly gpuIdStep: number | undefined;
}

/**
 * The number of the adapter that each rank of this machine takes. Without options ranks take turns in
 * the GPUs, and share an adapter that runs on the CPU.
 *
 * @throws {OptionError} where there is no such adapter.
 */
export function adaptersOfRanks(
  { ranks, baseGpuId, gpuIdStep }: RankAdaptersOptions,
  adapters: readonly ListedAdapter[],
): readonly number[] {
  const isAsked = baseGpuId !== undefined || gpuIdStep !== undefined;
  const step = gpuIdStep ?? (adapters.every(({ isCpu }) => isCpu) && !isAsked ? 0 : 1);
  const numbers = Array.from({ length: ranks }, (_, rank) => (baseGpuId ?? 0) + rank * step);
  if (!isAsked) return numbers.map((number) => number % adapters.length);
  const rank = numbers.findIndex((number) => number >= adapters.length);
  if (rank === -1) return numbers;
  const [flag, value] =
    rank === 0 || gpuIdStep === undefined
      ? ["--base-gpu-id", baseGpuId ?? 0]
      : ["--gpu-id-step", gpuIdStep];
  const there = adapters.map(({ name }, i) => `${i} (${name})`).join(", ");
  throw new OptionError(
    `Cannot use option ${flag} ${value}: rank ${rank} of this machine would take adapter ` +
      `${numbers[rank]}, and there is ${there}`,
  );
}
