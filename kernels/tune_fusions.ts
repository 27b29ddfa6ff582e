/**
 * Finds out which neighbouring launches take less time as one on an adapter.
 *
 * Fewer launches do work again, or leave less of the adapter idle: which counts for more, only
 * measuring tells. Both ways have the same bits, or the one launch is not taken.
 *
 * @module
 */
import { Readback } from "../src/gpu/readback.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { allocateTensor, type Tensor } from "../src/gpu/tensor.ts";
import type { Tuning } from "../src/gpu/tuning.ts";
import { randomRows, randomWeight } from "./linear/check_weights.ts";
import { type LinearWeight, layoutFor, segments } from "./linear/layout.ts";
import { linear } from "./linear/linear.ts";
import { linearBest } from "./linear/linear_best.ts";
import { residualLinear } from "./linear/residual_linear.ts";
import { addNorm } from "./norm/add_norm.ts";
import { normedShape } from "./norm/normed_rows.ts";
import { argmax } from "./sampling/argmax.ts";
import { bestTile } from "./sampling/best_tile.ts";
import { leastSeconds } from "./timed_launches.ts";

export type Fusions = Required<Pick<Tuning, "foldsNorms" | "findsBest">>;

/** One launch must be faster than two by this much: less is noise. */
const CLEARLY = 0.95;
const EPS = 1e-6;
/** A projection onto the residual stream, and a small vocabulary. */
const PROJECTION = { rows: 2048, columns: 1024 } as const;
const HEAD = { rows: 8192, columns: 1024 } as const;

/** Binds launches over one row that end in `out`; the returned function records them. */
type Bind = (recorder: Recorder, out: Tensor) => () => void;

/**
 * @param tuning How the launches are shared out.
 * @param milliseconds That each way is measured for, at least.
 */
export async function tuneFusions(
  device: GPUDevice,
  tuning: Tuning,
  milliseconds: number,
): Promise<Fusions> {
  const owned: GPUBuffer[] = [];
  const allocate = (bytes: number) => {
    const tensor = allocateTensor(device, bytes, "tuned fusion");
    owned.push(tensor.buffer);
    return tensor;
  };
  const upload = (data: Float32Array | Uint32Array) => {
    const tensor = allocate(data.byteLength);
    device.queue.writeBuffer(tensor.buffer, 0, data as Uint32Array<ArrayBuffer>);
    return tensor;
  };
  const weightOf = (size: { readonly rows: number; readonly columns: number }): LinearWeight => {
    const shape = { ...layoutFor(device, tuning), ...size, dtype: "bf16" } as const;
    const { words } = randomWeight(shape, Math.random);
    return { ...shape, rowsPadded: size.rows, words: upload(words) };
  };
  const rowOf = (columns: number) =>
    upload(randomRows({ rows: 1, columns, stride: columns }, Math.random));
  const pays = async (apart: Bind, together: Bind, outBytes: number) => {
    const timed: Timed[] = [];
    for (const bind of [apart, together]) {
      timed.push(await time(device, bind, { out: allocate(outBytes), milliseconds }));
    }
    return isBetter(timed[0]!, timed[1]!);
  };
  try {
    const { rows: width, columns } = PROJECTION;
    const x = { x: rowOf(columns), xStride: columns };
    const project = { ...x, weight: weightOf(PROJECTION), segments: segments(columns) };
    const weight = rowOf(width);
    const output = allocate(width * 4);
    const foldsNorms = await pays(
      (recorder, out) => {
        const { hidden, normed } = streamIn(out, width);
        const launch = linear(recorder, { ...project, out: output, outStride: width });
        const addend = { kind: "row", tensor: output } as const;
        const add = addNorm(recorder, { x: hidden, addend, weight, normed, cols: width, eps: EPS });
        return () => {
          launch(1);
          add(1);
        };
      },
      (recorder, out) => {
        const residual = { ...streamIn(out, width), stride: width, weight };
        const { record } = residualLinear(recorder, { ...project, residual });
        return () => record(1);
      },
      (width + normedShape(width, false).stride) * 4,
    );

    const { rows: vocabulary } = HEAD;
    const row = { x: rowOf(HEAD.columns), xStride: HEAD.columns, weight: weightOf(HEAD) };
    const logits = allocate(vocabulary * 4);
    const findsBest = await pays(
      (recorder, ids) => {
        const head = linear(recorder, { ...row, out: logits, outStride: vocabulary });
        const choose = argmax(recorder, { logits, ids, vocabulary });
        return () => {
          head(1);
          choose(1);
        };
      },
      (recorder, ids) => {
        const stride = vocabulary / 2;
        const head = { ...row, outColumn: 0, tiles: logits, tileStride: stride };
        const launch = linearBest(recorder, head);
        const choose = bestTile(recorder, { tiles: logits, stride, ids });
        return () => choose(1, launch(1, 0));
      },
      4,
    );
    return { foldsNorms, findsBest };
  } finally {
    for (const buffer of owned) buffer.destroy();
  }
}

/** A row of the residual stream, and behind it what the next norm makes of it. */
function streamIn({ buffer, offset, size }: Tensor, width: number) {
  const bytes = width * 4;
  const tensor = { buffer, offset: offset + bytes, size: size - bytes };
  return {
    hidden: { buffer, offset, size: bytes },
    normed: { ...normedShape(width, false), tensor },
  };
}

/** How long launches take, and the bits they leave. */
export interface Timed {
  readonly seconds: number;
  readonly bits: Uint32Array;
}

/** Whether one launch is to be taken in place of two. */
export function isBetter(two: Timed, one: Timed): boolean {
  const alike = two.bits.every((word, i) => word === one.bits[i]);
  return alike && one.seconds < CLEARLY * two.seconds;
}

async function time(
  device: GPUDevice,
  bind: Bind,
  { out, milliseconds }: { readonly out: Tensor; readonly milliseconds: number },
): Promise<Timed> {
  const recorder = new Recorder(device, { maxLaunches: 64 });
  const readback = new Readback(device, out.size, 1);
  try {
    const record = bind(recorder, out);
    await recorder.pipelines.ready();
    record();
    const read = readback.record(recorder, out, out.size);
    recorder.submit();
    const bits = new Uint32Array(await read()).slice();
    return { bits, seconds: await leastSeconds(recorder, record, milliseconds) };
  } finally {
    readback.destroy();
    recorder.destroy();
  }
}
