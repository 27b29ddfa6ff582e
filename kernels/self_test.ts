/**
 * What this adapter gets right, found out before any weight is uploaded.
 *
 * The probe checks the portable envelope, FP8 decoding and f16 subnormals. Then linears of every
 * kind of weight that the model has run in each form that its tuning has for them: these must give
 * the same bits, and the first of them the numbers of an f64 reference. Whether all of a model's
 * kernels keep the promise of batch invariance is tried out on the model once it is loaded
 * (src/engine/load/invariance.ts).
 *
 * @module
 */
import { DeviceError, KernelError } from "../src/errors.ts";
import { validated } from "../src/gpu/error_scope.ts";
import { Readback } from "../src/gpu/readback.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { allocateTensor, type Tensor } from "../src/gpu/tensor.ts";
import { dot, randomWeight, unpackWeight } from "./linear/checks/check_weights.ts";
import { linear } from "./linear/linear.ts";
import type { LinearLayout } from "./linear/linear_layout.ts";
import { type LaunchForm, launchForms } from "./linear/weights/launch_form.ts";
import {
  type Fp8Decode,
  type GroupColumns,
  layoutFor,
  type WeightDtype,
} from "./linear/weights/layout.ts";
import { paddedRows } from "./linear/weights/weight_order.ts";
import {
  askedSubgroups,
  askedSubgroupsInputs,
  askedSubgroupsReference,
} from "./probe/asked_subgroups.ts";
import {
  compilesPackedDots,
  packedDots,
  packedDotsInputs,
  packedDotsReference,
} from "./probe/packed_dots.ts";
import { probe } from "./probe/probe.ts";
import { isNanCode, probeInputs, probeReference } from "./probe/reference.ts";

export interface SelfTestReport {
  /** How FP8 codes become numbers here; part of the weights' layout. */
  readonly fp8Decode: Fp8Decode;
  /** The layout's `subgroupSize`, where kernels that use subgroups are right. */
  readonly subgroupSize: number | undefined;
  /** The layout's `askedSubgroupSize`, where kernels can ask and invocations hear each other. */
  readonly askedSubgroupSize: number | undefined;
  /** The layout's `packedDots`, where `dot4I8Packed` is there and right, and weights are int8. */
  readonly packedDots: boolean;
  /** Whether every pair of kernels that batch invariance rests on gave the same bits. */
  readonly batchInvariant: boolean;
  /** What is not as it should be, one sentence each; empty on a good adapter. */
  readonly failures: readonly string[];
}

export interface SelfTestOptions {
  /** Weights that the model has. Default BF16 and FP8. */
  readonly dtypes?: readonly WeightDtype[];
  /** Columns of a group of int4 weights. Default 128. */
  readonly groupColumns?: GroupColumns;
  /** What to try, of which the report has what works. Default `layoutFor(device)`. */
  readonly layout?: LinearLayout;
  /** Where the launches are bound: the engine's own shares its pipelines. Default a new one. */
  readonly recorder?: Recorder;
  /** Called after the probe, and after each kind of weight. */
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

/** Three blocks, the last of which ends inside a vec4f; no multiple of any tile. */
const COLUMNS = 269;
const STRIDE = 272;
const OUTPUTS = 37;
const ROWS = 6;
/** Sums of 269 products of about 1, in f32, and where eight of them at a time are added up in f16. */
const TOLERANCE = 1e-4;
const HALF_TOLERANCE = 5e-3;

/**
 * Runs the start-up self-test.
 *
 * @throws {DeviceError} when something without an alternative is wrong: no model would run.
 */
export async function selfTest(
  device: GPUDevice,
  options: SelfTestOptions = {},
): Promise<SelfTestReport> {
  const { dtypes = ["bf16", "fp8"], groupColumns, recorder = new Recorder(device) } = options;
  const { subgroupSize, askedSubgroupSize: asked, ...plain } = options.layout ?? layoutFor(device);
  const wantsDots = plain.packedDots === true && dtypes.includes("int8");
  const bench = new Bench(recorder);
  const failures: string[] = [];
  const tell = (done: number) => options.onProgress?.(done, 1 + dtypes.length);
  try {
    const fp8Decode = await probeAdapter(bench, failures);
    const packedDots = wantsDots && (await packedDotsWork(bench));
    tell(1);
    const weights = dtypes.map((dtype) => ({
      ...plain,
      dtype,
      fp8Decode,
      ...(groupColumns && { groupColumns }),
    }));
    const askedSubgroupSize =
      asked !== undefined && (await askingWorks(bench, asked)) ? asked : undefined;
    const found = { fp8Decode, packedDots, askedSubgroupSize, failures };
    // Linears in f16 share no loads, but attention uses subgroups all the same.
    const sharing = (size: number) =>
      weights.map((weight) => ({ ...weight, subgroupSize: size, halfProducts: false }));
    const works =
      subgroupSize !== undefined && (await subgroupsWork(bench, sharing(subgroupSize), tell));
    const size = works ? subgroupSize : undefined;
    if (works && plain.halfProducts !== true) {
      return { ...found, subgroupSize: size, batchInvariant: true };
    }
    const unequal: string[] = [];
    for (const [i, weight] of weights.entries()) {
      const results = await runForms(bench, weight);
      tell(2 + i);
      if (!results.isRight) {
        throw new DeviceError(
          `Cannot use this adapter: the ${weight.dtype} kernels give wrong numbers`,
        );
      }
      unequal.push(...results.unequal);
    }
    failures.push(...unequal);
    return { ...found, subgroupSize: size, batchInvariant: unequal.length === 0 };
  } finally {
    bench.destroy();
    if (options.recorder === undefined) recorder.destroy();
  }
}

/** Tensors of the test, and a way to run a few launches and read what they wrote. */
export class Bench {
  readonly recorder: Recorder;
  readonly #tensors: Tensor[] = [];

