/**
 * What the adapter gives at most: the rate of a kernel that only copies and of one that only
 * computes, by its own clock.
 *
 * @module
 */
import { allocating } from "../src/gpu/device.ts";
import { LaunchTimer, type TimedSubmit } from "../src/gpu/launch_timer.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { allocateTensor, type Tensor } from "../src/gpu/tensor.ts";
import type { AdapterRates } from "../src/profile.ts";
import { copy } from "./probe/copy.ts";
import { MULTIPLY_ADD_WORKGROUP, multiplyAdd } from "./probe/multiply_add.ts";

/** More than the caches of any GPU hold. */
const COPIED_BYTES = 64 * 2 ** 20;
const WORKGROUPS = 4096;
const STEPS = 256;
/** Clocks may be rounded to a tenth of a millisecond, so the launches of a round are together longer. */
const ROUND_NANOSECONDS = 5e6;
const MOST_LAUNCHES = 256;
const ROUNDS = 3;

/**
 * Runs for some tenths of a second, with 128 MiB that are free again afterwards.
 *
 * @throws {UnsupportedError} when the device cannot take times.
 * @throws {DeviceError} when the device has no memory for it.
 */
export async function measureRates(device: GPUDevice): Promise<AdapterRates> {
  const rounds: TimedSubmit[] = [];
  const timer = new LaunchTimer(device, (round) => rounds.push(round));
  const recorder = new Recorder(device, { maxLaunches: 8 });
  recorder.timer = timer;
  const tensors: Tensor[] = [];
  const allocate = (bytes: number) => {
    const tensor = allocateTensor(device, bytes, "adapter rates");
    tensors.push(tensor);
    return tensor;
  };
  /** The best rate of some rounds of launches, in what they cost a second. */
  const rate = async (what: "bytes" | "flops", record: () => void): Promise<number> => {
    let best = 0;
    let launches = 1;
    for (let round = 0; round < ROUNDS; ) {
      for (let i = 0; i < launches; i++) record();
      recorder.submit();
      await timer.settled();
      const timed = rounds.pop()!.launches;
      const nanoseconds = Number(timed.at(-1)!.end - timed[0]!.begin);
      const isShort = nanoseconds < ROUND_NANOSECONDS && launches < MOST_LAUNCHES;
      if (isShort) {
        launches *= 4;
        continue;
      }
      const done = timed.reduce((sum, { cost }) => sum + cost![what], 0);
      best = Math.max(best, done / (Math.max(nanoseconds, 1) / 1e9));
      round += 1;
    }
    return best;
  };
  try {
    const [copies, multiplies] = await allocating(device, "what rates are measured with", () => {
      const source = allocate(COPIED_BYTES);
      const to = allocate(COPIED_BYTES);
      const out = allocate(WORKGROUPS * MULTIPLY_ADD_WORKGROUP * 16);
      const chains = { out, steps: STEPS, factor: 1, increment: 0.5 };
      return [copy(recorder, { source, to }), multiplyAdd(recorder, chains)] as const;
    });
    await recorder.pipelines.ready();
    return {
      copy: await rate("bytes", () => copies(COPIED_BYTES / 16)),
      fma: await rate("flops", () => multiplies(WORKGROUPS)),
    };
  } finally {
    for (const { buffer } of tensors) buffer.destroy();
    recorder.destroy();
    timer.destroy();
  }
}
