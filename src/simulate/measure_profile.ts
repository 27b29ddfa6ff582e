/**
 * Measures what an adapter makes of a model's own steps: each launch by the adapter's clock, whole steps
 * by the host's.
 *
 * @module
 */
import { measureRates } from "../../kernels/adapter_rates.ts";
import type { Checkpoint } from "../checkpoint/checkpoint.ts";
import { type LoadedModel, loadModel } from "../engine/load/load.ts";
import type { LoadOptions } from "../engine/load/load_options.ts";
import { smallestOf } from "../extremes.ts";
import { adapterName } from "../gpu/device.ts";
import { LaunchTimer, type TimedLaunch } from "../gpu/launch_timer.ts";
import { Readback } from "../gpu/readback.ts";
import { Recorder } from "../gpu/recorder.ts";
import { allocateTensor } from "../gpu/tensor.ts";
import type { AdapterProfile, HostTimes } from "./adapter_profile.ts";
import { descriptionOf } from "./described_device.ts";
import { decodeBatch, prefillBatch, type SizedBatch } from "./step_batches.ts";

interface MeasureOptions {
  /** Sequences that decode together. */
  readonly batches: readonly number[];
  /** Rows of a prompt. */
  readonly prompts: readonly number[];
  /** Tokens in front of decoded rows. */
  readonly context: number;
}

/** Steps of a run, and runs, of which the least counts. */
const STEPS = 8;
const RUNS = 5;
/** Bytes read back: a word, and enough for the rate. */
const READ_BYTES = [4, 2 ** 22] as const;
const READS = 20;

/** What is measured of steps of one size. */
interface MeasuredStep {
  readonly rows: number;
  /** Seconds of a step that others follow, and of the host's part. */
  readonly seconds: number;
  readonly host: number;
  readonly launches: readonly TimedLaunch[];
}

/**
 * Loads the model on one rank and runs some steps of each size: for some seconds, during which nothing
 * else should use the adapter.
 *
 * @throws {UnsupportedError} when the device cannot take times.
 */
export async function measureProfile(
  checkpoint: Checkpoint,
  load: LoadOptions,
  options: MeasureOptions,
): Promise<AdapterProfile> {
  const loaded = await loadModel(checkpoint, load);
  const { device } = loaded;
  try {
    const { copy, fma } = await measureRates(device);
    const steps: MeasuredStep[] = [];
    const { pageSize } = loaded.options;
    for (const count of options.batches) {
      steps.push(await measure(loaded, decodeBatch(count, options.context, pageSize)));
    }
    for (const rows of options.prompts) {
      steps.push(await measure(loaded, prefillBatch(rows, 0, pageSize)));
    }
    const adapter = descriptionOf(device);
    return {
      name: adapterName(device),
      adapter,
      copy,
      fma,
      ...timesOf(steps, { copy, fma }),
      host: { ...hostOf(steps), ...(await measureReads(device)) },
    };
  } finally {
    loaded.destroy();
  }
}

/** One size of steps: alone by the host's clock, then once with each launch by the adapter's. */
async function measure(
  { runner }: LoadedModel,
  { batch, sampled }: SizedBatch,
): Promise<MeasuredStep> {
  const submit = () => runner.submit(batch, sampled);
  await (await submit()).tokens;
  let seconds = Number.POSITIVE_INFINITY;
  let host = Number.POSITIVE_INFINITY;
  for (let run = 0; run < RUNS; run++) {
    let before = await submit();
    const started = performance.now();
    for (let step = 0; step < STEPS; step++) {
      const begun = performance.now();
      const next = await submit();
      host = Math.min(host, (performance.now() - begun) / 1e3);
      await before.tokens;
      before = next;
    }
    seconds = Math.min(seconds, (performance.now() - started) / 1e3 / STEPS);
    await before.tokens;
  }
  const launches = await timedLaunches(runner, submit);
  return { rows: batch.sources.length, seconds, host, launches };
}

/** Of several steps, the quickest of each launch. */
async function timedLaunches(
  { recorder }: LoadedModel["runner"],
  submit: () => Promise<{ readonly tokens: Promise<unknown> }>,
): Promise<readonly TimedLaunch[]> {
  const steps: (readonly TimedLaunch[])[] = [];
  let step: readonly TimedLaunch[] = [];
  const timer = new LaunchTimer(recorder.device, ({ launches }) => {
    step = [...step, ...launches];
  });
  recorder.timer = timer;
  try {
    for (let run = 0; run < RUNS; run++) {
      step = [];
      await (await submit()).tokens;
      await timer.settled();
      steps.push(step);
    }
  } finally {
    recorder.timer = undefined;
    timer.destroy();
  }
  return steps[0]!.map((_, i) => {
    const same = steps.map((launches) => launches[i]!);
    return same.reduce((best, one) => (secondsOf(one) < secondsOf(best) ? one : best));
  });
}

