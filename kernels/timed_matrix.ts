/**
 * A random weight matrix on the GPU, and how long a linear layer over it takes in any form.
 *
 * @module
 */
import { Readback } from "../src/gpu/readback.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { allocateTensor, type Tensor } from "../src/gpu/tensor.ts";
import { PLAIN_TUNING, type RowForm, TUNING_CHOICES } from "../src/gpu/tuning.ts";
import { randomRows, randomWeight } from "./linear/checks/check_weights.ts";
import { linear } from "./linear/linear.ts";
import type { LinearWeight } from "./linear/linear_layout.ts";
import { type GroupColumns, layoutFor, type WeightDtype } from "./linear/weights/layout.ts";
import { orderOf, paddedRows, type WeightOrder } from "./linear/weights/weight_order.ts";
import { leastSeconds } from "./timed_launches.ts";

/** Activation rows whose bits are compared: as many as the largest form takes together. */
const ROWS = Math.max(...TUNING_CHOICES.stagedTokens);
/** Rows of a prompt, which staged forms are for: one tile of them leaves most of a GPU idle. */
const PROMPT_ROWS = 256;
/** An adapter that takes longer for a prompt's rows is busy with one tile of them. */
const MOST_PROMPT_SECONDS = 0.25;
const MOST_WEIGHTS = 2 ** 24;
/** Copies of a matrix are read in turns, so that no cache holds them all. */
const WEIGHT_BYTES = 96 * 2 ** 20;
const MOST_COPIES = 8;

/** A weight matrix to tune for; of a very large one, some of its rows. */
export interface TunedMatrix {
  readonly dtype: WeightDtype;
  /** Outputs. */
  readonly rows: number;
  /** Inputs. */
  readonly columns: number;
}

export interface TimedMatrixOptions extends TunedMatrix, WeightOrder {
  readonly groupColumns?: GroupColumns;
  /** Default 60. */
  readonly milliseconds?: number;
}

export class TimedMatrix {
  readonly weights: number;
  readonly #device: GPUDevice;
  readonly #copies: readonly LinearWeight[];
  readonly #columns: number;
  readonly #x: Tensor;
  readonly #out: Tensor;
  readonly #milliseconds: number;
  /** What the plain form makes of the rows. */
  #want = new Uint32Array();

  private constructor(
    device: GPUDevice,
    parts: { copies: readonly LinearWeight[]; x: Tensor; milliseconds: number },
  ) {
    const { rows, columns } = parts.copies[0]!;
    this.weights = rows * columns;
    this.#device = device;
    this.#copies = parts.copies;
    this.#columns = columns;
    this.#x = parts.x;
    this.#out = allocateTensor(device, PROMPT_ROWS * rows * 4, "tuned output");
    this.#milliseconds = parts.milliseconds;
  }

  /** @param options Of more than 2^24 weights, the first rows. */
  static async create(device: GPUDevice, options: TimedMatrixOptions): Promise<TimedMatrix> {
    const { dtype, columns, lanes, groupColumns, milliseconds = 60 } = options;
    const rows = Math.max(Math.min(options.rows, Math.floor(MOST_WEIGHTS / columns)), 1);
    const own = { dtype, rows, columns, ...(groupColumns && { groupColumns }) };
    const shape = { ...orderOf(options), ...own };
    const random = Math.random;
    const packed = randomWeight(shape, random);
    const upload = (data: Uint32Array | Float32Array, label: string) => {
      const tensor = allocateTensor(device, data.byteLength, label);
      device.queue.writeBuffer(tensor.buffer, 0, data as Uint32Array<ArrayBuffer>);
      return tensor;
    };
    const count = Math.min(Math.ceil(WEIGHT_BYTES / packed.words.byteLength), MOST_COPIES);
    const scales = upload(packed.scales, "tuned scales");
    const { subgroupSize } = layoutFor(device);
    const copies = Array.from({ length: count }, () => ({
      ...shape,
      ...(subgroupSize !== undefined && { subgroupSize }),
      rowsPadded: paddedRows(rows, shape),
      words: upload(packed.words, "tuned weights"),
      scales,
    }));
    const stride = Math.ceil(columns / 4) * 4;
    const x = upload(randomRows({ rows: PROMPT_ROWS, columns, stride }, random), "tuned input");
    const matrix = new TimedMatrix(device, { copies, x, milliseconds });
    const plain = PLAIN_TUNING.rowForms.at(-1);
    const { subgroupSize: _, ...alone } = copies[0]!;
    matrix.#want = await matrix.#run(alone, { ...plain!, workgroup: lanes }, ROWS);
    return matrix;
  }

  /**
   * Seconds of a launch over `form.tokens` rows, of a staged form what they take among those of a
   * prompt; infinite where the form gives other bits.
   */
  async seconds(form: RowForm): Promise<number> {
    const got = await this.#run(this.#copies[0]!, form, form.tokens);
    const written = got.subarray(0, form.tokens * (this.#want.length / ROWS));
    if (written.some((bits, i) => bits !== this.#want[i])) return Number.POSITIVE_INFINITY;
    const recorder = new Recorder(this.#device, { maxLaunches: MOST_COPIES });
    try {
      const launches = this.#copies.map((weight) => this.#bind(recorder, weight, form));
      await recorder.pipelines.ready();
      const over = (rows: number) => {
        const launch = (i: number) => launches[i % launches.length]!(rows);
        return leastSeconds(recorder, launch, this.#milliseconds);
      };
      const alone = await over(form.tokens);
      const passes = PROMPT_ROWS / form.tokens;
      if (form.staged !== true || alone * passes > MOST_PROMPT_SECONDS) return alone;
      return (await over(PROMPT_ROWS)) / passes;
    } finally {
      recorder.destroy();
    }
  }

  destroy(): void {
    const [{ scales } = {}] = this.#copies;
    const tensors = [...this.#copies.map(({ words }) => words), scales, this.#x, this.#out];
    for (const tensor of tensors) tensor?.buffer.destroy();
  }

  #bind(recorder: Recorder, weight: LinearWeight, form: RowForm): (rows: number) => void {
    const xStride = Math.ceil(this.#columns / 4) * 4;
    const outStride = weight.rows;
    return linear(recorder, {
      x: this.#x,
      xStride,
      weight,
      out: this.#out,
      outStride,
      forms: [form],
    });
  }

  /** The bits of all rows, those that were not computed NaN. */
  async #run(weight: LinearWeight, form: RowForm, rows: number): Promise<Uint32Array<ArrayBuffer>> {
    const { size } = this.#out;
    const device = this.#device;
    const recorder = new Recorder(device, { maxLaunches: 1 });
    const readback = new Readback(device, size, 1);
    try {
      const launch = this.#bind(recorder, weight, form);
      await recorder.pipelines.ready();
      device.queue.writeBuffer(this.#out.buffer, 0, new Float32Array(size / 4).fill(Number.NaN));
      launch(rows);
      const read = readback.record(recorder, this.#out, ROWS * weight.rows * 4);
      recorder.submit();
      return new Uint32Array(await read());
    } finally {
      readback.destroy();
      recorder.destroy();
    }
  }
}
