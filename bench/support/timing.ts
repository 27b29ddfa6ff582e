/**
 * How benches take times: the least of several rounds, because other load only ever adds.
 *
 * @module
 */
import { performance } from "node:perf_hooks";
import { device } from "../../test/support/devices/gpu.ts";

/** What a launch records into a pass. */
export type Encode = (pass: GPUComputePassEncoder) => void;

/** A wait ends at most this long after the work, so a round is far longer. */
const ROUND_MS = 50;
const MOST_LAUNCHES = 4000;

/** Seconds of the fastest of `rounds` runs. */
export async function fastest(rounds: number, work: () => Promise<unknown>): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < rounds; i++) {
    const started = performance.now();
    await work();
    least = Math.min(least, (performance.now() - started) / 1000);
  }
  return least;
}

export interface LaunchTime {
  readonly seconds: number;
  /** Of all threads of the process: on an adapter that is the CPU, what other load changes least. */
  readonly cpuSeconds: number;
}

/** Seconds that one launch takes among many of its kind in one submit. */
export async function timeLaunch(encode: Encode, options?: { rounds?: number }): Promise<number> {
  return (await measureLaunch(encode, options)).seconds;
}

/** The same beside its processor time, each the least of the rounds. */
export async function measureLaunch(encode: Encode, { rounds = 3 } = {}): Promise<LaunchTime> {
  const run = async (count: number) => {
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    for (let i = 0; i < count; i++) encode(pass);
    pass.end();
    device.queue.submit([encoder.finish()]);
    await device.queue.onSubmittedWorkDone();
  };
  await run(1); // a driver may compile at the first use
  let count = 1;
  for (;;) {
    const seconds = await fastest(1, () => run(count));
    if (seconds * 1000 >= ROUND_MS / 2 || count >= MOST_LAUNCHES) break;
    count = Math.min(count * Math.ceil(Math.min(ROUND_MS / 1000 / seconds, 16)), MOST_LAUNCHES);
  }
  let least = Number.POSITIVE_INFINITY;
  const seconds = await fastest(rounds, async () => {
    const before = process.cpuUsage();
    await run(count);
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1e6);
  });
  return { seconds: seconds / count, cpuSeconds: least / count };
}
