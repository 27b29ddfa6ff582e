/**
 * What this adapter gets right, found out before any weight is uploaded.
 *
 * The probe checks the portable envelope, FP8 decoding and f16 subnormals. Then the pairs of
 * kernels whose bits must agree for batch invariance run on the same data: one row and several
 * rows at a time, experts by pair and by tile, with and without subgroups. One of each pair is
 * compared with an f64 reference too, as two kernels that write nothing agree as well.
 *
 * @module
 */
import { DeviceError } from "../src/errors.ts";
import { Readback } from "../src/gpu/readback.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { allocateTensor, type Tensor } from "../src/gpu/tensor.ts";
import { PLAIN_TUNING } from "../src/gpu/tuning.ts";
import { dot, gatedRow, randomWeight, unpackWeight } from "./linear/check_weights.ts";
import { type LaunchForm, launchForms } from "./linear/launch_form.ts";
import {
  type Fp8Decode,
  type GroupColumns,
  gateUpRows,
  type LinearLayout,
  layoutFor,
  paddedRows,
  type WeightDtype,
} from "./linear/layout.ts";
import { linear } from "./linear/linear.ts";
import { expertGateUp } from "./moe/expert_gate_up.ts";
import { probe } from "./probe/probe.ts";
import { isNanCode, probeInputs, probeReference } from "./probe/reference.ts";

export interface SelfTestReport {
  /** How FP8 codes become numbers here; part of the weights' layout. */
  readonly fp8Decode: Fp8Decode;
  /** The layout's `subgroupSize`, where kernels that use subgroups give the same bits. */
  readonly subgroupSize: number | undefined;
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
  /** What to try: its subgroup size is in the report if it works. Default `layoutFor(device)`. */
  readonly layout?: LinearLayout;
  /** Where the launches are bound: the engine's own shares its pipelines. Default a new one. */
  readonly recorder?: Recorder;
}

/** Three blocks, the last of which ends inside a vec4f; no multiple of any tile. */
const COLUMNS = 269;
const STRIDE = 272;
const OUTPUTS = 37;
const ROWS = 6;
const EXPERTS = 2;
/** Sums of 269 products of about 1, in f32. */
const TOLERANCE = 1e-4;

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
  const { lanes, tuning, subgroupSize: wanted } = options.layout ?? layoutFor(device);
  const bench = new Bench(recorder);
  const failures: string[] = [];
  const unequal: string[] = [];
  try {
    const fp8Decode = await probeAdapter(bench, failures);
    const plain: FormResults[] = [];
    for (const dtype of dtypes) {
      const results = await runForms(bench, {
        ...{ dtype, lanes, fp8Decode },
        ...(tuning && { tuning }),
        ...(groupColumns && { groupColumns }),
      });
      if (!(results.error <= TOLERANCE)) {
        throw new DeviceError(`Cannot use this adapter: the ${dtype} kernels give wrong numbers`);
      }
      unequal.push(...results.unequal);
      plain.push(results);
    }
    const subgroupSize = (await subgroupsWork(bench, plain, wanted)) ? wanted : undefined;
    failures.push(...unequal);
    return { fp8Decode, subgroupSize, batchInvariant: unequal.length === 0, failures };
  } finally {
    bench.destroy();
    if (options.recorder === undefined) recorder.destroy();
  }
}

