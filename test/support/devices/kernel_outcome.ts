/**
 * Kernel outputs beside what a check expects: poison before the launch, the worst error after it.
 * Works in Node and in a page.
 *
 * @module
 */
import type { ExpectedArrays, HostArray, HostArrays, KernelCheck } from "../../../kernels/check.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { type Tensor, whole } from "../../../src/gpu/tensor.ts";
import { seeded } from "../seeded.ts";
import { downloadFrom, uploadTo } from "./device_buffers.ts";

export type KernelTensors = Readonly<Record<string, Tensor>>;

export interface KernelOutcome {
  readonly error: number;
  readonly where: string;
  readonly bits: readonly Uint32Array[];
}

export interface CaseRun<C> {
  readonly shape: C;
  readonly tuning: Readonly<Record<string, number>>;
  /** Rewrites a kernel's code before it is compiled, to plant faults. */
  readonly rewrite?: (kernel: string, code: string) => string;
  /** Called before the launches are recorded. */
  readonly onBound?: (recorder: Recorder, inputs: HostArrays) => void;
}

/**
 * Runs one case of a check and measures how far its outputs are from the reference.
 *
 * @throws {Error} when the device finds the launches invalid.
 */
export async function runCase<C>(
  device: GPUDevice,
  check: KernelCheck<C>,
  { shape, tuning, rewrite, onBound }: CaseRun<C>,
): Promise<KernelOutcome> {
  const inputs = check.inputs(shape, seeded(1));
  const want = check.reference(shape, inputs);
  const tensors = uploadArrays(device, { inputs, want });
  const recorder = new Recorder(device, { maxLaunches: 64, ...(rewrite && { rewrite }) });
  const record = check.bind(recorder, shape, tensors, tuning);
  onBound?.(recorder, inputs);
  await recorder.pipelines.ready();
  device.pushErrorScope("validation");
  record();
  recorder.submit();
  const outcome = await compareTensors(device, { want, tensors });
  const invalid = await device.popErrorScope();
  if (invalid !== null) throw new Error(invalid.message);
  destroyTensors(tensors);
  recorder.destroy();
  return outcome;
}

/** What a kernel is given, and what it has to answer. */
interface CaseArrays {
  readonly inputs: HostArrays;
  readonly want: ExpectedArrays;
}

/** A tensor for each input, and one full of poison for each array that is an output only. */
export function uploadArrays(device: GPUDevice, { inputs, want }: CaseArrays): KernelTensors {
  const names = new Set([...Object.keys(inputs), ...Object.keys(want)]);
  const contents = (name: string) => inputs[name] ?? poison(want[name]!);
  return Object.fromEntries(
    Array.from(names, (name) => [name, whole(uploadTo(device, contents(name)))]),
  );
}

export function destroyTensors(tensors: KernelTensors): void {
  for (const { buffer } of Object.values(tensors)) buffer.destroy();
}

/**
 * Compares every expected array with its tensor: floats by |got - want| / max(|want|, root mean
 * square of the array), whole numbers exactly. NaN where a number is wanted (or the reverse) is
 * infinitely wrong. Waits for the work submitted so far.
 */
export async function compareTensors(
  device: GPUDevice,
  { want, tensors }: { readonly want: ExpectedArrays; readonly tensors: KernelTensors },
): Promise<KernelOutcome> {
  let outcome: KernelOutcome = { error: 0, where: "", bits: [] };
  for (const [name, expected] of Object.entries(want)) {
    const bytes = await downloadFrom(device, tensors[name]!.buffer);
    const bits = new Uint32Array(bytes, 0, expected.length);
    const { error, where } = compare(name, expected, bits);
    const worst = error > outcome.error ? { error, where } : outcome;
    outcome = { error: worst.error, where: worst.where, bits: [...outcome.bits, bits] };
  }
  return outcome;
}

function poison(expected: ExpectedArrays[string]): HostArray {
  if (expected instanceof Uint32Array) return new Uint32Array(expected.length).fill(0xdeadbeef);
  return new Float32Array(expected.length).fill(Number.NaN);
}

function compare(name: string, expected: ExpectedArrays[string], bits: Uint32Array) {
  let error = 0;
  let where = "";
  const note = (e: number, i: number, got: number) => {
    if (e <= error) return;
    error = e;
    where = `${name}[${i}]: got ${got}, want ${expected[i]}`;
  };
  if (expected instanceof Uint32Array) {
    expected.forEach((value, i) => {
      note(bits[i] === value ? 0 : Number.POSITIVE_INFINITY, i, bits[i]!);
    });
    return { error, where };
  }
  const got = new Float32Array(bits.buffer, bits.byteOffset, bits.length);
  let squares = 0;
  let count = 0;
  for (const value of expected) {
    if (!Number.isFinite(value)) continue;
    squares += value * value;
    count += 1;
  }
  const typical = Math.sqrt(squares / Math.max(count, 1)) || 1;
  for (let i = 0; i < expected.length; i++) {
    const want = expected[i]!;
    const value = got[i]!;
    if (Object.is(want, value) || want === value) continue;
    const e = Math.abs(value - want) / Math.max(Math.abs(want), typical);
    note(Number.isNaN(e) ? Number.POSITIVE_INFINITY : e, i, value);
  }
  return { error, where };
}
