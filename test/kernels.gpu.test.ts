import { describe, expect, test } from "vitest";
import type { ExpectedArrays, HostArray, KernelCheck } from "../kernels/check.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { type Tensor, whole } from "../src/gpu/tensor.ts";
import { device, download, fullTest, seeded, smallestCaseOnly, upload } from "./support/gpu.ts";

const checks = import.meta.glob<{ default: KernelCheck<object> }>("../kernels/**/*.check.ts", {
  eager: true,
});

type Outcome = { readonly error: number; readonly where: string; readonly bits: Uint32Array[] };

/** Runs one case and measures how far its outputs are from the reference. */
async function run(
  check: KernelCheck<object>,
  shape: object,
  tuning: Readonly<Record<string, number>>,
  rewrite?: (kernel: string, code: string) => string,
): Promise<Outcome> {
  const inputs = check.inputs(shape, seeded(1));
  const want = check.reference(shape, inputs);
  const tensors: Record<string, Tensor> = {};
  for (const name of new Set([...Object.keys(inputs), ...Object.keys(want)])) {
    tensors[name] = whole(upload(inputs[name] ?? poison(want[name]!)));
  }
  const recorder = new Recorder(device, { maxLaunches: 64, ...(rewrite && { rewrite }) });
  const record = check.bind(recorder, shape, tensors, tuning);
  await recorder.pipelines.ready();
  device.pushErrorScope("validation");
  record();
  recorder.submit();
  let outcome: Outcome = { error: 0, where: "", bits: [] };
  for (const [name, expected] of Object.entries(want)) {
    const bytes = await download(tensors[name]!.buffer);
    const bits = new Uint32Array(bytes, 0, expected.length);
    const { error, where } = compare(name, expected, bits);
    const worst = error > outcome.error ? { error, where } : outcome;
    outcome = { error: worst.error, where: worst.where, bits: [...outcome.bits, bits] };
  }
  const invalid = await device.popErrorScope();
  if (invalid !== null) throw new Error(invalid.message);
  for (const { buffer } of Object.values(tensors)) buffer.destroy();
  recorder.destroy();
  return outcome;
}

function poison(expected: ExpectedArrays[string]): HostArray {
  if (expected instanceof Uint32Array) return new Uint32Array(expected.length).fill(0xdeadbeef);
  return new Float32Array(expected.length).fill(Number.NaN);
}

/** The worst error of an array; NaN where a number is wanted (or the reverse) is infinitely wrong. */
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

for (const { default: check } of Object.values(checks)) {
  describe(check.name, () => {
    // The slow driver runs the smallest case only, as the long campaign runs every mutant there too.
    const cases = smallestCaseOnly ? check.cases.slice(0, 1) : check.cases;
    cases.forEach((shape, c) => {
      const tunings = fullTest || c === 0 ? check.tunings : check.tunings.slice(0, 1);
      test(`matches its reference: ${JSON.stringify(shape)}`, async () => {
        let first: Outcome | undefined;
        for (const tuning of tunings) {
          const outcome = await run(check, shape, tuning);
          expect(outcome.error, `${JSON.stringify(tuning)} ${outcome.where}`).toBeLessThanOrEqual(
            check.tolerance,
          );
          first ??= outcome;
          if (check.exactAcrossTunings) expect(outcome.bits).toEqual(first.bits);
        }
      });
    });

    const mutants = smallestCaseOnly ? [] : check.mutants;
    for (const mutant of mutants) {
      test(`catches: ${mutant.name}`, async () => {
        let planted = false;
        const rewrite = (_: string, code: string) => {
          planted ||= code.includes(mutant.replace);
          return code.replaceAll(mutant.replace, () => mutant.with);
        };
        const shape = check.cases[mutant.case ?? 0]!;
        const { error } = await run(check, shape, check.tunings[mutant.tuning ?? 0]!, rewrite);
        expect(planted, "the text to replace is not there").toBe(true);
        expect(error, "the fault went unnoticed").toBeGreaterThan(check.tolerance);
      });
    }
  });
}
