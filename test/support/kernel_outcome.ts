/**
 * Kernel outputs beside what a check expects: poison before the launch, the worst error after it.
 *
 * @module
 */
import type { ExpectedArrays, HostArray, HostArrays } from "../../kernels/check.ts";
import { type Tensor, whole } from "../../src/gpu/tensor.ts";
import { download, upload } from "./gpu.ts";

export type KernelTensors = Readonly<Record<string, Tensor>>;

export interface KernelOutcome {
  readonly error: number;
  readonly where: string;
  readonly bits: readonly Uint32Array[];
}

/** A tensor for each input, and one full of poison for each array that is an output only. */
export function uploadArrays(inputs: HostArrays, want: ExpectedArrays): KernelTensors {
  const names = new Set([...Object.keys(inputs), ...Object.keys(want)]);
  return Object.fromEntries(
    Array.from(names, (name) => [name, whole(upload(inputs[name] ?? poison(want[name]!)))]),
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
  want: ExpectedArrays,
  tensors: KernelTensors,
): Promise<KernelOutcome> {
  let outcome: KernelOutcome = { error: 0, where: "", bits: [] };
  for (const [name, expected] of Object.entries(want)) {
    const bytes = await download(tensors[name]!.buffer);
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
