/**
 * Experts as gpt-oss publishes them: all in one tensor, in MXFP4.
 *
 * `gate_up_proj_blocks` U8 `[experts, 2 * intermediate, hidden / 32, 16]` holds two codes to a byte,
 * the even column in the low half; `gate_up_proj_scales` U8 `[experts, 2 * intermediate, hidden / 32]`
 * the exponents; `gate_up_proj_bias` `[experts, 2 * intermediate]`. Even rows are gates, odd ones
 * ups. `down_proj_*` likewise, `[experts, hidden, intermediate / 32, 16]`.
 *
 * Source: OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card" (2025); OCP, "Microscaling Formats (MX)
 * Specification" (2023).
 *
 * @module
 */
import { BLOCK_COLUMNS } from "../../../kernels/linear/weights/layout.ts";
import type { Destination, WeightChunk, WeightSpec } from "../../checkpoint/weight_spec.ts";
import { UnsupportedError } from "../../errors.ts";
import { largestOf, smallestOf } from "../../extremes.ts";
import type { WeightUploads } from "../layer_context.ts";
import { toFloats } from "../weights/destinations.ts";
import type { MatrixFormat } from "../weights/matrix_format.ts";
import type { MatrixPlace } from "../weights/matrix_place.ts";
import { uploadDestination } from "../weights/upload_route.ts";
import type { ExpertMatrices } from "./expert_matrices.ts";

/** On the GPU; the tensors have a spelling of their own. */
export const MXFP4_FORMAT: MatrixFormat = {
  dtype: "mxfp4",
  encoding: { kind: "plain", dtype: "U8" },
};

/** Columns that share an exponent, and the bytes of their codes. */
const GROUP_COLUMNS = 32;
const GROUP_BYTES = 16;
const EXPONENTS_PER_WORD = BLOCK_COLUMNS / GROUP_COLUMNS;

/** Which of the experts of a stacked tensor a rank has. */
export interface StackedExperts {
  readonly total: number;
  /** The places that each of them has. */
  readonly slotsOf: ReadonlyMap<number, readonly number[]>;
}

/** @param name "model.layers.0.mlp.experts" */
export function mxfp4Specs(
  name: string,
  stacked: StackedExperts,
  {
    uploads = {},
    ...matrices
  }: Readonly<Record<"gateUp" | "down", Pick<ExpertMatrices, "places">>> & {
    readonly uploads?: WeightUploads | undefined;
  },
): WeightSpec[] {
  return [
    ...stack(`${name}.gate_up_proj`, stacked, matrices.gateUp.places, uploads),
    ...stack(`${name}.down_proj`, stacked, matrices.down.places, uploads),
  ];
}

function stack(
  name: string,
  { total, slotsOf }: StackedExperts,
  places: ReadonlyMap<number, MatrixPlace>,
  uploads: WeightUploads,
): WeightSpec[] {
  const [place] = places.values();
  const { columns, parts } = place!.shape;
  const [first, last] = [smallestOf(slotsOf.keys()), largestOf(slotsOf.keys())];
  const rows = parts.reduce((sum, part) => sum + part, 0);
  if (columns % GROUP_COLUMNS !== 0) {
    throw new UnsupportedError(
      `${name} of ${columns} columns in MXFP4`,
      `they must be a multiple of ${GROUP_COLUMNS}`,
    );
  }
  const groups = columns / GROUP_COLUMNS;
  const spec = (
    suffix: string,
    shape: number[],
    write: (expert: WeightChunk, place: MatrixPlace) => void | Promise<void>,
  ) => ({
    name: `${name}_${suffix}`,
    shape: [total, rows, ...shape],
    split: "experts" as const,
    slice: { rowStart: first, rows: last + 1 - first },
    destination: byExpert(async (expert, e) => {
      for (const slot of slotsOf.get(first + e) ?? []) {
        // What takes the bytes may keep them.
        await write({ ...expert, bytes: expert.bytes.slice() }, places.get(slot)!);
      }
    }),
  });
  return [
    {
      ...spec("scales", [groups], ({ bytes }, place) => writeExponents(place, bytes, groups)),
      dtypes: ["U8"],
    },
    {
      ...spec("blocks", [groups, GROUP_BYTES], ({ bytes, dtype }, place) =>
        writeCodes(place, { name, bytes, dtype }, uploads),
      ),
      dtypes: ["U8"],
    },
    {
      ...spec("bias", [], (chunk, place) => writeBiases(place, chunk)),
      dtypes: ["BF16", "F16", "F32"],
    },
  ];
}

/** A row of a stacked tensor is a whole expert. */
function byExpert(write: (expert: WeightChunk, e: number) => void | Promise<void>): Destination {
  return {
    async write(chunk) {
      const each = chunk.bytes.length / chunk.rows;
      for (let i = 0; i < chunk.rows; i++) {
        const bytes = chunk.bytes.subarray(i * each, (i + 1) * each);
        await write({ ...chunk, bytes, rows: 1 }, chunk.rowStart + i);
      }
    },
  };
}

/** Row r of part p is row `r * parts + p` of the checkpoint. */
async function writeCodes(
  place: MatrixPlace,
  { name, bytes, dtype }: Pick<WeightChunk, "bytes" | "dtype"> & { readonly name: string },
  uploads: WeightUploads,
): Promise<void> {
  const { columns, parts } = place.shape;
  const rowBytes = (columns / GROUP_COLUMNS) * GROUP_BYTES;
  for (const [part, rows] of parts.entries()) {
    const own = everyOther(bytes, rowBytes, part, parts.length);
    const matrix = { place, part, source: { name }, words: "rows" } as const;
    const destination = uploadDestination(matrix, uploads);
    await destination.write({ dtype, bytes: own, rowStart: 0, rows });
    await destination.finish?.();
  }
}

function everyOther(
  bytes: Uint8Array<ArrayBuffer>,
  rowBytes: number,
  first: number,
  step: number,
): Uint8Array<ArrayBuffer> {
  if (step === 1) return bytes;
  const rows = bytes.length / rowBytes / step;
  const picked = new Uint8Array(rows * rowBytes);
  for (let r = 0; r < rows; r++) {
    const from = (r * step + first) * rowBytes;
    picked.set(bytes.subarray(from, from + rowBytes), r * rowBytes);
  }
  return picked;
}

function writeExponents(place: MatrixPlace, bytes: Uint8Array, groups: number): void {
  const { parts } = place.shape;
  parts.forEach((rows, part) => {
    place.writeScales((words) => {
      for (let r = 0; r < rows; r++) {
        const from = (r * parts.length + part) * groups;
        for (let g = 0; g < groups; g++) {
          const block = Math.floor(g / EXPONENTS_PER_WORD);
          const shift = 8 * (g % EXPONENTS_PER_WORD);
          words[place.scalePlace(place.partRows[part]! + r, block)]! |= bytes[from + g]! << shift;
        }
      }
    });
  });
}

function writeBiases(place: MatrixPlace, chunk: WeightChunk): void {
  const { parts } = place.shape;
  const values = toFloats(chunk);
  parts.forEach((rows, part) => {
    const own = Float32Array.from({ length: rows }, (_, r) => values[r * parts.length + part]!);
    place.writeBias(part, own);
  });
}
