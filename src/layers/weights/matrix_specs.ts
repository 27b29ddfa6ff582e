/**
 * The tensors of a checkpoint that one matrix is made of, and their way to its place on the GPU.
 *
 * @module
 */

import { spreadScales } from "../../../kernels/linear/upload/row_packer.ts";
import { BLOCK_COLUMNS } from "../../../kernels/linear/weights/layout.ts";
import type { WeightSpec, WeightSplit } from "../../checkpoint/weight_spec.ts";
import type { WeightUploads } from "../layer_context.ts";
import { collectFloats } from "./destinations.ts";
import { isPlain, type MatrixEncoding } from "./matrix_format.ts";
import type { MatrixPlace } from "./matrix_place.ts";
import type { MatrixSource } from "./matrix_source.ts";
import { biasSplit, noBiasSpec, packedSpecs } from "./packed_specs.ts";
import { uploadDestination } from "./upload_route.ts";

/**
 * What the checkpoint must hold for one part of a place: scales before the codes they belong to.
 *
 * @param uploads Without them specs are only good for checking a checkpoint, but for those of rows that
 * are kept as they come.
 */
export function matrixSpecs(
  place: MatrixPlace,
  part: number,
  source: MatrixSource,
  uploads: WeightUploads = {},
): WeightSpec[] {
  const { format, bias } = place.shape;
  const { encoding = format.encoding } = source;
  const specs =
    encoding.kind === "plain" || encoding.kind === "scaled"
      ? weightSpecs(place, part, source, encoding, uploads)
      : packedSpecs(place, part, source, { encoding, uploads });
  if (bias) specs.push(biasSpec(place, part, source));
  else if (encoding.kind === "gptq") {
    const rows = source.shape?.[0] ?? place.shape.parts[part]!;
    specs.push(noBiasSpec(source.name, rows, source.split));
  }
  return specs;
}

type WeightEncoding = Extract<MatrixEncoding, { kind: "plain" | "scaled" }>;

function weightSpecs(
  place: MatrixPlace,
  part: number,
  source: MatrixSource,
  encoding: WeightEncoding,
  uploads: WeightUploads,
): WeightSpec[] {
  const { format, columns, parts } = place.shape;
  const shape = source.shape ?? [parts[part]!, columns];
  const kept = encoding.kind === "scaled" || isPlain({ ...format, encoding });
  const weight: WeightSpec = {
    name: `${source.name}.weight`,
    shape,
    dtypes: [encoding.dtype],
    split: source.split,
    destination: uploadDestination(
      { place, part, source, words: kept ? "rows" : "numbers" },
      uploads,
    ),
  };
  return encoding.kind === "plain"
    ? [weight]
    : [scaleSpec(place, part, source, encoding.scales, shape), weight];
}

type ScaleTensor = Extract<MatrixEncoding, { kind: "scaled" }>["scales"];

function scaleSpec(
  place: MatrixPlace,
  part: number,
  source: MatrixSource,
  scales: ScaleTensor,
  [matrixRows, matrixColumns]: readonly [number, number] | readonly number[],
): WeightSpec {
  const { sourceRow = 0, sourceColumn = 0 } = source;
  const rows = place.shape.parts[part]!;
  const firstRow = place.partRows[part]!;
  const { scalePlace, scaleGroups } = place;
  const columnBlocks = Math.ceil(matrixColumns! / BLOCK_COLUMNS);
  const take = (values: Float32Array) =>
    place.writeScales((words) => {
      const into = new Float32Array(words.buffer);
      if (scales.per === "block") {
        spreadScales({
          blockScales: values,
          columnBlocks,
          rows,
          sourceRow,
          firstColumnBlock: sourceColumn / BLOCK_COLUMNS,
          columnBlockCount: scaleGroups,
          into,
          place: scalePlace,
          firstRow,
        });
        return;
      }
      for (let group = 0; group < scaleGroups; group++) {
        for (let r = 0; r < rows; r++) {
          const from = scales.per === "tensor" ? 0 : sourceRow + r;
          into[scalePlace(firstRow + r, group)] = values[from]!;
        }
      }
    });
  const byRow = scales.shape?.length === 1 ? [matrixRows!] : [matrixRows!, 1];
  const shapes = {
    block: [Math.ceil(matrixRows! / BLOCK_COLUMNS), columnBlocks],
    row: byRow,
    tensor: scales.shape ?? [],
  };
  return {
    name: `${source.name}.${scales.suffix}`,
    shape: shapes[scales.per],
    dtypes: ["F32", "BF16", "F16"],
    split: scaleSplit(scales, source.split),
    destination: collectFloats(take),
  };
}

/** Scales of whole rows go with every slice of the columns, one of all numbers with any slice. */
export function scaleSplit({ per }: Pick<ScaleTensor, "per">, split: WeightSplit): WeightSplit {
  const shared = per === "tensor" || (per === "row" && split === "columns");
  return shared && split !== "experts" ? "none" : split;
}

function biasSpec(place: MatrixPlace, part: number, source: MatrixSource): WeightSpec {
  const rows = place.shape.parts[part]!;
  const { sourceRow = 0, shape, split } = source;
  return {
    name: `${source.name}.bias`,
    shape: [shape?.[0] ?? rows],
    dtypes: ["F32", "BF16", "F16"],
    split: biasSplit(split),
    destination: collectFloats((values) =>
      place.writeBias(part, values.slice(sourceRow, sourceRow + rows)),
    ),
  };
}
