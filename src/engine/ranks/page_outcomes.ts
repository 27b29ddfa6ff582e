/**
 * What has become of pages that every rank was to move: all of them hear of all.
 *
 * @module
 */
import { DeviceError, KernelError, TransferError } from "../../errors.ts";
import { lossOf } from "../../gpu/device.ts";
import type { Communicator } from "../../parallel/communicator.ts";

/** What a rank says of its own, as a byte. */
const OUTCOME = { moved: 0, failed: 1, damaged: 2, lost: 3 } as const;

export interface SharedOutcome<T> {
  readonly own: PromiseSettledResult<T>;
  /** One byte of each rank. */
  readonly all: Uint8Array;
}

/**
 * Moves this rank's pages and meets the others, whatever has become of them.
 *
 * @param device This rank's.
 * @throws {GroupError} when a rank has left.
 */
export async function shareOutcome<T>(
  { rank, size, allGather }: Communicator,
  device: GPUDevice,
  work: () => Promise<T>,
): Promise<SharedOutcome<T>> {
  const [own] = (await Promise.allSettled([work()])) as [PromiseSettledResult<T>];
  const kind = own.status === "fulfilled" ? OUTCOME.moved : await kindOf(own.reason, device);
  const all = new Uint8Array(size);
  const exchange = { name: "what has become of pages", counts: Array<number>(size).fill(1) };
  await allGather(Uint8Array.of(kind), all, exchange);
  all[rank] = kind;
  return { own, all };
}

export const haveMoved = ({ all }: SharedOutcome<unknown>): boolean =>
  all.every((one) => one === OUTCOME.moved);

/**
 * @throws This rank's own error, where it has one.
 * @throws {DeviceError} when another rank has lost its device.
 * @throws {TransferError} when another rank has found its bytes to be wrong.
 * @throws {KernelError} when another rank could not move its pages.
 */
export function requireMoved<T>({ own, all }: SharedOutcome<T>): T {
  if (own.status === "rejected") throw own.reason;
  const rank = all.findIndex((one) => one !== OUTCOME.moved);
  if (rank < 0) return own.value;
  if (all[rank] === OUTCOME.lost) {
    throw new DeviceError(`Cannot move cache pages: rank ${rank} has lost its device`);
  }
  if (all[rank] === OUTCOME.damaged) {
    throw new TransferError("cache pages", "rank", `rank ${rank} refuses its part`);
  }
  throw new KernelError("cache pages", `rank ${rank} could not move its part`);
}

async function kindOf(error: unknown, device: GPUDevice): Promise<number> {
  if (error instanceof TransferError) return OUTCOME.damaged;
  return (await lossOf(device)) === undefined ? OUTCOME.failed : OUTCOME.lost;
}
