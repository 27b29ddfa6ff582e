/**
 * The quantizations that a checkpoint may have.
 *
 * @module
 */

/** What every quantization of a checkpoint has. */
interface Quantized {
  /** `quant_method` as the checkpoint spells it: what `--quantization` is compared with. */
  readonly name: string;
  /**
   * Modules left as they were, as the checkpoint lists them: names, parts of names, or patterns
   * after "re:". For people to read; the element types of the tensors decide.
   */
  readonly unconverted: readonly string[];
}

/**
 * E4M3 codes in blocks of `blockRows` x `blockColumns`, cut at the edges, each with one scale in
 * `NAME.weight_scale_inv`: weight = code * scale.
 */
export interface Fp8BlockQuantization extends Quantized {
  readonly method: "fp8_block";
  readonly blockRows: 128;
  readonly blockColumns: 128;
  /** A linear's input is quantized too, with scales found at run time. */
  readonly activations: "dynamic";
  /** Scales of inputs are rounded up to powers of two ("ue8m0"); weights' are what files say. */
  readonly powersOfTwo?: true;
}

/**
 * E4M3 codes with `NAME.weight_scale`: one number, or one of each row (`[rows, 1]`). weight = code *
 * scale. Static activations have their scale in `NAME.input_scale`, a single number.
 */
export interface Fp8Quantization extends Quantized {
  readonly method: "fp8";
  readonly scales: "tensor" | "channel";
  /** Dynamic scales are one of each token's row: neighbours in a batch must not move them. */
  readonly activations: "dynamic" | "static" | "none";
}

/**
 * 4-bit codes packed along the outputs: `qweight` I32 `[columns, rows / 8]`, `qzeros` I32
 * `[columns / groupSize, rows / 8]`, `scales` `[columns / groupSize, rows]`, nibbles of a word in
 * the order 0, 2, 4, 6, 1, 3, 5, 7. weight = (code - zero) * scale.
 */
export interface AwqQuantization extends Quantized {
  readonly method: "awq";
  readonly groupSize: 32 | 64 | 128;
}

/**
 * 4-bit codes packed along the inputs: `qweight` I32 `[columns / 8, rows]`, `qzeros` I32
 * `[groups, rows / 8]`, `scales` `[groups, rows]`, `g_idx` I32 `[columns]` (the group of each
 * column). weight = (code - (zero + zeroOffset)) * scale.
 */
export interface GptqQuantization extends Quantized {
  readonly method: "gptq";
  readonly groupSize: 32 | 64 | 128;
  /** Columns were quantized in an order of their own: `g_idx` is not column / groupSize. */
  readonly descAct: boolean;
  /** Every zero is 8. */
  readonly symmetric: boolean;
  /** The older format stores each zero less one. */
  readonly zeroOffset: 0 | 1;
}

/** Codes from -127 to 127 with `NAME.weight_scale` `[rows, 1]`: weight = code * scale. */
export interface Int8ChannelQuantization extends Quantized {
  readonly method: "int8_channel";
  /** Dynamic: a linear's input is quantized too, one scale for each token's row. */
  readonly activations: "dynamic" | "none";
}

/** As FP8 blocks, with int8 codes. */
export interface Int8BlockQuantization extends Quantized {
  readonly method: "int8_block";
  readonly blockRows: 128;
  readonly blockColumns: 128;
  readonly activations: "dynamic";
}

/**
 * Experts of E2M1 codes in groups of 32 with a power of two: `NAME_blocks` U8 `[experts, rows,
 * groups, 16]`, the low nibble first, and `NAME_scales` U8 `[experts, rows, groups]`, 127 being 1.
 */
export interface Mxfp4Quantization extends Quantized {
  readonly method: "mxfp4";
}

export type Quantization =
  | { readonly method: "none" }
  | Fp8BlockQuantization
  | Fp8Quantization
  | AwqQuantization
  | GptqQuantization
  | Int8ChannelQuantization
  | Int8BlockQuantization
  | Mxfp4Quantization;
