/**
 * A tensor's way to the other ranks and theirs to this one: GPU, host, communicator, host, GPU.
 *
 * @module
 */
import { lossOf } from "../../gpu/device.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import { Readback } from "../../gpu/readback.ts";
import type { ExchangeKind } from "../../gpu/recorded_launch.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { Step } from "../batch.ts";

/** What ranks bring in one exchange: the same number of bytes each. */
export interface GatheredTensor {
  /** What it is, for the messages of ranks that do not agree. */
  readonly name: string;
  /** Default: rows or logits. */
  readonly kind?: ExchangeKind;
  readonly from: Tensor;
  /** Bytes of `from` in a step. */
  bytes(step: Step): number;
  /** Takes the bytes of all ranks, in order, to where the next launches read them. */
  deliver(all: Uint8Array<ArrayBuffer>, step: Step): void;
}

interface Meeting {
  readonly device: GPUDevice;
  readonly communicator: Communicator;
}

/**
 * Waits for what this rank brings to an exchange. Where it is lost with the device, the other ranks
 * are told that it does not come.
 *
 * @throws {SpoiledError} on every rank then.
 */
export async function readPart(
  { device, communicator }: Meeting,
  reads: readonly Promise<void>[],
): Promise<void> {
  try {
    await Promise.all(reads);
  } catch (error) {
    const loss = communicator.spoil && (await lossOf(device));
    if (loss === undefined) throw error;
    await communicator.spoil!(`as its device is lost (${loss.message || loss.reason})`);
  }
}

/** Host memory of exchanges, given back with the rest of a model's memory. */
export function exchangeMemory(
  { allocate, release }: Communicator,
  memory: DeviceMemory,
  bytes: number,
): Uint8Array<ArrayBuffer> {
  if (allocate === undefined || release === undefined) return new Uint8Array(bytes);
  const held = allocate(bytes);
  memory.own({ destroy: () => release(held) });
  return held;
}

/** Host memory and a mappable buffer for exchanges of up to so many bytes, made once. */
export class RankExchange {
  readonly #meeting: Meeting;
  readonly #readback: Readback;
  readonly #all: Uint8Array<ArrayBuffer>;

  /** @param bytes Of one rank, at most. */
  constructor(
    { device, memory }: { readonly device: GPUDevice; readonly memory: DeviceMemory },
    communicator: Communicator,
    bytes: number,
  ) {
    this.#meeting = { device, communicator };
    this.#readback = memory.own(new Readback(device, bytes, 1));
    this.#all = exchangeMemory(communicator, memory, bytes * communicator.size);
  }

  /** Adds an exchange. A step without rows takes part with nothing: other ranks may wait for it. */
  gather(plan: Plan<Step>, gathered: GatheredTensor): void {
    const { name, kind = "gather", from, bytes, deliver } = gathered;
    const { communicator } = this.#meeting;
    const { rank, size } = communicator;
    let read: ((into: Uint8Array) => Promise<void>) | undefined;
    plan.addVarying((step) => {
      const count = bytes(step);
      read = count === 0 ? undefined : this.#readback.recordInto(plan.recorder, from, count);
    });
    const run = async (step: Step) => {
      const count = bytes(step);
      const all = this.#all.subarray(0, size * count);
      const part = all.subarray(rank * count, (rank + 1) * count);
      if (read !== undefined) await readPart(this.#meeting, [read(part)]);
      const counts = Array<number>(size).fill(count);
      await communicator.allGather(part, all, { name, counts });
      if (count > 0) deliver(all, step);
    };
    plan.exchange(name, run, { brings: { kind, bytes } });
  }
}
