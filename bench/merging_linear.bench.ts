/**
 * Values of generated rows whose attention lies in splits: merged and multiplied in one launch, beside
 * the launches that it stands for, in turns in one process.
 *
 * @module
 */
import { afterAll, expect, test } from "vitest";
import { mergeSplits } from "../kernels/attention/merge_splits.ts";
import { outputsByColumns, randomWeight } from "../kernels/linear/checks/check_weights.ts";
import { linear } from "../kernels/linear/linear.ts";
import { mergingLinear } from "../kernels/linear/merging_linear.ts";
import { layoutFor } from "../kernels/linear/weights/layout.ts";
import { paddedRows } from "../kernels/linear/weights/weight_order.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { allocateTensor, whole } from "../src/gpu/tensor.ts";
import { device, download, seeded, upload } from "../test/support/devices/gpu.ts";
import { type CaughtLaunch, catchLaunches } from "./support/launch_profile.ts";
import { machine } from "./support/machine.ts";
import { table } from "./support/table.ts";
import { measureLaunch } from "./support/timing.ts";

const SPLIT_LENGTH = 256;
const ROUNDS = 5;
const numbers = (name: string, otherwise: readonly number[]) =>
  process.env[name]?.split(",").map(Number) ?? otherwise;
const ROWS = numbers("WISP_BENCH_ROWS", [1, 2, 4, 8, 16]);
const SPLITS = numbers("WISP_BENCH_SPLITS", [1, 2, 8, 16]);
const SHAPES = [
  { heads: 4, latent: 128, value: 32 },
  { heads: 16, latent: 256, value: 128 },
  { heads: 128, latent: 512, value: 128 },
] as const;

const lines: string[][] = [];
afterAll(() => {
  console.log(machine());
  console.log(
    table(["heads", "weights", "splits", "rows", "apart CPU us", "one CPU us", "of it"], lines),
  );
});

/** The least processor time of each, in microseconds. */
async function inTurns(ways: readonly (readonly CaughtLaunch[])[]): Promise<number[]> {
  const least = ways.map(() => Number.POSITIVE_INFINITY);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, launches] of ways.entries()) {
      const { cpuSeconds } = await measureLaunch(
        (pass) => {
          for (const { encode } of launches) encode(pass);
        },
        { rounds: 1 },
      );
      least[i] = Math.min(least[i]!, cpuSeconds * 1e6);
    }
  }
  return least;
}

for (const { heads, latent, value } of SHAPES) {
  for (const dtype of ["fp8", "bf16"] as const) {
    const shape = outputsByColumns({ dtype, outputs: heads * value, columns: latent });
    const roundOutputs = dtype === "fp8";
    const name = `${heads} heads, latents of ${latent}, ${value} values`;
    test(`${name}, ${dtype}`, async () => {
      const random = seeded(1);
      const { words, scales } = randomWeight(shape, random);
      const buffers = [upload(words), upload(scales)];
      const weight = {
        ...{ ...layoutFor(device), ...shape },
        rowsPadded: paddedRows(shape.rows, shape),
        ...{ words: whole(buffers[0]!), scales: whole(buffers[1]!) },
      };
      const allocate = (floats: number, label: string) =>
        allocateTensor(device, floats * 4, label, GPUBufferUsage.COPY_SRC);
      const most = Math.max(...ROWS);
      for (const splits of SPLITS) {
        const records = most * splits * heads;
        const partials = new Float32Array(records * (2 + latent)).map(() => random());
        const spread = [upload(partials)];
        const rows = upload(
          Uint32Array.from({ length: 4 * most }, (_, i) =>
            i % 4 === 1 ? splits * SPLIT_LENGTH - 1 - Math.floor(i / 4) : 0,
          ),
        );
        const merged = allocate(most * heads * latent, "merged");
        const outs = [allocate(most * shape.rows, "apart"), allocate(most * shape.rows, "one")];
        for (const count of ROWS) {
          const recorder = new Recorder(device, { maxLaunches: 64 });
          const common = {
            partials: whole(spread[0]!),
            rows: whole(rows),
            splitLength: SPLIT_LENGTH,
          };
          const merge = mergeSplits(recorder, {
            ...{ ...common, out: merged, outStride: heads * latent, heads, headDim: latent },
          });
          const values = linear(recorder, {
            ...{ x: merged, xStride: heads * latent, weight, out: outs[0]!, outStride: shape.rows },
            groups: { rows: value, xStride: latent },
            phase: "decode",
            roundOutputs,
          });
          const one = mergingLinear(recorder, {
            ...{ ...common, weight, groupRows: value, out: outs[1]!, outStride: shape.rows },
            roundOutputs,
          })!;
          await recorder.pipelines.ready();
          const record = (work: () => void) =>
            catchLaunches(recorder, async () => {
              work();
              recorder.submit();
            });
          const apart = await record(() => {
            // Attention itself finishes rows of one split.
            if (splits > 1) merge(count, splits);
            values(count);
          });
          const together = await record(() => one(count, splits));
          const [a, b] = await Promise.all(
            outs.map((out) => download(out.buffer, 0, count * shape.rows * 4)),
          );
          if (splits > 1) expect(new Uint32Array(b!)).toEqual(new Uint32Array(a!));
          const [before, after] = (await inTurns([apart, together])) as [number, number];
          const figures = [before, after].map((time) => time.toFixed(0));
          const share = `${((100 * after) / before).toFixed(0)} %`;
          lines.push([name, dtype, `${splits}`, `${count}`, ...figures, share]);
          recorder.destroy();
        }
        for (const { buffer } of [merged, ...outs]) buffer.destroy();
        for (const buffer of [...spread, rows]) buffer.destroy();
      }
      for (const buffer of buffers) buffer.destroy();
    }, 600_000);
  }
}
