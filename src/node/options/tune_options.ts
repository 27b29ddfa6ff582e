/**
 * Options of `wisp tune`.
 *
 * @module
 */
import type { OptionTable } from "./option_parser.ts";
import { ENGINE_OPTIONS } from "./options.ts";

const OTHER = "Other";
const SHAPES = "Matrices";

export const TUNE_OPTIONS = {
  modelPath: {
    ...ENGINE_OPTIONS.modelPath,
    defaultText: "none: the matrices below",
    help: "model whose matrices are measured: a folder, or the id of a model that was downloaded",
  },
  revision: ENGINE_OPTIONS.revision,
  quantization: ENGINE_OPTIONS.quantization,
  shapes: {
    flags: ["--shapes"],
    kind: "strings",
    value: "ROWSxCOLUMNS,...",
    defaultText: "2048x2048,4096x4096",
    help: "outputs and inputs of the matrices that are measured",
    group: SHAPES,
  },
  dtypes: {
    flags: ["--dtypes"],
    kind: "strings",
    value: "DTYPE,...",
    defaultText: "bf16,fp8,int8,int4",
    help: "weights that are measured: these, f16, f32 or mxfp4",
    group: SHAPES,
  },
  output: {
    flags: ["--output"],
    kind: "string",
    value: "FILE",
    defaultText: "where servers look for it",
    help: "JSON file to keep the result in, beside those of other adapters",
    group: OTHER,
  },
  adapter: ENGINE_OPTIONS.adapter,
  help: {
    flags: ["--help"],
    kind: "flag",
    default: false,
    help: "print this help",
    group: OTHER,
  },
} as const satisfies OptionTable;
