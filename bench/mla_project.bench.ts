/**
 * What follows the first projections of latent attention, for some generated rows: one launch, or
 * one for norms and cache entries and one for the query projection. The figures that the forms of
 * `mlaProject` rest on.
 *
 * All ways take turns, and the least processor time of each counts: on an adapter that is the CPU,
 * it is what other load changes least. `WISP_BENCH_DTYPES`, `WISP_BENCH_ROWS` and
 * `WISP_BENCH_SHAPES` (outputs x query latent) are lists that narrow the choice, and
 * `WISP_BENCH_WORKGROUPS` adds forms of so many invocations.
 *
 * @module
 */
import { afterAll, expect, test } from "vitest";
import { mlaProject } from "../kernels/cache/mla_project.ts";
import { mlaWrite } from "../kernels/cache/mla_write.ts";
import { randomRows, randomWeight } from "../kernels/linear/checks/check_weights.ts";
import { linear } from "../kernels/linear/linear.ts";
import { layoutFor, type WeightDtype } from "../kernels/linear/weights/layout.ts";
import { paddedRows } from "../kernels/linear/weights/weight_order.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { formsFor } from "../src/gpu/row_forms.ts";
import { type Tensor, whole } from "../src/gpu/tensor.ts";
import { PLAIN_TUNING } from "../src/gpu/tuning.ts";
import { device, download, seeded, upload } from "../test/support/devices/gpu.ts";
import { catchLaunches } from "./support/launch_profile.ts";
import { machine } from "./support/machine.ts";
import { table } from "./support/table.ts";
import { type Encode, measureLaunch } from "./support/timing.ts";

const list = (name: string, fallback: readonly string[]) =>
  process.env[name]?.split(",") ?? fallback;
const DTYPES = list("WISP_BENCH_DTYPES", ["fp8", "bf16"]) as readonly WeightDtype[];
const ROWS = list("WISP_BENCH_ROWS", ["1", "2", "4", "8", "16", "32"]).map(Number);
const SHAPES = list("WISP_BENCH_SHAPES", ["192x128", "3072x384", "24576x1536"]);
const WORKGROUPS = list("WISP_BENCH_WORKGROUPS", []).map(Number);
const TURNS = 4;
const ROPE = 64;

interface Way {
  readonly name: string;
  readonly record: (rows: number) => void;
}

const lines: string[][] = [];

afterAll(() => {
  console.log(`${machine()}\nus of processor time, of all cores together`);
  const more = WORKGROUPS.map((count) => `one, ${count}`);
  console.log(table(["weight", "rows", "two launches", "one launch", ...more], lines));
});

for (const shape of SHAPES) {
  const [outputs = 0, columns = 0] = shape.split("x").map(Number);
  for (const dtype of DTYPES) {
    test(`${dtype} ${shape}`, async () => {
      const recorder = new Recorder(device, { maxLaunches: 64 });
      const { ways, query, destroy } = waysOf(recorder, { dtype, outputs, columns });
      await recorder.pipelines.ready();
      for (const rows of ROWS) {
        const encodes: Encode[] = [];
        const bits: Uint32Array[] = [];
        for (const { record } of ways) {
          device.queue.writeBuffer(query.buffer, 0, new Float32Array(rows * outputs));
          const launches = await catchLaunches(recorder, async () => {
            record(rows);
            recorder.submit();
          });
          encodes.push((pass) => {
            for (const { encode } of launches) encode(pass);
          });
          bits.push(new Uint32Array(await download(query.buffer, 0, 4 * rows * outputs)));
        }
        for (const other of bits) expect(other).toEqual(bits[0]);
        expect(bits[0]!.some((value) => value !== 0)).toBe(true);
        const least = encodes.map(() => Number.POSITIVE_INFINITY);
        for (let turn = 0; turn < TURNS; turn++) {
          for (const [i, encode] of encodes.entries()) {
            const { cpuSeconds } = await measureLaunch(encode, { rounds: 1 });
            least[i] = Math.min(least[i]!, cpuSeconds);
          }
        }
        const times = least.map((seconds) => (seconds * 1e6).toFixed(1));
        lines.push([`${dtype} ${shape}`, `${rows}`, ...times]);
      }
      destroy();
      recorder.destroy();
    }, 900_000);
  }
}

/** Every way to do the same, and where queries go. */
function waysOf(
  recorder: Recorder,
  { dtype, outputs, columns }: { dtype: WeightDtype; outputs: number; columns: number },
) {
  const random = seeded(1);
  const mostRows = Math.max(...ROWS);
  const layout = layoutFor(device);
  const packed = randomWeight({ ...layout, dtype, rows: outputs, columns }, random);
  const latent = Math.min(columns, 512);
  const latentOffset = paddedRows(columns, layout);
  const aStride = latentOffset + latent + ROPE;
  const tensors: Tensor[] = [];
  const keep = (data: ArrayBufferView) => {
    const tensor = whole(upload(data));
    tensors.push(tensor);
    return tensor;
  };
  const numbers = (count: number) => Float32Array.from({ length: count }, () => 0.5 + random());
  const weight = {
    ...{ ...layout, dtype, rows: outputs, columns },
    ...{ rowsPadded: paddedRows(outputs, layout), words: keep(packed.words) },
    ...(dtype === "fp8" && { scales: keep(packed.scales) }),
  };
  const entry = {
    a: keep(randomRows({ rows: mostRows, columns: aStride, stride: aStride }, random)),
    ...{ aStride, latentOffset, latent, ropeOffset: latentOffset + latent, rope: ROPE },
    rows: keep(Uint32Array.from({ length: 4 * mostRows }, (_, i) => Math.floor(i / 4))),
    ropeTable: keep(numbers(mostRows * ROPE)),
    cache: keep(new Float32Array(mostRows * (latent + ROPE))),
    ...{ cacheDtype: "bf16" as const, eps: 1e-6 },
  };
  const rounded = dtype === "fp8";
  const query = keep(new Float32Array(mostRows * outputs));
  const own = (count: number) => keep(numbers(count));
  const queryLatent = keep(new Float32Array(mostRows * columns));
  const queryWeight = numbers(columns);
  const norms = keep(Float32Array.of(...queryWeight, ...numbers(latent)));
  const write = mlaWrite(recorder, {
    ...{ ...entry, latentWeight: own(latent) },
    query: {
      ...{ offset: 0, width: columns, weight: keep(queryWeight) },
      ...{ out: queryLatent, outStride: columns, quantize: rounded },
    },
  });
  const project = linear(recorder, {
    ...{ x: queryLatent, xStride: columns, weight, out: query, outStride: outputs },
  });
  const one = (workgroup?: number) => {
    const { record } = mlaProject(recorder, {
      ...{ ...entry, weight, norms, latentNorm: columns, rounded, query, queryStride: outputs },
      ...(workgroup !== undefined && {
        forms: formsFor(layout.tuning ?? PLAIN_TUNING, dtype).map((form) => ({
          ...form,
          workgroup,
        })),
      }),
    });
    return record;
  };
  const ways: Way[] = [
    {
      name: "two launches",
      record: (rows) => {
        write(rows);
        project(rows);
      },
    },
    { name: "one launch", record: one() },
    ...WORKGROUPS.map((count) => ({ name: `one, ${count}`, record: one(count) })),
  ];
  const destroy = () => {
    for (const { buffer } of tensors) buffer.destroy();
  };
  return { ways, query, destroy };
}
