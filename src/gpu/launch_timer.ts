/**
 * Times launches on the GPU: a pass for each, with a timestamp at its beginning and its end.
 *
 * Nothing is allocated and no caller waits while launches are recorded: the queries of a submit
 * come from a pool that grows with the submits in flight, and are read once the GPU has got there.
 *
 * Dawn and browsers may round timestamps, browsers to 100 microseconds: sums over many launches
 * stay true, single ones do not.
 *
 * @module
 */
import { DeviceError, UnsupportedError } from "../errors.ts";
import type { LaunchCost, LaunchSize, StepArrays } from "./launch_cost.ts";
import type { LaunchWatch, RecordedLaunch } from "./recorded_launch.ts";
import { finished } from "./submit_poll.ts";

/** The feature of the device that timing takes. */
const FEATURE = "timestamp-query";

const QUERY_RESOLVE = 0x200;
const COPY_SRC = 0x4;
const COPY_DST = 0x8;
const MAP_READ = 0x1;
const MAP_MODE_READ = 0x1;
/** Launches of one query set: WebGPU allows 4096 queries. */
const SET_LAUNCHES = 1024;
const STAMP_BYTES = 8;

/** One launch that has run. */
export interface TimedLaunch {
  readonly kernel: string;
  /** Part of the model, as its plan names it. */
  readonly part: string;
  readonly grid: LaunchSize<string>["grid"];
  readonly cost: LaunchCost | undefined;
  /** On the GPU's clock, in nanoseconds. */
  readonly begin: bigint;
  readonly end: bigint;
}

/** Launches of one submit, in order. */
export interface TimedSubmit {
  /** When the host gave them to the queue, and was done with it; milliseconds of `performance.now`. */
  readonly submitted: number;
  readonly returned: number;
  readonly launches: readonly TimedLaunch[];
}

/** Milliseconds of `performance.now`. */
type TellExchange = (name: string, begun: number, ended: number) => void;

type Recorded = Omit<TimedLaunch, "begin" | "end">;

/** A query set and the buffers its results go through. */
interface Stamps {
  readonly set: GPUQuerySet;
  readonly resolved: GPUBuffer;
  readonly mapped: GPUBuffer;
  recorded: Recorded[];
}

export class LaunchTimer implements LaunchWatch {
  /** Part of the model that the next launches belong to. */
  part = "";
  /** What the step that is being recorded tells its kernels. */
  step: StepArrays = { rows: new Uint32Array(), decodeRows: 0, items: new Uint32Array() };
  readonly #device: GPUDevice;
  readonly #onSubmit: (submit: TimedSubmit) => void;
  readonly #onExchange: TellExchange;
  readonly #all: Stamps[] = [];
  readonly #free: Stamps[] = [];
  /** Those of the submit that is being recorded; the last one is being filled. */
  #open: Stamps[] = [];
  /** Resolves when everything submitted so far has been told. */
  #told: Promise<void> = Promise.resolve();

  /**
   * @param onSubmit Is told of every submit with launches, in order, once the GPU has run it.
   * @param onExchange Is told of every exchange with other ranks, once it has ended.
   * @throws {UnsupportedError} when the device cannot take times.
   */
  constructor(
    device: GPUDevice,
    onSubmit: (submit: TimedSubmit) => void,
    onExchange: TellExchange = () => {},
  ) {
    requireTimestamps(device);
    this.#device = device;
    this.#onSubmit = onSubmit;
    this.#onExchange = onExchange;
  }

  /** Begins the pass of one launch. */
  beginPass(encoder: GPUCommandEncoder, launch: RecordedLaunch): GPUComputePassEncoder {
    let stamps = this.#open.at(-1);
    if (stamps === undefined || stamps.recorded.length === SET_LAUNCHES) {
      stamps = this.#free.pop() ?? this.#allocate();
      this.#open.push(stamps);
    }
    const first = 2 * stamps.recorded.length;
    const { kernel, grid } = launch;
    const cost = kernel.cost(grid, this.step);
    stamps.recorded.push({ kernel: kernel.name, part: this.part, grid, cost });
    return encoder.beginComputePass({
      label: kernel.name,
      timestampWrites: {
        querySet: stamps.set,
        beginningOfPassWriteIndex: first,
        endOfPassWriteIndex: first + 1,
      },
    });
  }

  /** Runs `work`, in which ranks bring something together. */
  async exchange<T>(name: string, work: () => Promise<T>): Promise<T> {
    const begun = performance.now();
    const result = await work();
    this.#onExchange(name, begun, performance.now());
    return result;
  }

  /** Submits what the passes are in, their timestamps with it. */
  submit(encoder: GPUCommandEncoder): void {
    const open = this.#open;
    this.#open = [];
    for (const { set, resolved, mapped, recorded } of open) {
      const queries = 2 * recorded.length;
      encoder.resolveQuerySet(set, 0, queries, resolved, 0);
      encoder.copyBufferToBuffer(resolved, 0, mapped, 0, queries * STAMP_BYTES);
    }
    const submitted = performance.now();
    this.#device.queue.submit([encoder.finish()]);
    const returned = performance.now();
    if (open.length === 0) return;
    const read = Promise.all(open.map((stamps) => this.#read(stamps)));
    const before = this.#told;
    this.#told = read.then(async (parts) => {
      await before;
      this.#onSubmit({ submitted, returned, launches: parts.flat() });
    });
    // The caller that waits in `settled` gets the error.
    this.#told.catch(() => {});
  }

  /**
   * Resolves when everything submitted so far has run and has been told.
   *
   * @throws {DeviceError} when the device is lost.
   */
  settled(): Promise<void> {
    return this.#told;
  }

  /** Frees the queries. What has not been told by then never is. */
  destroy(): void {
    for (const { set, resolved, mapped } of this.#all) {
      set.destroy();
      resolved.destroy();
      mapped.destroy();
    }
  }

  async #read(stamps: Stamps): Promise<readonly TimedLaunch[]> {
    const { mapped, recorded } = stamps;
    const size = 2 * recorded.length * STAMP_BYTES;
    try {
      await finished(this.#device, mapped.mapAsync(MAP_MODE_READ, 0, size));
    } catch (cause) {
      throw new DeviceError("Cannot read times of launches: the device is lost", { cause });
    }
    const times = new BigUint64Array(mapped.getMappedRange(0, size).slice(0));
    mapped.unmap();
    stamps.recorded = [];
    this.#free.push(stamps);
    return recorded.map((launch, i) => {
      const begin = times[2 * i]!;
      const end = times[2 * i + 1]!;
      // Rounded clocks may stand still, and WebGPU lets them step back.
      return { ...launch, begin, end: end < begin ? begin : end };
    });
  }

  #allocate(): Stamps {
    const size = 2 * SET_LAUNCHES * STAMP_BYTES;
    const device = this.#device;
    const label = "launch times";
    const stamps: Stamps = {
      set: device.createQuerySet({ label, type: "timestamp", count: 2 * SET_LAUNCHES }),
      resolved: device.createBuffer({ label, size, usage: QUERY_RESOLVE | COPY_SRC }),
      mapped: device.createBuffer({ label, size, usage: MAP_READ | COPY_DST }),
      recorded: [],
    };
    this.#all.push(stamps);
    return stamps;
  }
}

/** @throws {UnsupportedError} naming the feature that the device lacks. */
function requireTimestamps({ features }: GPUDevice): void {
  if (features.has(FEATURE)) return;
  throw new UnsupportedError("a profile", `the device does not have the feature ${FEATURE}`);
}