  constructor(recorder: Recorder) {
    this.recorder = recorder;
  }

  /** A tensor with these contents. */
  tensor(data: Float32Array | Uint32Array): Tensor {
    const { device } = this.recorder;
    const tensor = allocateTensor(device, data.byteLength, "self-test");
    this.#tensors.push(tensor);
    device.queue.writeBuffer(tensor.buffer, 0, data as Float32Array<ArrayBuffer>);
    return tensor;
  }

  /** A tensor for `length` results, full of NaN. */
  results(length: number): Tensor {
    return this.tensor(new Float32Array(length).fill(Number.NaN));
  }

  /** @throws {DeviceError} when a kernel does not compile or the device refuses a launch. */
  async run(launches: readonly (() => void)[], outputs: readonly Tensor[]): Promise<ArrayBuffer[]> {
    const { device, pipelines } = this.recorder;
    const size = Math.max(...outputs.map((tensor) => tensor.size));
    try {
      await pipelines.ready();
    } catch (cause) {
      throw new DeviceError("Cannot use this adapter: a kernel does not compile", { cause });
    }
    const readback = new Readback(device, size, outputs.length);
    try {
      const { result: reads, invalid } = validated(device, () => {
        for (const launch of launches) launch();
        const recorded = outputs.map((tensor) =>
          readback.record(this.recorder, tensor, tensor.size),
        );
        this.recorder.submit();
        return recorded;
      });
      const error = await invalid;
      if (error !== null) throw new DeviceError(`Cannot use this adapter: ${error.message}`);
      return await Promise.all(reads.map((read) => read()));
    } finally {
      readback.destroy();
    }
  }