const secondsOf = ({ begin, end }: TimedLaunch) => Number(end - begin) / 1e9;

/**
 * What launches take whatever they do, which is what the least of them takes, and the shares that they
 * reach beyond that. Of a whole step, launches take together what it does, which is not what they take
 * one by one.
 */
function timesOf(
  steps: readonly MeasuredStep[],
  rates: Pick<AdapterProfile, "copy" | "fma">,
): Pick<AdapterProfile, "launch" | "shares"> {
  const launch = smallestOf(
    steps.map(({ launches, seconds }) =>
      Math.min(smallestOf(launches.map(secondsOf)), seconds / launches.length),
    ),
  );
  const shares = new Map<string, Map<number, number>>();
  for (const { rows, seconds, launches } of steps) {
    const beyond = launches.map((one) => Math.max(secondsOf(one) - launch, LEAST * secondsOf(one)));
    const together = beyond.reduce((sum, one) => sum + one, 0);
    const scale = Math.max(seconds - launches.length * launch, LEAST * seconds) / together;
    const sums = new Map<string, Taken>();
    launches.forEach(({ kernel, cost }, i) => {
      const sum = sums.get(kernel) ?? { bound: 0, taken: 0 };
      sums.set(kernel, sum);
      sum.bound += Math.max((cost?.bytes ?? 0) / rates.copy, (cost?.flops ?? 0) / rates.fma);
      sum.taken += scale * beyond[i]!;
    });
    for (const [kernel, { bound, taken }] of sums) {
      if (bound > 0) setShare(shares, { kernel, rows, share: bound / taken });
    }
    const all = [...sums.values()];
    const [bound, taken] = [sumOf(all, "bound"), sumOf(all, "taken")];
    // Of kernels that one rank does not have.
    setShare(shares, { kernel: "", rows, share: bound / taken });
  }
  return { launch, shares };
}

interface Taken {
  /** Seconds by the adapter's rates, and those that it took. */
  bound: number;
  taken: number;
}

const sumOf = (all: readonly Taken[], field: keyof Taken) =>
  all.reduce((sum, one) => sum + one[field], 0);

function setShare(
  shares: Map<string, Map<number, number>>,
  {
    kernel,
    rows,
    share,
  }: { readonly kernel: string; readonly rows: number; readonly share: number },
): void {
  const byRows = shares.get(kernel) ?? new Map<number, number>();
  shares.set(kernel, byRows);
  byRows.set(rows, share);
}

/** What a launch takes at least beyond what every launch takes, as a share of all it takes. */
const LEAST = 0.01;

/** Each submit of a step waits for nothing: the host's part grows with launches alone. */
function hostOf(steps: readonly MeasuredStep[]): Pick<HostTimes, "step" | "launch"> {
  return { step: 0, launch: smallestOf(steps.map(({ host, launches }) => host / launches.length)) };
}

/** From a submit to bytes on the host, with nothing in front of it. */
async function measureReads(device: GPUDevice): Promise<Pick<HostTimes, "readback" | "readByte">> {
  const recorder = new Recorder(device, { maxLaunches: 1 });
  const tensor = allocateTensor(device, READ_BYTES[1], "bytes to read");
  const readback = new Readback(device, READ_BYTES[1], 1);
  const seconds = async (bytes: number) => {
    let least = Number.POSITIVE_INFINITY;
    for (let i = 0; i < READS; i++) {
      const started = performance.now();
      const read = readback.record(recorder, tensor, bytes);
      recorder.submit();
      await read();
      least = Math.min(least, (performance.now() - started) / 1e3);
    }
    return least;
  };
  try {
    const [few, many] = [await seconds(READ_BYTES[0]), await seconds(READ_BYTES[1])];
    return { readback: few, readByte: Math.max(many - few, 0) / (READ_BYTES[1] - READ_BYTES[0]) };
  } finally {
    for (const one of [recorder, readback, tensor.buffer]) one.destroy();
  }
}
