import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import { UnsupportedError } from "../errors.ts";
import type { MatrixEncoding } from "./matrix_format.ts";
import type { MatrixPlace } from "./matrix_place.ts";
import type { MatrixSource } from "./matrix_specs.ts";

export function packedSpecs(
  _place: MatrixPlace,
  _part: number,
  source: MatrixSource,
  _encoding: Extract<MatrixEncoding, { kind: "awq" | "gptq" }>,
): WeightSpec[] {
  throw new UnsupportedError(source.name);
}
