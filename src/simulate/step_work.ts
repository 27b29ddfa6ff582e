/**
 * What one rank has to do in a step: each launch with its bytes and operations, each exchange with what
 * the rank brings to it.
 *
 * The plan is the engine's own: a model is laid out and its step recorded as for a device, with one
 * that does nothing in its place.
 *
 * @module
 */
import type { StepArrays } from "../gpu/launch_cost.ts";
import type { Brought, ExchangeKind, LaunchWatch, RecordedLaunch } from "../gpu/recorded_launch.ts";

/** Launches of one kernel that have the same to do. */
export interface LaunchWork {
  readonly kernel: string;
  readonly bytes: number;
  readonly flops: number;
  readonly count: number;
}

/** Exchanges of one kind to which the rank brings as many bytes. */
interface ExchangeWork {
  readonly kind: ExchangeKind;
  readonly bytes: number;
  readonly count: number;
}

export interface StepWork {
  /** Rows, those that fill a batch up included. */
  readonly rows: number;
  readonly launches: readonly LaunchWork[];
  readonly exchanges: readonly ExchangeWork[];
  readonly submits: number;
  /** Bytes that the host reads back, for exchanges and of tokens. */
  readonly readBytes: number;
}

/** Notes what a recorder is told in one step, and makes no exchange. */
export class StepNotes implements LaunchWatch {
  part = "";
  step: StepArrays = { rows: new Uint32Array(), decodeRows: 0, items: new Uint32Array() };
  readonly #launches = new Map<string, { -readonly [K in keyof LaunchWork]: LaunchWork[K] }>();
  readonly #exchanges = new Map<string, { -readonly [K in keyof ExchangeWork]: ExchangeWork[K] }>();
  #submits = 0;
  #readBytes = 0;

  beginPass(encoder: GPUCommandEncoder, { kernel, grid }: RecordedLaunch): GPUComputePassEncoder {
    const { bytes = 0, flops = 0 } = kernel.cost(grid, this.step) ?? {};
    const { name } = kernel;
    const key = `${name} ${bytes} ${flops}`;
    const known = this.#launches.get(key);
    if (known === undefined) this.#launches.set(key, { kernel: name, bytes, flops, count: 1 });
    else known.count += 1;
    return encoder.beginComputePass();
  }

  submit(encoder: GPUCommandEncoder): void {
    encoder.finish();
    this.#submits += 1;
  }

  async exchange(_name: string, _work: () => Promise<void>, brought?: Brought): Promise<void> {
    if (brought === undefined) return;
    const { kind, bytes } = brought;
    const key = `${kind} ${bytes}`;
    const known = this.#exchanges.get(key);
    if (known === undefined) this.#exchanges.set(key, { kind, bytes, count: 1 });
    else known.count += 1;
  }

  /** Bytes are copied to where the host reads them. */
  copied(bytes: number): void {
    this.#readBytes += bytes;
  }

  /** @param rows Of the step. */
  work(rows: number): StepWork {
    return {
      rows,
      launches: [...this.#launches.values()],
      exchanges: [...this.#exchanges.values()],
      submits: this.#submits,
      readBytes: this.#readBytes,
    };
  }
}
