/**
 * The up-projection of MLA's latent (`kv_b_proj`) in the three forms that attention multiplies by.
 *
 * Per head the checkpoint's matrix has `nope` rows for keys, then `value` rows for values, over
 * `latent` columns. Prompt rows expand cached latents with all of it. Generated rows multiply their
 * query by the key part transposed and their result by the value part: the absorbed form.
 *
 * Source: DeepSeek-AI, "DeepSeek-V2" (2024), section 2.1.
 *
 * @module
 */

import type { LinearWeight } from "../../../kernels/linear/linear_layout.ts";
import { RowPacker } from "../../../kernels/linear/upload/row_packer.ts";
import {
  BLOCK_COLUMNS,
  WEIGHT_BYTES,
  type WeightDtype,
} from "../../../kernels/linear/weights/layout.ts";
import { runRows, scalePlace } from "../../../kernels/linear/weights/weight_order.ts";
import type { Destination, WeightSpec } from "../../checkpoint/weight_spec.ts";
import { type Dtype, decodeE4m3 } from "../../dtype.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { LayerContext } from "../layer_context.ts";
import { denseSpecs } from "../weights/dense_matrix.ts";
import { collectFloats } from "../weights/destinations.ts";
import { type MatrixFormat, plainFormat } from "../weights/matrix_format.ts";
import { allocateMatrix } from "../weights/matrix_place.ts";

export interface KeyValueUpShape {
  /** That this rank has. */
  readonly heads: number;
  readonly nope: number;
  readonly value: number;
  readonly latent: number;
}

/** One form: its place on the GPU and how a packed row of it is made. */
interface Form {
  readonly weight: LinearWeight;
  /** Row of the checkpoint's matrix, and column there when the form is transposed. */
  row(i: number): { readonly row: number; readonly column?: number };
}

export class KeyValueUp {
  /** `[heads * (nope + value), latent]`: the checkpoint's matrix. */
  readonly expanded: LinearWeight;
  /** `[heads * latent, nope]`: per head the key part transposed. */
  readonly keys: LinearWeight;
  /** `[heads * value, latent]`: per head the value part. */
  readonly values: LinearWeight;
  readonly specs: readonly WeightSpec[];
  readonly #shape: KeyValueUpShape;
  readonly #dtype: WeightDtype;
  readonly #memory: DeviceMemory;
  #blockScales = new Float32Array(0);

  /** @param options `name` is the tensor's without ".weight". */
  constructor(
    { memory, layout, formats }: LayerContext,
    options: KeyValueUpShape & { readonly name: string },
  ) {
    const { heads, nope, value, latent, name } = options;
    const rows = heads * (nope + value);
    const published = formats.published(name);
    const { encoding } = published;
    const blocks = encoding.kind === "scaled" && encoding.scales.per === "block";
    const kept = encoding.kind === "plain" || (blocks && published.dtype === "fp8");
    // Codes whose scales do not follow a transposition become the numbers they stand for.
    const format: MatrixFormat = kept ? published : formats.use(plainFormat("F32"));
    const allocate = (what: string, rows: number, columns: number, as: MatrixFormat) =>
      allocateMatrix(memory, `${name} ${what}`, { format: as, columns, parts: [rows], layout })
        .weight;
    this.#shape = options;
    this.#dtype = format.dtype;
    this.#memory = memory;
    this.expanded = allocate("expanded", rows, latent, format);
    this.values = allocate("values", heads * value, latent, format);
    // Transposed, 128 columns of a row need one common scale; else the exact products are kept.
    const exact = format.dtype === "fp8" && !scalesFollow(options);
    this.keys = allocate(
      "keys",
      heads * latent,
      nope,
      exact ? formats.use(plainFormat("F32")) : format,
    );
    this.specs = kept
      ? this.#specs(name, encoding.dtype)
      : denseSpecs({ name, rows, columns: latent, split: "heads", encoding }, (values) =>
          this.#upload(new Uint8Array(values.buffer)),
        );
  }

