/**
 * The way of a matrix's words from a checkpoint into their place: which it is, and where it begins.
 *
 * @module
 */
import type { ColumnSlice } from "../../../kernels/linear/weights/column_scales.ts";
import type { Destination } from "../../checkpoint/weight_spec.ts";
import type { WeightUploads } from "../layer_context.ts";
import { packRows } from "./host_rows.ts";
import type { MatrixPlace } from "./matrix_place.ts";
import type { RowSlice } from "./staged_rows.ts";

/**
 * | route | how the words are put in order |
 * |---|---|
 * | `host` | by the host, which writes them into their place |
 * | `gpu` | by a kernel, from a staging tensor |
 * | `quantize` | by a kernel that quantizes numbers, from a staging tensor |
 * | `check only` | not at all: the checkpoint's tensors are looked at and never loaded |
 */
export type UploadRoute = "host" | "gpu" | "quantize" | "check only";

/** What a checkpoint has of a part of a place. */
export type UploadedMatrix = {
  readonly place: MatrixPlace;
  readonly part: number;
  /** Matrices of the same name are reported as one. */
  readonly source: RowSlice & { readonly name: string };
} & (
  | {
      /** Words of the place's dtype, or numbers to be quantized to it; an output a row. */
      readonly words: "rows" | "numbers";
    }
  | {
      /** Words of several outputs or inputs, an input or several a row. */
      readonly words: "columns";
      readonly slice: ColumnSlice;
    }
);

/** Which way words take; the host can do what kernels need not, but for words in columns and numbers. */
export function uploadRoute(
  words: UploadedMatrix["words"],
  uploads: {
    /** Whether a kernel puts rows of such a place in order. */
    readonly takesRows: boolean;
    readonly takesColumns: boolean;
    readonly quantizes: boolean;
  },
): UploadRoute {
  switch (words) {
    case "rows":
      return uploads.takesRows ? "gpu" : "host";
    case "columns":
      return uploads.takesColumns ? "gpu" : "check only";
    case "numbers":
      return uploads.quantizes ? "quantize" : "check only";
    default:
      return words satisfies never;
  }
}

const DESTINATIONS: Readonly<
  Record<UploadRoute, (matrix: UploadedMatrix, uploads: WeightUploads) => Destination>
> = {
  host: ({ place, part, source }) => packRows(place, part, source),
  gpu: (matrix, { repacking }) => {
    const { place, part, source } = matrix;
    return matrix.words === "columns"
      ? repacking!.columns(place, part, { name: source.name, ...matrix.slice })
      : repacking!.rows(place, part, source);
  },
  quantize: ({ place, part, source }, { quantizing }) =>
    quantizing!.destination({ place, part, source }),
  "check only": ({ source }) => ({
    write() {
      throw new Error(`Cannot load ${source.name}: the model was made to check a checkpoint only`);
    },
  }),
};

/** @param uploads Without them specs are only good for checking a checkpoint, but for those of the host. */
export function uploadDestination(matrix: UploadedMatrix, uploads: WeightUploads): Destination {
  const { repacking, quantizing } = uploads;
  const route = uploadRoute(matrix.words, {
    takesRows: repacking?.takesRows(matrix.place) ?? false,
    takesColumns: repacking !== undefined,
    quantizes: quantizing !== undefined,
  });
  return DESTINATIONS[route](matrix, uploads);
}
