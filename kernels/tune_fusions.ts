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
import { randomRows, randomWeight } from "./linear/checks/check_weights.ts";
import { linear } from "./linear/linear.ts";
import { linearBest } from "./linear/linear_best.ts";
import type { LinearWeight } from "./linear/linear_layout.ts";
import { residualLinear } from "./linear/residual_linear.ts";
import { layoutFor, segments } from "./linear/weights/layout.ts";
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

/** Two ways to the same bits. */
interface Fusion {
  /** Two launches. */
  readonly apart: Bind;
  /** One launch. */
  readonly together: Bind;
  /** What both write. */
  readonly outBytes: number;
}

/**
 * @param tuning How the launches are shared out.
 * @param milliseconds That each way is measured for, at least.
 */
export async function tuneFusions(
  device: GPUDevice,
  tuning: Tuning,
  milliseconds: number,
): Promise<Fusions> {
  const tensors = new TunedTensors(device, tuning);
  const pays = async ({ apart, together, outBytes }: Fusion) => {
    const timed: Timed[] = [];
    for (const bind of [apart, together]) {
      const out = tensors.allocate(outBytes);
      timed.push(await time(device, bind, { out, milliseconds }));
    }
    return isBetter(timed[0]!, timed[1]!);
  };
  try {
    const foldsNorms = await pays(normFusion(tensors));
    const findsBest = await pays(headFusion(tensors));
    return { foldsNorms, findsBest };
  } finally {
    tensors.destroy();
  }
}

/** What the launches read and write, until all are measured. */
class TunedTensors {
  readonly #device: GPUDevice;
  readonly #tuning: Tuning;
  readonly #owned: GPUBuffer[] = [];

  constructor(device: GPUDevice, tuning: Tuning) {
    this.#device = device;
    this.#tuning = tuning;
  }

  allocate(bytes: number): Tensor {
    const tensor = allocateTensor(this.#device, bytes, "tuned fusion");
    this.#owned.push(tensor.buffer);
    return tensor;
  }

  weight(size: { readonly rows: number; readonly columns: number }): LinearWeight {
    const shape = { ...layoutFor(this.#device, this.#tuning), ...size, dtype: "bf16" } as const;
    const { words } = randomWeight(shape, Math.random);
    return { ...shape, rowsPadded: size.rows, words: this.#upload(words) };
  }

  row(columns: number): Tensor {
    return this.#upload(randomRows({ rows: 1, columns, stride: columns }, Math.random));
  }

  destroy(): void {
    for (const buffer of this.#owned) buffer.destroy();
  }

  #upload(data: Float32Array | Uint32Array): Tensor {
    const tensor = this.allocate(data.byteLength);
    this.#device.queue.writeBuffer(tensor.buffer, 0, data as Uint32Array<ArrayBuffer>);
    return tensor;
  }
}

/** A projection onto the residual stream, and the norm behind it. */
function normFusion(tensors: TunedTensors): Fusion {
  const { rows: width, columns } = PROJECTION;
  const x = { x: tensors.row(columns), xStride: columns };
  const project = { ...x, weight: tensors.weight(PROJECTION), segments: segments(columns) };
  const weight = tensors.row(width);
  const output = tensors.allocate(width * 4);
  return {
    apart: (recorder, out) => {
      const { hidden, normed } = streamIn(out, width);
      const launch = linear(recorder, { ...project, out: output, outStride: width });
      const addend = { kind: "row", tensor: output } as const;
      const add = addNorm(recorder, { x: hidden, addend, weight, normed, cols: width, eps: EPS });
      return () => {
        launch(1);
        add(1);
      };
    },
    together: (recorder, out) => {
      const residual = { ...streamIn(out, width), stride: width, weight };
      const { record } = residualLinear(recorder, { ...project, residual });
      return () => record(1);
    },
    outBytes: (width + normedShape(width, false).stride) * 4,
  };
}

/** An output head, and the choice of its best logit. */
function headFusion(tensors: TunedTensors): Fusion {
  const { rows: vocabulary, columns } = HEAD;
  const row = { x: tensors.row(columns), xStride: columns, weight: tensors.weight(HEAD) };
  const logits = tensors.allocate(vocabulary * 4);
  return {
    apart: (recorder, ids) => {
      const head = linear(recorder, { ...row, out: logits, outStride: vocabulary });
      const choose = argmax(recorder, { logits, ids, vocabulary });
      return () => {
        head(1);
        choose(1);
      };
    },
    together: (recorder, ids) => {
      const stride = vocabulary / 2;
      const head = { ...row, outColumn: 0, tiles: logits, tileStride: stride };
      const launch = linearBest(recorder, head);
      const choose = bestTile(recorder, { tiles: logits, stride, ids });
      return () => choose(1, launch(1, 0));
    },
    outBytes: 4,
  };
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