  #specs(name: string, dtype: Dtype): WeightSpec[] {
    const { heads, nope, value, latent } = this.#shape;
    const rows = heads * (nope + value);
    const weight: WeightSpec = {
      name: `${name}.weight`,
      shape: [rows, latent],
      dtypes: [dtype],
      split: "heads",
      destination: this.#collect(rows * latent * WEIGHT_BYTES[this.#dtype]),
    };
    const scale: WeightSpec = {
      name: `${name}.weight_scale_inv`,
      shape: [Math.ceil(rows / BLOCK_COLUMNS), Math.ceil(latent / BLOCK_COLUMNS)],
      dtypes: ["F32", "BF16"],
      split: "heads",
      destination: collectFloats((values) => {
        this.#blockScales = values;
      }),
    };
    return this.#dtype === "fp8" ? [scale, weight] : [weight];
  }

  #collect(byteLength: number): Destination {
    let bytes = new Uint8Array(0);
    let filled = 0;
    return {
      write: (chunk) => {
        if (chunk.rowStart === 0) {
          bytes = new Uint8Array(byteLength);
          filled = 0;
        }
        bytes.set(chunk.bytes, filled);
        filled += chunk.bytes.length;
      },
      finish: () => {
        this.#upload(bytes);
        bytes = new Uint8Array(0);
      },
    };
  }

  #upload(bytes: Uint8Array): void {
    const { nope, value, latent } = this.#shape;
    const head = nope + value;
    this.#pack(bytes, { weight: this.expanded, row: (i) => ({ row: i }) });
    this.#pack(bytes, {
      weight: this.values,
      row: (i) => ({ row: Math.floor(i / value) * head + nope + (i % value) }),
    });
    this.#pack(bytes, {
      weight: this.keys,
      row: (i) => ({ row: Math.floor(i / latent) * head, column: i % latent }),
    });
    this.#blockScales = new Float32Array(0);
  }

  #pack(bytes: Uint8Array, form: Form): void {
    const { weight } = form;
    const packer = new RowPacker(weight);
    // A few rows at a time: the packer's result is as large as what it is given.
    const step = Math.max(runRows(weight), Math.floor(2 ** 20 / weight.columns));
    for (let first = 0; first < weight.rows; first += step) {
      const count = Math.min(step, weight.rows - first);
      const rows = this.#rows(bytes, form, first, count);
      const run = packer.push(rows, count);
      if (run !== undefined) this.#memory.write(weight.words, run.byteOffset, run.words);
    }
    const rest = packer.finish();
    if (rest !== undefined) this.#memory.write(weight.words, rest.byteOffset, rest.words);
    if (weight.scales !== undefined) this.#memory.write(weight.scales, 0, this.#spread(form));
  }

  /** Row-major bytes of `count` rows of a form. */
  #rows(bytes: Uint8Array, { weight, row }: Form, first: number, count: number): Uint8Array {
    const { latent } = this.#shape;
    const { columns } = weight;
    const element = WEIGHT_BYTES[this.#dtype];
    const exact = weight.dtype !== this.#dtype;
    const out = new Uint8Array(count * columns * WEIGHT_BYTES[weight.dtype]);
    const floats = new Float32Array(out.buffer);
    for (let i = 0; i < count; i++) {
      const { row: source, column } = row(first + i);
      if (column === undefined) {
        const start = source * latent * element;
        out.set(bytes.subarray(start, start + columns * element), i * columns * element);
        continue;
      }
      for (let n = 0; n < columns; n++) {
        const at = (source + n) * latent + column;
        if (exact)
          floats[i * columns + n] = decodeE4m3(bytes[at]!) * this.#scale(source + n, column);
        else if (element === 1) out[i * columns + n] = bytes[at]!;
        else out.set(bytes.subarray(at * element, (at + 1) * element), (i * columns + n) * element);
      }
    }
    return out;
  }

  #spread({ weight, row }: Form): Float32Array<ArrayBuffer> {
    const blocks = Math.ceil(weight.columns / BLOCK_COLUMNS);
    const { rowsPadded } = weight;
    const place = scalePlace(weight, { rowsPadded, groups: blocks });
    const out = new Float32Array(blocks * rowsPadded);
    for (let block = 0; block < blocks; block++) {
      for (let i = 0; i < weight.rows; i++) {
        const { row: source, column } = row(i);
        const offset = block * BLOCK_COLUMNS;
        out[place(i, block)] =
          column === undefined ? this.#scale(source, offset) : this.#scale(source + offset, column);
      }
    }
    return out;
  }

  #scale(row: number, column: number): number {
    const columnBlocks = Math.ceil(this.#shape.latent / BLOCK_COLUMNS);
    const block =
      Math.floor(row / BLOCK_COLUMNS) * columnBlocks + Math.floor(column / BLOCK_COLUMNS);
    return this.#blockScales[block]!;
  }
}

/** Whether every 128 key rows of a head, counted from its first, lie in one row of scale blocks. */
function scalesFollow({ heads, nope, value }: KeyValueUpShape): boolean {
  for (let head = 0; head < heads; head++) {
    const first = head * (nope + value);
    for (let n = 0; n < nope; n += BLOCK_COLUMNS) {
      const last = first + Math.min(n + BLOCK_COLUMNS, nope) - 1;
      if (Math.floor((first + n) / BLOCK_COLUMNS) !== Math.floor(last / BLOCK_COLUMNS))
        return false;
    }
  }
  return true;
}
