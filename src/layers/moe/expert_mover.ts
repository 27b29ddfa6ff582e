/**
 * Experts on their way from slot to slot: on the GPU's memory of one rank, or over the host to others.
 *
 * No slot is overwritten before what it holds was read for the last time (`orderMoves`). The caller sees
 * to it that no step is given to the GPU meanwhile.
 *
 * Where a group outlives a device that is lost, the rank that had it comes to the next exchange of the
 * moves without a part, as to those of a step; one without bytes ends them, so that there is a next.
 *
 * @module
 */
import { DeviceError } from "../../errors.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import { finished } from "../../gpu/submit_poll.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { ExpertLayout } from "../../parallel/experts/expert_layout.ts";
import { type ExpertMove, orderMoves } from "../../parallel/experts/order_moves.ts";

const STAGING_USAGE = 0x1 | 0x8; // MAP_READ | COPY_DST
const MAP_MODE_READ = 0x1;

/** Some bytes of a slot: its codes, scales or biases. */
export interface SlotBytes {
  readonly tensor: Tensor;
  /** From the tensor's first byte on. */
  readonly offset: number;
  readonly size: number;
}

export interface ExpertMoverOptions {
  readonly device: GPUDevice;
  readonly memory: DeviceMemory;
  readonly communicator: Communicator;
  readonly layout: ExpertLayout;
  /** Of a layer, for messages of ranks that do not agree. */
  readonly name: string;
  /** What a slot of this rank consists of: as many bytes as every other, in the same order. */
  slot(slot: number): readonly SlotBytes[];
}

export class ExpertMover {
  readonly #options: ExpertMoverOptions;
  readonly #staging: GPUBuffer;
  /** Of an expert. */
  readonly #bytes: number;
  #spare: Uint8Array<ArrayBuffer> | undefined;
  /** This rank's device is lost. */
  #loss: DeviceError | undefined;

  constructor(options: ExpertMoverOptions) {
    const { device, layout, communicator } = options;
    this.#options = options;
    const parts = options.slot(layout.runOf(communicator.rank).first);
    this.#bytes = parts.reduce((sum, { size }) => sum + size, 0);
    const size = this.#bytes;
    this.#staging = device.createBuffer({ label: "moving expert", size, usage: STAGING_USAGE });
  }

  /**
   * Every rank makes the same moves.
   *
   * @throws {GroupError} when a rank has left.
   * @throws {SpoiledError} on every rank, when the device of one is lost and the group goes on.
   * @throws {DeviceError} when the device is lost, and with it the group.
   */
  async move(before: readonly number[], after: readonly number[]): Promise<void> {
    const moves = orderMoves(before, after, this.#options.layout.each);
    for (const move of moves) await this.#carry(move);
    if (moves.length > 0) await this.#finish();
  }

  destroy(): void {
    this.#staging.destroy();
  }

  async #carry({ from, to }: ExpertMove): Promise<void> {
    const isNear = from !== "spare" && to !== "spare" && this.#runOf(from) === this.#runOf(to);
    // All ranks that wait for it have it.
    if (isNear && !this.#holds(to)) return;
    const bytes = from === "spare" ? this.#spare! : await this.#bring(from, isNear);
    if (to === "spare") this.#spare = bytes;
    else if (this.#holds(to)) this.#write(to, bytes);
  }

  /** What a slot holds, on every rank or, where all that want it have it, on those. */
  async #bring(slot: number, isNear: boolean): Promise<Uint8Array<ArrayBuffer>> {
    const { communicator, layout, name } = this.#options;
    if (isNear || !layout.isShared) return this.#read(slot);
    const { rank, size } = communicator;
    const owner = layout.ownerOf(slot);
    const part = rank === owner ? await this.#read(slot) : new Uint8Array(0);
    await this.#tellLoss();
    const all = new Uint8Array(this.#bytes);
    const counts = Array.from({ length: size }, (_, one) => (one === owner ? this.#bytes : 0));
    await communicator.allGather(part, all, { name: `${name}: slot ${slot}`, counts });
    return all;
  }

  async #read(slot: number): Promise<Uint8Array<ArrayBuffer>> {
    const { device } = this.#options;
    const encoder = device.createCommandEncoder();
    let at = 0;
    for (const { tensor, offset, size } of this.#options.slot(slot)) {
      encoder.copyBufferToBuffer(tensor.buffer, tensor.offset + offset, this.#staging, at, size);
      at += size;
    }
    device.queue.submit([encoder.finish()]);
    try {
      await finished(device, this.#staging.mapAsync(MAP_MODE_READ));
    } catch (cause) {
      this.#loss ??= new DeviceError("Cannot move an expert: the device is lost", { cause });
      if (this.#options.communicator.spoil === undefined) throw this.#loss;
      // The others are told at the next exchange: what this rank has is of no use to them.
      return new Uint8Array(this.#bytes);
    }
    const bytes = new Uint8Array(this.#staging.getMappedRange().slice(0));
    this.#staging.unmap();
    return bytes;
  }

  /** A rank that may have lost its device since the last exchange says so. */
  async #finish(): Promise<void> {
    const { communicator, name } = this.#options;
    if (communicator.spoil === undefined) return;
    await this.#tellLoss();
    const counts = Array<number>(communicator.size).fill(0);
    const nothing = new Uint8Array(0);
    await communicator.allGather(nothing, nothing, { name: `${name}: moved`, counts });
  }

  async #tellLoss(): Promise<void> {
    if (this.#loss === undefined) return;
    await this.#options.communicator.spoil!(`as its device is lost (${this.#loss.message})`);
  }

  #write(slot: number, bytes: Uint8Array<ArrayBuffer>): void {
    let at = 0;
    for (const { tensor, offset, size } of this.#options.slot(slot)) {
      this.#options.memory.write(tensor, offset, bytes.subarray(at, at + size));
      at += size;
    }
  }

  #runOf(slot: number): number {
    return Math.floor(slot / this.#options.layout.each);
  }

  #holds(slot: number): boolean {
    const { first, count } = this.#options.layout.runOf(this.#options.communicator.rank);
    return slot >= first && slot < first + count;
  }
}
