/**
 * Linear layers of every weight dtype, at one row and at many, with each number of rows an
 * invocation may take: the figures that the table of tunings rests on.
 *
 * The forms of one matrix take turns, and the least processor time of each counts: on an adapter
 * that is the CPU, it is what other load changes least. "int8 codes" are int8 weights that meet
 * activations as codes (numeric class int8). `WISP_BENCH_DTYPES`, `WISP_BENCH_ROWS` and
 * `WISP_BENCH_TOKENS` are lists that narrow the choice; 16, 32 and 64 tokens are staged forms of 64
 * outputs a workgroup.
 *
 * `WISP_BENCH_ORDERS=all` compares the orders that the words of weights may have instead (rows per
 * lane, and whether scales lie by groups or by runs), each launched as the adapter's own tuning says.
 *
 * @module
 */
import { afterAll, expect, test } from "vitest";
import {
  checkOrder,
  randomRows,
  randomWeight,
  reorderWeight,
} from "../kernels/linear/checks/check_weights.ts";
import { linear } from "../kernels/linear/linear.ts";
import { layoutFor, scaleWords, type WeightDtype } from "../kernels/linear/weights/layout.ts";
import { paddedRows } from "../kernels/linear/weights/weight_order.ts";
import { codedStride, quantizeCodes } from "../kernels/norm/quantize_codes.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { type Tensor, whole } from "../src/gpu/tensor.ts";
import { type RowForm, STAGED_TOKENS, TUNING_CHOICES } from "../src/gpu/tuning.ts";
import { device, download, seeded, upload } from "../test/support/devices/gpu.ts";
import { catchLaunches } from "./support/launch_profile.ts";
import { machine } from "./support/machine.ts";
import { table } from "./support/table.ts";
import { type LaunchTime, measureLaunch } from "./support/timing.ts";

const list = (name: string, fallback: readonly string[]) =>
  process.env[name]?.split(",") ?? fallback;
const CODES = "int8 codes";
const KINDS = list("WISP_BENCH_DTYPES", ["bf16", "fp8", "int8", CODES, "int4", "mxfp4"]);
const ROWS = list("WISP_BENCH_ROWS", ["1", "2", "4", "8", "16", "64", "256"]).map(Number);
const TOKENS = list("WISP_BENCH_TOKENS", ["1", "2", "4", "8"]).map(Number);
/** Invocations with weight rows of their own in staged forms. */
const STAGED_ROW_LANES = 16;
/** Outputs and inputs. */
const SHAPES = list("WISP_BENCH_SHAPES", ["2048x2048"]).map((shape) =>
  shape.split("x").map(Number),
);
const CORES = 2;
const ASKED_ORDERS = process.env.WISP_BENCH_ORDERS;
if (ASKED_ORDERS !== undefined && ASKED_ORDERS !== "all") {
  throw new Error(`WISP_BENCH_ORDERS must be all, got ${ASKED_ORDERS}`);
}
const ORDERS =
  ASKED_ORDERS === "all"
    ? TUNING_CHOICES.scaleOrder.flatMap((scaleOrder) =>
        TUNING_CHOICES.rowsPerLane.map((rowsPerLane) => ({ rowsPerLane, scaleOrder })),
      )
    : [];
const TURNS = ORDERS.length === 0 ? 4 : 10;
const COLUMNS =
  ORDERS.length > 0
    ? ORDERS.map(({ rowsPerLane, scaleOrder }) => `${rowsPerLane} ${scaleOrder}`)
    : TOKENS.map(formName);

const lines: string[][] = [];

afterAll(() => {
  console.log(
    `${machine()}\nG weights/s at one row, GFLOP/s at more, by processor time on two cores`,
  );
  console.log(table(["weights", "rows", ...COLUMNS], lines));
});

