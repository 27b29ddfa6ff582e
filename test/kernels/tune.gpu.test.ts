import { expect, test, vi } from "vitest";
import { TimedMatrix } from "../../kernels/timed_matrix.ts";
import { tuneKernels } from "../../kernels/tune.ts";
import { isBetter, tuneFusions } from "../../kernels/tune_fusions.ts";
import { InvalidRequestError } from "../../src/errors.ts";
import { Readback } from "../../src/gpu/readback.ts";
import { requireTuning } from "../../src/gpu/require_tuning.ts";
import { formOf } from "../../src/gpu/row_forms.ts";
import { PLAIN_TUNING } from "../../src/gpu/tuning.ts";
import { device, smallestCaseOnly } from "../support/devices/gpu.ts";

const quick = { lanes: [8], orders: [], milliseconds: 1 };

test.skipIf(smallestCaseOnly)(
  "measures every form and finds a tuning that may be stored",
  async () => {
    const seen: string[] = [];
    const { tuning, winners, upload } = await tuneKernels(device, {
      ...quick,
      orders: [{ rowsPerLane: 4, scaleOrder: "byRun" }],
      matrices: [{ dtype: "int8", rows: 40, columns: 300 }],
      onProgress: (done, total) => seen.push(`${done}/${total}`),
    });
    expect(requireTuning(JSON.parse(JSON.stringify(tuning)))).toEqual(tuning);
    expect(Object.keys(tuning.dtypeForms ?? {})).toEqual(["int8"]);
    expect(seen).toEqual(["0/2", "1/2", "2/2"]);
    expect(tuning.rowForms[0]).toMatchObject({ tokens: 1, cost: 1 });
    expect(winners.map(({ tokens }) => tokens)).toEqual(
      tuning.rowForms.map(({ tokens }) => tokens),
    );
    for (const { seconds } of winners) expect(seconds).toBeGreaterThan(0);
    // Both ways were gone and left the same words, and the faster one is kept.
    expect(upload.bytes / upload.host).toBeGreaterThan(0);
    expect(upload.bytes / upload.gpu).toBeGreaterThan(0);
    expect(tuning.repacks ?? false).toBe(upload.gpu < 0.95 * upload.host);
    // No form is kept that no number of rows would take.
    const rows = Array.from({ length: 64 }, (_, i) => i + 1);
    const taken = new Set(rows.map((count) => formOf(tuning.rowForms, count)));
    for (const form of tuning.rowForms.slice(1)) expect(taken.has(form)).toBe(true);
  },
);

test.skipIf(smallestCaseOnly)(
  "staged forms of each size are tried, and have the bits of the others",
  async () => {
    const measured = vi.spyOn(TimedMatrix.prototype, "seconds");
    await tuneKernels(device, { ...quick, matrices: [{ dtype: "fp8", rows: 40, columns: 300 }] });
    const seconds = await Promise.all(measured.mock.results.map(({ value }) => value));
    const tried = measured.mock.calls.map(([form], i) => ({ ...form, seconds: seconds[i]! }));
    measured.mockRestore();
    const staged = tried.filter((form) => form.staged);
    expect(staged.map(({ tokens, workgroup }) => [tokens, workgroup])).toEqual([
      ...[
        [16, 64],
        [16, 128],
      ],
      ...[
        [32, 128],
        [32, 256],
      ],
      [64, 256],
    ]);
    for (const one of staged) expect(one.seconds).toBeLessThan(Number.POSITIVE_INFINITY);
  },
);

/** Words of everything that is read back from now on. */
function catchReadbacks(): Uint32Array[] {
  const seen: Uint32Array[] = [];
  const { record } = Readback.prototype;
  vi.spyOn(Readback.prototype, "record").mockImplementation(function (this: Readback, ...from) {
    const read = record.apply(this, from);
    return async () => {
      const bytes = await read();
      seen.push(new Uint32Array(bytes.slice()));
      return bytes;
    };
  });
  return seen;
}

test("nothing to tune is refused", async () => {
  await expect(tuneKernels(device, { matrices: [] })).rejects.toThrow(InvalidRequestError);
});

test("launches are joined where both ways leave the same bits and one is clearly faster", async () => {
  const bits = Uint32Array.of(1, 2);
  const two = { seconds: 1, bits };
  expect(isBetter(two, { seconds: 0.9, bits: bits.slice() })).toBe(true);
  expect(isBetter(two, { seconds: 0.97, bits })).toBe(false);
  expect(isBetter(two, { seconds: 0.5, bits: Uint32Array.of(1, 3) })).toBe(false);
  const left = catchReadbacks();
  const fusions = await tuneFusions(device, PLAIN_TUNING, 1);
  const kinds = Object.entries(fusions).map(([name, joined]) => [name, typeof joined]);
  expect(kinds).toEqual([
    ["foldsNorms", "boolean"],
    ["findsBest", "boolean"],
  ]);
  vi.restoreAllMocks();
  // What a projection and its norm leave, and the best token, each both ways.
  const [stream, streamToo, best, bestToo] = left;
  expect(left).toHaveLength(4);
  expect(streamToo).toEqual(stream);
  expect(bestToo).toEqual(best);
  const values = new Float32Array(stream!.buffer);
  expect(values.every(Number.isFinite)).toBe(true);
  expect(values.subarray(0, 4096).every((value) => value !== 0)).toBe(true);
});