/** Tensors of the test, and a way to run a few launches and read what they wrote. */
class Bench {
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
    device.pushErrorScope("validation");
    const readback = new Readback(device, size, outputs.length);
    for (const launch of launches) launch();
    const reads = outputs.map((tensor) => readback.record(this.recorder, tensor, tensor.size));
    this.recorder.submit();
    const invalid = await device.popErrorScope();
    if (invalid !== null) {
      readback.destroy();
      throw new DeviceError(`Cannot use this adapter: ${invalid.message}`);
    }
    const results = await Promise.all(reads.map((read) => read()));
    readback.destroy();
    return results;
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

interface Form extends LinearLayout {
  readonly dtype: WeightDtype;
  readonly groupColumns?: GroupColumns;
}

interface FormResults {
  readonly form: Form;
  /** Largest error of the forms that the others are compared with. */
  readonly error: number;
  /** Which forms gave other bits, one sentence each. */
  readonly unequal: readonly string[];
  readonly bytes: readonly ArrayBuffer[];
}

/** Numbers in [0, 1), the same every time. (Generator: Mulberry32, T. Ettinger.) */
function steady(): () => number {
  let state = 1;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Runs every form of the linear and the expert kernel, all of which must give the same bits. */
async function runForms(bench: Bench, form: Form): Promise<FormResults> {
  const { recorder } = bench;
  const random = steady();
  const { rows, upRow } = gateUpRows(OUTPUTS, form.lanes);
  const shape = { ...form, rows, columns: COLUMNS };
  const packed = Array.from({ length: EXPERTS }, () => randomWeight(shape, random));
  const numbers = Float32Array.from({ length: ROWS * STRIDE }, (_, i) =>
    i % STRIDE < COLUMNS ? random() * 2 - 1 : Number.NaN,
  );
  const x = bench.tensor(numbers);
  const words = bench.tensor(joined(packed.map((weight) => weight.words)));
  const scales = bench.tensor(joined(packed.map((weight) => weight.scales)));
  const matrix = { ...shape, words, scales };
  const one = bench.results(ROWS * rows);
  const common = { x, xStride: STRIDE, outStride: rows };
  const weight = { ...matrix, rowsPadded: paddedRows(rows, form.lanes) };
  const alone = linear(recorder, {
    ...common,
    weight,
    out: one,
    forms: PLAIN_TUNING.rowForms.slice(0, 1),
  });
  const forms = launchForms(weight).map((launch) => {
    const out = bench.results(ROWS * rows);
    return { launch, out, run: linear(recorder, { ...common, weight, out, forms: [launch] }) };
  });

  // Row r goes to expert r % 2; each expert's rows are one tile.
  const order = Array.from({ length: ROWS }, (_, r) => r).sort(
    (a, b) => (a % 2) - (b % 2) || a - b,
  );
  const half = ROWS / 2;
  const experts = Uint32Array.from({ length: ROWS }, (_, r) => r % 2);
  const tiles = new Uint32Array(4 * (1 + ROWS));
  tiles.set([EXPERTS, 0, 0, 0, 0, 0, half, 0, 1, half, half, 0]);
  const expertOptions = {
    ...{ x, xStride: STRIDE, slots: 1, intermediate: OUTPUTS, outStride: OUTPUTS, quantize: false },
    experts: bench.tensor(experts),
    sortedPairs: bench.tensor(Uint32Array.from(order)),
    tiles: bench.tensor(tiles),
    weights: {
      ...{ ...form, expertCount: EXPERTS, rows, columns: COLUMNS },
      slabs: [{ firstExpert: 0, expertCount: EXPERTS, words, scales }],
    },
  };
  const byPairOut = bench.results(ROWS * OUTPUTS);
  const byTileOut = bench.results(ROWS * OUTPUTS);
  const byPair = expertGateUp(recorder, { ...expertOptions, out: byPairOut });
  const byTile = expertGateUp(recorder, { ...expertOptions, out: byTileOut });
  const bytes = await bench.run(
    [
      () => alone(ROWS),
      () => byPair(ROWS, false),
      () => byTile(ROWS, true),
      ...forms.map(
        ({ run }) =>
          () =>
            run(ROWS),
      ),
    ],
    [one, byPairOut, byTileOut, ...forms.map(({ out }) => out)],
  );

  const dense = packed.map((expert) => unpackWeight(shape, expert));
  const product = (e: number, n: number, r: number) =>
    dot({ weight: dense[e]!, columns: COLUMNS, row: n }, numbers, r * STRIDE);
  const wantLinear = Array.from({ length: ROWS * rows }, (_, i) =>
    product(0, i % rows, Math.floor(i / rows)),
  );
  const wantExperts = Array.from({ length: ROWS }, (_, r) => [
    ...gatedRow(
      OUTPUTS,
      (n) => product(r % 2, n, r),
      (n) => product(r % 2, upRow + n, r),
    ),
  ]).flat();
  const unequal: string[] = [];
  const [alones, byPairs, byTiles, ...others] = bytes;
  forms.forEach(({ launch }, i) => {
    if (sameBits(alones!, others[i]!)) return;
    unequal.push(`${form.dtype} linears give other bits for ${formWords(launch)}`);
  });
  if (!sameBits(byPairs!, byTiles!)) {
    unequal.push(`${form.dtype} experts give other bits by tile than by pair`);
  }
  const error = Math.max(worst(alones!, wantLinear), worst(byPairs!, wantExperts));
  return { form, error, unequal, bytes };
}

function formWords({ tokens, split }: LaunchForm): string {
  const rows = `${tokens} rows at once than for one`;
  return split === 1 ? rows : `${rows}, with ${split} invocations to a weight row`;
}

/** Whether the kernels give the same bits with subgroups of this size as without. */
async function subgroupsWork(
  bench: Bench,
  plain: readonly FormResults[],
  subgroupSize: number | undefined,
): Promise<boolean> {
  if (subgroupSize === undefined) return false;
  try {
    for (const { form, bytes } of plain) {
      const shared = await runForms(bench, { ...form, subgroupSize });
      if (!bytes.every((result, i) => sameBits(result, shared.bytes[i]!))) return false;
    }
  } catch (error) {
    // Subgroups are only a faster way: an adapter that cannot do it does without.
    if (error instanceof DeviceError) return false;
    throw error;
  }
  return true;
}

function joined<A extends Float32Array | Uint32Array>(parts: readonly A[]): A {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const all = new (parts[0]!.constructor as new (length: number) => A)(Math.max(length, 4));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
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
