/**
 * The way of a checkpoint's bytes through one staging tensor on the GPU, from which kernels take
 * them. Needed while weights load, not afterwards.
 *
 * @module
 */
import { Recorder } from "../../gpu/recorder.ts";
import { finished } from "../../gpu/submit_poll.ts";
import { allocateTensor, type Tensor } from "../../gpu/tensor.ts";

/** Of the staging tensor. */
export const STAGING_BYTES = 4 * 1024 * 1024;
/** Submits that may be on their way: one on the GPU, one behind it. */
const MOST_SUBMITS = 2;

interface Workspace {
  readonly recorder: Recorder;
  readonly staging: Tensor;
}

export class StagedUpload {
  readonly device: GPUDevice;
  readonly #inFlight: Promise<unknown>[] = [];
  #workspace: Workspace | undefined;

  constructor(device: GPUDevice) {
    this.device = device;
  }

  /** What launches over staged bytes are bound with. Nothing is allocated before it is asked for. */
  get workspace(): Workspace {
    this.#workspace ??= {
      recorder: new Recorder(this.device),
      staging: allocateTensor(this.device, STAGING_BYTES, "staged rows"),
    };
    return this.#workspace;
  }

  /**
   * Stages bytes and submits what takes them from there.
   *
   * @param pieces One behind the other at most `STAGING_BYTES`, each a multiple of 4.
   * @param record Records the launches; they were bound before.
   */
  async send(pieces: readonly Uint8Array<ArrayBuffer>[], record: () => void): Promise<void> {
    const { recorder, staging } = this.workspace;
    await recorder.pipelines.ready();
    // Bounds the copies of chunks that the queue holds.
    while (this.#inFlight.length >= MOST_SUBMITS) await this.#inFlight.shift();
    const { queue } = this.device;
    let at = staging.offset;
    for (const piece of pieces) {
      queue.writeBuffer(staging.buffer, at, piece);
      at += piece.byteLength;
    }
    record();
    recorder.submit();
    const done = finished(this.device, queue.onSubmittedWorkDone());
    // When loading fails elsewhere no caller awaits it any more.
    done.catch(() => {});
    this.#inFlight.push(done);
  }

  /** Frees what is on the GPU; what was bound with it must not be launched any more. */
  destroy(): void {
    this.#workspace?.staging.buffer.destroy();
    this.#workspace?.recorder.destroy();
    this.#workspace = undefined;
  }
}