  destroy(): void {
    for (const { buffer } of this.#tensors) buffer.destroy();
  }
}

/** Finds the decoder of FP8 codes that works here. */
async function probeAdapter(bench: Bench, failures: string[]): Promise<Fp8Decode> {
  const inputs = probeInputs();
  const want = probeReference(inputs);
  const length = want.decoded.length;
  const tensors = {
    codes: bench.tensor(inputs.codes),
    scales: bench.tensor(inputs.scales),
    halves: bench.tensor(inputs.halves),
    left: bench.tensor(inputs.left),
    right: bench.tensor(inputs.right),
  };
  for (const fp8Decode of ["half", "bits"] as const) {
    const results = {
      decoded: bench.results(length),
      unpacked: bench.results(want.unpacked.length),
      sums: bench.results(4),
    };
    const launch = probe(bench.recorder, { ...tensors, ...results, fp8Decode });
    const outputs = [results.decoded, results.unpacked, results.sums];
    const got = (await bench.run([launch], outputs)).map((bytes) => new Float32Array(bytes));
    const [decoded, unpacked, sums] = got as [Float32Array, Float32Array, Float32Array];
    if (want.sums.some((sum, i) => sums[i] !== sum)) {
      throw new DeviceError(
        `Cannot use this adapter: a workgroup of 256 adds up to ${sums[0]} and ${sums[1]} instead of ${want.sums[0]}`,
      );
    }
    if (fp8Decode === "half" && want.unpacked.some((value, i) => unpacked[i] !== value)) {
      failures.push("f16 subnormals are lost, so F16 weights are not exact");
    }
    const wrong = want.decoded.filter((value, i) => decoded[i] !== value && !isNanCode(i)).length;
    if (wrong === 0) return fp8Decode;
    failures.push(`decoding FP8 by "${fp8Decode}" gets ${wrong} of 256 codes wrong`);
  }
  throw new DeviceError(`Cannot use this adapter: ${failures.join("; ")}`);
}

interface WeightForm extends LinearLayout {
  readonly dtype: WeightDtype;
  readonly groupColumns?: GroupColumns;
}

interface FormResults {
  /** Whether the form that the others are compared with is as near to the reference as it should be. */
  readonly isRight: boolean;
  /** Which forms gave other bits, one sentence each. */
  readonly unequal: readonly string[];
}

/** Numbers in [0, 1), the same every time. (Generator: Mulberry32, T. Ettinger.) */
export function steady(): () => number {
  let state = 1;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Runs a linear in every form of the layout's tuning, all of which must give the same bits. */
async function runForms(bench: Bench, form: WeightForm): Promise<FormResults> {
  const random = steady();
  const shape = { ...form, rows: OUTPUTS, columns: COLUMNS };
  const packed = randomWeight(shape, random);
  const numbers = Float32Array.from({ length: ROWS * STRIDE }, (_, i) =>
    i % STRIDE < COLUMNS ? random() * 2 - 1 : Number.NaN,
  );
  const weight = {
    ...shape,
    rowsPadded: paddedRows(OUTPUTS, form),
    words: bench.tensor(packed.words),
    scales: bench.tensor(packed.scales),
  };
  const x = bench.tensor(numbers);
  const forms = launchForms(weight).map((launch) => {
    const out = bench.results(ROWS * OUTPUTS);
    const common = { x, xStride: STRIDE, out, outStride: OUTPUTS };
    return { launch, out, run: linear(bench.recorder, { ...common, weight, forms: [launch] }) };
  });
  const [alone, ...others] = await bench.run(
    forms.map(
      ({ run }) =>
        () =>
          run(ROWS),
    ),
    forms.map(({ out }) => out),
  );

  const dense = unpackWeight(shape, packed);
  const want = Array.from({ length: ROWS * OUTPUTS }, (_, i) => {
    const row = { weight: dense, columns: COLUMNS, row: i % OUTPUTS };
    return dot(row, numbers, Math.floor(i / OUTPUTS) * STRIDE);
  });
  const unequal = forms
    .slice(1)
    .filter((_, i) => !sameBits(alone!, others[i]!))
    .map(({ launch }) => `${form.dtype} linears give other bits for ${formWords(launch)}`);
  const tolerance = form.halfProducts === true ? HALF_TOLERANCE : TOLERANCE;
  return { isRight: worst(alone!, want) <= tolerance, unequal };
}

function formWords({ tokens, split }: LaunchForm): string {
  const rows = `${tokens} rows at once than for one`;
  return split === 1 ? rows : `${rows}, with ${split} invocations to a weight row`;
}

/** Whether kernels that use subgroups give the right numbers, and the same bits in every form. */
async function subgroupsWork(
  bench: Bench,
  forms: readonly WeightForm[],
  tell: (done: number) => void,
): Promise<boolean> {
  try {
    for (const [i, form] of forms.entries()) {
      const { isRight, unequal } = await runForms(bench, form);
      tell(2 + i);
      if (!isRight || unequal.length > 0) return false;
    }
    return true;
  } catch (error) {
    // Subgroups are only a faster way: an adapter that cannot do it does without.
    if (error instanceof DeviceError) return false;
    throw error;
  }
}

/** Whether invocations of subgroups of this size, which a kernel asks for, hear each other. */
export async function askingWorks(bench: Bench, lanes: number): Promise<boolean> {
  const values = askedSubgroupsInputs();
  const want = askedSubgroupsReference(values, { lanes, step: 3 });
  const told = bench.results(want.length);
  const tensors = { values: bench.tensor(values), told };
  try {
    const launch = askedSubgroups(bench.recorder, { ...tensors, lanes, step: 3 });
    const [bytes] = await bench.run([launch], [told]);
    const got = new Float32Array(bytes!);
    return want.every((value, i) => value === got[i]);
  } catch (error) {
    // A faster way only: an adapter that cannot do it does without.
    if (error instanceof DeviceError || error instanceof KernelError) return false;
    throw error;
  }
}

async function packedDotsWork(bench: Bench): Promise<boolean> {
  if (!(await compilesPackedDots(bench.recorder.device))) return false;
  const inputs = packedDotsInputs();
  const want = packedDotsReference(inputs);
  const sums = bench.results(want.length);
  const { left, right } = inputs;
  const launch = packedDots(bench.recorder, {
    left: bench.tensor(left),
    right: bench.tensor(right),
    sums,
  });
  const [bytes] = await bench.run([launch], [sums]);
  const got = new Int32Array(bytes!);
  return want.every((sum, i) => sum === got[i]);
}

function sameBits(a: ArrayBuffer, b: ArrayBuffer): boolean {
  const other = new Uint32Array(b);
  return new Uint32Array(a).every((bits, i) => bits === other[i]);
}

/** Largest error over the root mean square of what is wanted; infinite for NaN. */
function worst(bytes: ArrayBuffer, want: readonly number[]): number {
  const got = new Float32Array(bytes);
  const typical = Math.sqrt(want.reduce((sum, value) => sum + value * value, 0) / want.length);
  return want.reduce((most, value, i) => {
    const error = Math.abs(got[i]! - value) / typical;
    return Number.isNaN(error) ? Number.POSITIVE_INFINITY : Math.max(most, error);
  }, 0);
}
