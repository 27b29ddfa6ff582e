/**
 * The tensors of a matrix in four bits, as AutoAWQ and GPTQ publish it.
 *
 * @module
 */
import {
  type ColumnSlice,
  checkGroupOrder,
  packColumnScales,
} from "../../../kernels/linear/weights/column_scales.ts";
import type { Destination, WeightSpec, WeightSplit } from "../../checkpoint/weight_spec.ts";
import type { Dtype } from "../../dtype.ts";
import { UnsupportedError } from "../../errors.ts";
import type { WeightUploads } from "../layer_context.ts";
import { collectBytes, collectFloats } from "./destinations.ts";
import type { MatrixEncoding } from "./matrix_format.ts";
import type { MatrixPlace } from "./matrix_place.ts";
import type { MatrixSource } from "./matrix_source.ts";
import { uploadDestination } from "./upload_route.ts";

type PackedEncoding = Extract<MatrixEncoding, { kind: "awq" | "gptq" }>;

/** Codes in a word. */
const PER_WORD = 8;

/** Scales and zero points first: `scales`, `qzeros`, `g_idx` of GPTQ, `qweight`. */
export function packedSpecs(
  place: MatrixPlace,
  part: number,
  source: MatrixSource,
  { encoding, uploads }: { readonly encoding: PackedEncoding; readonly uploads: WeightUploads },
): WeightSpec[] {
  const { kind, groupColumns } = encoding;
  const { columns, parts } = place.shape;
  const { name, split, sourceRow = 0, sourceColumn = 0, firstColumn = 0 } = source;
  const [sourceRows, sourceColumns] = source.shape ?? [parts[part]!, columns];
  checkPackedSizes(name, [sourceRows, sourceColumns], encoding);
  const groups = sourceColumns / groupColumns;
  const slice: ColumnSlice = {
    packing: kind,
    sourceRows,
    sourceColumns,
    sourceRow,
    rows: parts[part]!,
    sourceColumn,
    columns,
    firstRow: place.partRows[part]!,
  };
  const { takeScales, takeZeros } = zerosAndScales(place, slice, encoding);
  const spec = (tensor: string, shape: readonly number[], destination: Destination): WeightSpec => {
    const names = { name: `${name}.${tensor}`, shape, dtypes: ["I32"] } as const;
    return { ...names, split: transposedSplit(split), destination };
  };
  return [
    {
      ...spec("scales", [groups, sourceRows], withDtype(takeScales)),
      dtypes: ["F16", "BF16", "F32"],
    },
    spec("qzeros", [groups, sourceRows / PER_WORD], collectBytes(takeZeros)),
    ...(kind === "gptq"
      ? gptqSpecs(name, { split, groupColumns, columns: sourceColumns, firstColumn })
      : []),
    spec(
      "qweight",
      kind === "awq"
        ? [sourceColumns, sourceRows / PER_WORD]
        : [sourceColumns / PER_WORD, sourceRows],
      uploadDestination({ place, part, source, words: "columns", slice }, uploads),
    ),
  ];
}

/** Scale words are made of two tensors: of scales, which come first, and of zero points. */
function zerosAndScales(
  place: MatrixPlace,
  slice: ColumnSlice,
  { groupColumns, zeroOffset }: PackedEncoding,
) {
  let scales: { readonly bytes: Uint8Array; readonly dtype: Dtype } | undefined;
  return {
    takeScales(bytes: Uint8Array, dtype: Dtype): void {
      scales = { bytes, dtype };
    },
    takeZeros(qzeros: Uint8Array): void {
      const { bytes, dtype } = scales!;
      scales = undefined;
      const scalesDtype = dtype as "F16" | "BF16" | "F32";
      const { scalePlace } = place;
      place.writeScales((into) =>
        packColumnScales({
          ...slice,
          qzeros,
          scales: bytes,
          scalesDtype,
          groupColumns,
          zeroOffset,
          into,
          place: scalePlace,
        }),
      );
    },
  };
}

/** How the tensors of a matrix divide that run over its inputs first. */
export function transposedSplit(split: WeightSplit): WeightSplit {
  if (split === "rows" || split === "heads") return "columns";
  return split === "columns" ? "rows" : split;
}

/** A bias goes with its outputs. */
export function biasSplit(split: WeightSplit): WeightSplit {
  return split === "columns" ? "none" : split;
}

/** What GPTQ has beside the numbers: which group a column is in, in `g_idx`. */
export function gptqSpecs(
  name: string,
  matrix: { readonly columns: number } & Pick<MatrixSource, "split" | "firstColumn"> &
    Pick<PackedEncoding, "groupColumns">,
): WeightSpec[] {
  const { columns, split, groupColumns, firstColumn = 0 } = matrix;
  const check = (bytes: Uint8Array) =>
    checkGroupOrder(`${name}.g_idx`, bytes, { groupColumns, firstColumn });
  return [
    {
      name: `${name}.g_idx`,
      shape: [columns],
      dtypes: ["I32"],
      // One entry for each input.
      split: split === "experts" ? split : split === "columns" ? "rows" : "none",
      optional: true,
      destination: collectBytes(check),
    },
  ];
}

/** AutoGPTQ writes a bias of zeros for linears that have none. */
export function noBiasSpec(name: string, rows: number, split: WeightSplit): WeightSpec {
  return {
    name: `${name}.bias`,
    shape: [rows],
    dtypes: ["F32", "BF16", "F16"],
    split: biasSplit(split),
    optional: true,
    destination: collectFloats((values) => {
      const at = values.findIndex((value) => value !== 0);
      if (at < 0) return;
      const what = `${name}.bias that is not zero`;
      throw new UnsupportedError(what, `number ${at} is ${values[at]}, the model has no bias here`);
    }),
  };
}

/** @throws {UnsupportedError} when words or groups would be cut. */
export function checkPackedSizes(
  name: string,
  [rows, columns]: readonly [rows: number, columns: number],
  { kind, groupColumns }: PackedEncoding,
): void {
  // A group is whole words; zero points of both kinds are packed along the outputs.
  if (rows % PER_WORD === 0 && columns % groupColumns === 0) return;
  throw new UnsupportedError(
    `${name} of ${rows}x${columns} in ${kind} groups of ${groupColumns}`,
    "its sizes must be multiples of a word's codes and of the group",
  );
}

function withDtype(take: (bytes: Uint8Array<ArrayBuffer>, dtype: Dtype) => void): Destination {
  let dtype: Dtype = "F16";
  const whole = collectBytes((bytes) => take(bytes, dtype));
  return {
    write(chunk) {
      dtype = chunk.dtype;
      return whole.write(chunk);
    },
    finish: () => whole.finish?.(),
  };
}
