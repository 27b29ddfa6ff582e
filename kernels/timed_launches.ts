/**
 * How long a launch takes, for tuning: the least of several rounds, because other load only ever adds.
 *
 * @module
 */
import type { Recorder } from "../src/gpu/recorder.ts";

const ROUNDS = 3;
const MOST_LAUNCHES = 2000;

/**
 * Seconds of one launch among many.
 *
 * @param launch Records launch number i.
 * @param milliseconds What is measured for, at least.
 */
export async function leastSeconds(
  recorder: Recorder,
  launch: (i: number) => void,
  milliseconds: number,
): Promise<number> {
  const run = async (count: number) => {
    const started = performance.now();
    for (let i = 0; i < count; i++) launch(i);
    recorder.submit();
    await recorder.device.queue.onSubmittedWorkDone();
    return (performance.now() - started) / 1000;
  };
  await run(1); // a driver may compile at the first use
  const wanted = milliseconds / 1000 / ROUNDS;
  let count = 1;
  let least = await run(count);
  while (least < wanted && count < MOST_LAUNCHES) {
    count = Math.min(Math.ceil(count * Math.min((1.2 * wanted) / least, 16)), MOST_LAUNCHES);
    least = await run(count);
  }
  for (let round = 1; round < ROUNDS; round++) least = Math.min(least, await run(count));
  return least / count;
}
