/**
 * `quantization_config` of the methods that have a form of their own, one function each. Whatever
 * they do not read is refused by the section's `finish`.
 *
 * @module
 */

import { CheckpointError, UnsupportedError } from "../../errors.ts";
import type { ConfigReader } from "../config.ts";
import type {
  AwqQuantization,
  Fp8BlockQuantization,
  Fp8Quantization,
  GptqQuantization,
  Int8BlockQuantization,
  Int8ChannelQuantization,
  Mxfp4Quantization,
} from "../quantization.ts";

/** The kernels' block, in both dimensions. */
const BLOCK = 128;

const GROUP_SIZES = [128, 64, 32] as const;

/** Spellings of the list of modules left as they were. */
const UNCONVERTED_FIELDS = ["modules_to_not_convert", "ignored_layers", "ignore"];

/** FP8 as the DeepSeek and Qwen repositories have it, or with one scale for each tensor. */
export function readFp8(
  section: ConfigReader,
  name: string,
): Fp8BlockQuantization | Fp8Quantization {
  section.only("fmt", ["e4m3", "float8_e4m3fn"]);
  section.only("dequantize", [false]);
  const common = { name, unconverted: unconverted(section) };
  if (section.has("weight_block_size")) {
    readBlockSize(section);
    const activations = section.only("activation_scheme", ["dynamic"]);
    const block = { blockRows: BLOCK, blockColumns: BLOCK, activations } as const;
    const powersOfTwo = section.only("scale_fmt", ["float", "ue8m0"]) === "ue8m0";
    return { method: "fp8_block", ...block, ...(powersOfTwo && { powersOfTwo }), ...common };
  }
  const activations = section.only("activation_scheme", ["dynamic", "static"]);
  return { method: "fp8", scales: "tensor", activations, ...common };
}

/** AutoAWQ's "gemm" packing; "marlin" names a kernel for the same files. */
export function readAwq(section: ConfigReader, name: string): AwqQuantization {
  onlyOf(section, ["bits", "w_bit"], [4]);
  const groupSize = onlyOf(section, ["group_size", "q_group_size"], GROUP_SIZES);
  section.only("version", ["gemm", "GEMM"]);
  section.only("zero_point", [true]);
  // Which code quantized the weights, and how that code fuses layers when it runs them.
  section.skip("backend", "do_fuse", "exllama_config", "fuse_max_seq_len", "modules_to_fuse");
  return { method: "awq", name, groupSize, unconverted: unconverted(section) };
}

/** AutoGPTQ's and GPTQModel's packing. */
export function readGptq(section: ConfigReader, name: string): GptqQuantization {
  section.only("bits", [4], { required: true });
  const groupSize = section.only("group_size", GROUP_SIZES, { required: true });
  const descAct = section.boolean("desc_act", { fallback: false });
  const symmetric = section.boolean("sym", { fallback: true });
  const format = section.only("checkpoint_format", ["gptq", "gptq_v2"]);
  section.only("method", ["gptq"]);
  section.only("is_marlin_format", [false]);
  section.only("pack_dtype", ["int32"]);
  // How the weights were found: calibration, order, damping, the quantizing code's own notes.
  section.skip("batch_size", "block_name_to_quantize", "cache_block_outputs", "damp_percent");
  section.skip("damp_auto_increment", "dataset", "meta", "model_file_base_name", "model_seqlen");
  section.skip("model_name_or_path", "modules_in_block_to_quantize", "mse", "pad_token_id");
  section.skip("module_name_preceding_first_block", "quantizer", "static_groups", "tokenizer");
  section.skip("true_sequential");
  // How another engine runs them.
  section.skip("backend", "disable_exllama", "exllama_config", "max_input_length", "use_cuda_fp16");
  section.skip("use_exllama");
  const head = section.boolean("lm_head", { fallback: false }) ? [] : ["lm_head"];
  return {
    method: "gptq",
    name,
    groupSize,
    descAct,
    symmetric,
    zeroOffset: format === "gptq" ? 1 : 0,
    unconverted: [...head, ...exceptions(section), ...unconverted(section)],
  };
}

/** Int8 rows with dynamic activations of each token. */
export function readInt8Channel(section: ConfigReader, name: string): Int8ChannelQuantization {
  section.only("bits", [8]);
  section.only("weight_strategy", ["channel"]);
  section.only("activation_strategy", ["token"]);
  section.only("symmetric", [true]);
  const activations = section.only("activation_scheme", ["dynamic"]);
  return { method: "int8_channel", name, activations, unconverted: unconverted(section) };
}

/** DeepSeek's FP8 blocks with int8 codes. */
export function readInt8Block(section: ConfigReader, name: string): Int8BlockQuantization {
  section.only("bits", [8]);
  readBlockSize(section);
  return {
    method: "int8_block",
    name,
    blockRows: BLOCK,
    blockColumns: BLOCK,
    activations: section.only("activation_scheme", ["dynamic"]),
    unconverted: unconverted(section),
  };
}

/** The experts of gpt-oss. */
export function readMxfp4(section: ConfigReader, name: string): Mxfp4Quantization {
  section.only("dequantize", [false]);
  return { method: "mxfp4", name, unconverted: unconverted(section) };
}

function unconverted(section: ConfigReader): string[] {
  return UNCONVERTED_FIELDS.flatMap((field) => section.strings(field, { fallback: [] }));
}

/** GPTQModel's `dynamic`: patterns of modules left out ("-:") or quantized in another way ("+:"). */
function exceptions(section: ConfigReader): string[] {
  const dynamic = section.section("dynamic", { fallback: undefined });
  return (dynamic?.names() ?? []).map((pattern) => {
    if (!pattern.startsWith("-:")) {
      throw new UnsupportedError(
        `quantization_config.dynamic "${pattern}" of ${section.file}`,
        'only modules left unquantized, with "-:" in front, are supported',
      );
    }
    dynamic!.skip(pattern);
    return `re:${pattern.slice(2)}`;
  });
}

/** A required field with several spellings. */
function onlyOf<T extends string | number | boolean>(
  section: ConfigReader,
  spellings: readonly [string, string],
  values: readonly [T, ...T[]],
): T {
  const given = spellings.filter((field) => section.has(field));
  const read = (given.length === 0 ? [spellings[0]] : given).map((field) =>
    section.only(field, values, { required: true }),
  );
  if (new Set(read).size > 1) {
    throw section.error(spellings[1], `${spellings[0]} says something else`);
  }
  return read[0]!;
}

function readBlockSize(section: ConfigReader): void {
  const block = section.integers("weight_block_size");
  if (block.length !== 2) {
    throw new CheckpointError(
      section.file,
      `it must be two whole numbers, not [${block.join(", ")}]`,
      "quantization_config.weight_block_size",
    );
  }
  if (block.some((size) => size !== BLOCK)) {
    throw new UnsupportedError(
      `weight_block_size [${block.join(", ")}] of ${section.file}`,
      `only [${BLOCK}, ${BLOCK}] is supported`,
    );
  }
}
