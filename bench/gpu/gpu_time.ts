/**
 * Seconds of launches by the GPU's own clock where the adapter has one, else by the host's: many
 * of a kind in one pass, the least of several rounds.
 *
 * @module
 */
import { adapter, device, download } from "../../test/support/devices/gpu.ts";
import { type Encode, fastest } from "../support/timing.ts";

/** Whether times are the GPU's own. */
export const HAS_CLOCK = device.features.has("timestamp-query");

const ROUNDS = 3;
const MOST_LAUNCHES = 4000;
/** Of one round. */
const WANTED_SECONDS = 0.02;
/** An idle GPU has a fraction of its clock, and takes its time to raise it. */
const WARM_SECONDS = adapter.isCpu ? 0 : 0.25;
/** Launches that take longer are not repeated for the sake of the clock. */
const LONG_SECONDS = 0.5;

/** Seconds that each of `turns` takes on average, one after another in a pass. */
export async function secondsOf(turns: readonly Encode[]): Promise<number> {
  const clock = HAS_CLOCK ? new Clock() : undefined;
  const time = async (count: number): Promise<number> => {
    const encode = (pass: GPUComputePassEncoder) => {
      for (let i = 0; i < count; i++) turns[i % turns.length]!(pass);
    };
    return clock === undefined ? hostSeconds(encode) : clock.seconds(encode);
  };
  try {
    let seconds = await time(turns.length); // a driver may compile at the first use
    let count = turns.length;
    if (seconds > LONG_SECONDS) return Math.min(seconds, await time(count)) / count;
    const warm = performance.now() + 1000 * WARM_SECONDS;
    while (performance.now() < warm) await time(count);
    seconds = await time(count);
    while (seconds < WANTED_SECONDS / 2 && count < MOST_LAUNCHES) {
      const more = Math.ceil(Math.min(WANTED_SECONDS / Math.max(seconds, 1e-6), 16));
      count = Math.min(count * Math.max(more, 2), MOST_LAUNCHES);
      seconds = await time(count);
    }
    for (let round = 1; round < ROUNDS; round++) seconds = Math.min(seconds, await time(count));
    return seconds / count;
  } finally {
    clock?.destroy();
  }
}

function submit(encode: Encode, timestampWrites?: GPUComputePassTimestampWrites) {
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass(timestampWrites && { timestampWrites });
  encode(pass);
  pass.end();
  return encoder;
}

/** Seconds of the host from the submit until the work is done. */
export function hostSeconds(encode: Encode): Promise<number> {
  return fastest(1, async () => {
    device.queue.submit([submit(encode).finish()]);
    await device.queue.onSubmittedWorkDone();
  });
}

const QUERY_RESOLVE = 0x200;
const COPY_SRC = 0x4;

/** The timestamps of a pass. */
class Clock {
  readonly #set = device.createQuerySet({ type: "timestamp", count: 2 });
  readonly #resolved = device.createBuffer({ size: 256, usage: QUERY_RESOLVE | COPY_SRC });

  async seconds(encode: Encode): Promise<number> {
    const encoder = submit(encode, {
      querySet: this.#set,
      beginningOfPassWriteIndex: 0,
      endOfPassWriteIndex: 1,
    });
    encoder.resolveQuerySet(this.#set, 0, 2, this.#resolved, 0);
    device.queue.submit([encoder.finish()]);
    const [begin = 0n, end = 0n] = new BigUint64Array(await download(this.#resolved, 0, 16));
    return Number(end - begin) / 1e9;
  }

  destroy(): void {
    this.#set.destroy();
    this.#resolved.destroy();
  }
}