for (const [outputs = 0, columns = 0] of SHAPES) {
  for (const kind of KINDS) {
    test(`${kind} ${outputs}x${columns}`, async () => {
      const coded = kind === CODES;
      const dtype = coded ? "int8" : (kind as WeightDtype);
      const layout = layoutFor(device);
      const plainOrder = checkOrder(layout);
      const orders =
        ORDERS.length > 0 ? ORDERS.map((order) => ({ ...plainOrder, ...order })) : [plainOrder];
      const shape = { ...layout, ...plainOrder, dtype, rows: outputs, columns };
      const random = seeded(1);
      const packed = randomWeight(shape, random);
      const mostRows = Math.max(...ROWS);
      const plain = whole(upload(randomRows({ rows: mostRows, columns, stride: columns }, random)));
      const x = coded ? await codesOf(plain, mostRows, columns) : plain;
      const xStride = coded ? codedStride(columns) : columns;
      const weights = orders.map((order) => {
        const made = reorderWeight(shape, order, packed);
        const [words, scales] = [made.words, made.scales].map((data) => whole(upload(data)));
        return {
          ...{ ...shape, ...order, rowsPadded: paddedRows(outputs, order), words: words! },
          ...(scaleWords(shape) > 0 && { scales: scales! }),
        };
      });
      for (const rows of ROWS) {
        const recorder = new Recorder(device, { maxLaunches: 64 });
        const out = whole(upload(new Float32Array(rows * outputs)));
        const tokens = TOKENS.filter((count) => count <= rows && !(coded && isStaged(count)));
        const runs = ORDERS.length > 0 ? COLUMNS : tokens.map(formName);
        const forms = runs.map((_, i) =>
          linear(recorder, {
            ...{ x, xStride, coded, weight: weights[i] ?? weights[0]!, out, outStride: outputs },
            ...(ORDERS.length === 0 && { forms: [formFor(tokens[i]!)] }),
          }),
        );
        await recorder.pipelines.ready();
        const bits: ArrayBuffer[] = [];
        const encodes: ((pass: GPUComputePassEncoder) => void)[] = [];
        for (const launch of forms) {
          device.queue.writeBuffer(out.buffer, 0, new Float32Array(rows * outputs));
          const [caught] = await catchLaunches(recorder, async () => {
            launch(rows);
            recorder.submit();
          });
          bits.push(await download(out.buffer));
          encodes.push(caught!.encode);
        }
        for (const other of bits) {
          expect(new Uint32Array(other)).toEqual(new Uint32Array(bits[0]!));
          expect(new Float32Array(other).some((value) => value !== 0)).toBe(true);
        }
        const least: LaunchTime[] = [];
        for (let turn = 0; turn < TURNS; turn++) {
          for (const [i, encode] of encodes.entries()) {
            const time = await measureLaunch(encode, { rounds: 1 });
            if (!(time.cpuSeconds >= (least[i]?.cpuSeconds ?? Infinity))) least[i] = time;
          }
        }
        const work = rows === 1 ? outputs * columns : 2 * rows * outputs * columns;
        const rates = COLUMNS.map((name) => {
          const time = least[runs.indexOf(name)];
          return time === undefined ? "" : ((work * CORES) / time.cpuSeconds / 1e9).toPrecision(3);
        });
        lines.push([`${kind} ${outputs}x${columns}`, `${rows}`, ...rates]);
        recorder.destroy();
        out.buffer.destroy();
      }
      const tensors = weights.flatMap(({ words, scales }) => [words, ...(scales ? [scales] : [])]);
      for (const { buffer } of [...tensors, plain, x]) buffer.destroy();
    }, 600_000);
  }
}

function isStaged(tokens: number): boolean {
  return TUNING_CHOICES.stagedTokens.some((count) => count === tokens);
}

function formName(tokens: number): string {
  return isStaged(tokens) ? `${tokens} staged` : `${tokens} a lane`;
}

function formFor(tokens: number): RowForm {
  if (!isStaged(tokens)) return { tokens, split: 1, workgroup: 8, cost: 1 };
  const workgroup = (STAGED_ROW_LANES * tokens) / STAGED_TOKENS;
  return { tokens, split: 1, workgroup, staged: true, cost: 1 };
}

/** The codes of rows of numbers. */
async function codesOf(x: Tensor, rows: number, columns: number): Promise<Tensor> {
  const out = whole(upload(new Float32Array(rows * codedStride(columns))));
  const recorder = new Recorder(device);
  const launch = quantizeCodes(recorder, { x, cols: columns, stride: columns, out, group: "row" });
  await recorder.pipelines.ready();
  launch(rows);
  recorder.submit();
  await device.queue.onSubmittedWorkDone();
  recorder.destroy();
  return out;
}
