/**
 * What steps of a model take on ranks that run them together, without an engine, and what those take to
 * exchange bytes.
 *
 * @module
 */
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import { loadModel } from "../../../src/engine/load/load.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { StepRunner } from "../../../src/engine/step/step_runner.ts";
import { deviceFactory } from "../../../src/node/device/device.ts";
import type { Communicator } from "../../../src/parallel/communicator.ts";
import type { Link } from "../../../src/simulate/link.ts";
import { decodeBatch, prefillBatch, type SizedBatch } from "../../../src/simulate/step_batches.ts";
import { folderSource } from "../checkpoints/folder_source.ts";

export interface StepTask {
  /** Folder of a checkpoint. */
  readonly model: string;
  readonly engine: Omit<LoadOptions, "device">;
  /** Sequences that decode together, and rows of prompts. */
  readonly batches: readonly number[];
  readonly prompts: readonly number[];
  /** Tokens in front of decoded rows. */
  readonly context: number;
}

export interface StepTimes {
  /** Seconds, in the order of the task. */
  readonly decode: readonly number[];
  readonly prefill: readonly number[];
  readonly link: Link;
}

/** Steps of a run, and runs, of which the least counts. */
const STEPS = 8;
const RUNS = 5;
const LINK_BYTES = [64, 2 ** 20] as const;
const EXCHANGES = 50;

export async function stepTimes(
  communicator: Communicator,
  { model, engine, batches, prompts, context }: StepTask,
): Promise<StepTimes> {
  const checkpoint = await Checkpoint.open(folderSource(model));
  const device = await deviceFactory()();
  const loaded = await loadModel(checkpoint, { ...engine, device, communicator });
  const { pageSize } = loaded.options;
  const decode: number[] = [];
  for (const count of batches) {
    decode.push(await leastSeconds(loaded.runner, decodeBatch(count, context, pageSize)));
  }
  const prefill: number[] = [];
  for (const rows of prompts) {
    prefill.push(await leastSeconds(loaded.runner, prefillBatch(rows, 0, pageSize)));
  }
  return { decode, prefill, link: await linkOf([communicator]) };
}

/** Of a step that others follow, each submitted before the one in front of it is awaited. */
export async function leastSeconds(
  runner: Pick<StepRunner, "submit">,
  { batch, sampled }: SizedBatch,
): Promise<number> {
  const submit = () => runner.submit(batch, sampled);
  let least = Number.POSITIVE_INFINITY;
  for (let run = 0; run < RUNS; run++) {
    let before = await submit();
    await before.tokens;
    before = await submit();
    const started = performance.now();
    for (let step = 0; step < STEPS; step++) {
      const next = await submit();
      await before.tokens;
      before = next;
    }
    least = Math.min(least, (performance.now() - started) / 1e3 / STEPS);
    await before.tokens;
  }
  return least;
}

/** What exchanges take without any device, of the ranks of a group that are in this process. */
export async function linkOf(ends: readonly Communicator[]): Promise<Link> {
  const { size } = ends[0]!;
  const seconds = async (bytes: number) => {
    const all = ends.map(
      ({ allocate }) => allocate?.(size * bytes) ?? new Uint8Array(size * bytes),
    );
    const exchange = { name: "link", counts: Array<number>(size).fill(bytes) };
    const gather = (end: Communicator, i: number) => {
      const part = all[i]!.subarray(end.rank * bytes, (end.rank + 1) * bytes);
      return end.allGather(part, all[i]!, exchange);
    };
    let least = Number.POSITIVE_INFINITY;
    for (let run = 0; run < EXCHANGES; run++) {
      const started = performance.now();
      await Promise.all(ends.map(gather));
      least = Math.min(least, (performance.now() - started) / 1e3);
    }
    return least;
  };
  const [few, many] = [await seconds(LINK_BYTES[0]), await seconds(LINK_BYTES[1])];
  const received = Math.max(size - 1, 1) * (LINK_BYTES[1] - LINK_BYTES[0]);
  return { latency: few, bandwidth: received / Math.max(many - few, 1e-9) };
}
