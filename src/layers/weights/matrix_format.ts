/**
 * How a checkpoint spells a matrix, and how it is kept on the GPU.
 *
 * The tensors themselves say most of it: a module with `qweight` is packed, one whose `weight` has
 * eight bits comes with scales, another is plain. config.json's quantization says what the tensors
 * cannot: the meaning of packed words and the groups that share a scale.
 *
 * @module
 */
import type { GroupColumns, WeightDtype } from "../../../kernels/linear/weights/layout.ts";
import type { Quantization } from "../../checkpoint/quantization.ts";
import type { UploadTarget } from "../../checkpoint/quantization_option.ts";
import { DTYPE_BYTES, type Dtype } from "../../dtype.ts";
import { UnsupportedError } from "../../errors.ts";

/** What a checkpoint says about one of its tensors. */
export interface TensorFacts {
  /** As the file spells it. */
  readonly dtype: string;
  readonly shape: readonly number[];
}

/** How the tensors of a matrix spell its numbers. */
export type MatrixEncoding =
  /** `weight` holds the numbers. */
  | { readonly kind: "plain"; readonly dtype: Dtype }
  /** `weight` holds codes, another tensor their scales. */
  | { readonly kind: "scaled"; readonly dtype: Dtype; readonly scales: ScaleTensor }
  /** Four-bit codes in words, by AutoAWQ's or GPTQ's rules. */
  | {
      readonly kind: "awq" | "gptq";
      readonly groupColumns: GroupColumns;
      /** Added to GPTQ's stored zero points. */
      readonly zeroOffset: 0 | 1;
    };

export interface ScaleTensor {
  readonly suffix: "weight_scale_inv" | "weight_scale";
  /** What shares a scale: a block of 128x128, a row, the whole tensor. */
  readonly per: "block" | "row" | "tensor";
  /** Of a tensor whose scales are not by block: as the checkpoint has it. */
  readonly shape?: readonly number[];
}

export interface MatrixFormat {
  /** On the GPU. */
  readonly dtype: WeightDtype;
  /** Columns that share a scale; int4 only. */
  readonly groupColumns?: GroupColumns;
  readonly encoding: MatrixEncoding;
}

const STORED_AS: Readonly<Partial<Record<Dtype, WeightDtype>>> = {
  F32: "f32",
  F16: "f16",
  BF16: "bf16",
  F8_E4M3: "fp8",
  I8: "int8",
};

/** How a matrix of this element type is kept on the GPU. */
export function storedDtype(name: string, dtype: string): WeightDtype {
  const stored = STORED_AS[dtype as Dtype];
  if (stored === undefined) throw new UnsupportedError(`${name} of dtype ${dtype}`);
  return stored;
}

/** Kept on the GPU as the numbers they are. */
export function isPlain({ encoding, dtype }: MatrixFormat): boolean {
  return encoding.kind === "plain" && storedDtype("", encoding.dtype) === dtype;
}

/** A format whose numbers are kept as they are. */
export function plainFormat(dtype: Dtype): MatrixFormat {
  return { dtype: storedDtype("a matrix", dtype), encoding: { kind: "plain", dtype } };
}

/** Whether one fused weight can hold matrices of both. */
export function sameStorage(a: MatrixFormat, b: MatrixFormat): boolean {
  return a.dtype === b.dtype && a.groupColumns === b.groupColumns;
}

/** The formats of a checkpoint's matrices, by module: the tensors' name in front of ".weight". */
export class MatrixFormats {
  readonly #tensor: (name: string) => TensorFacts | undefined;
  readonly #quantization: Quantization;
  readonly #uploadTo: UploadTarget | undefined;
  readonly #used: Map<WeightDtype, MatrixFormat>;

  /** @param options `uploadTo`: what plain linears are quantized to while they are uploaded. */
  constructor(options: {
    readonly tensor: (name: string) => TensorFacts | undefined;
    readonly quantization: Quantization;
    readonly uploadTo?: UploadTarget | undefined;
    /** Takes note of what is given out. */
    readonly used?: Map<WeightDtype, MatrixFormat>;
  }) {
    this.#used = options.used ?? new Map();
    this.#tensor = options.tensor;
    this.#quantization = options.quantization;
    this.#uploadTo = options.uploadTo;
  }

  /** A format of each dtype that was given out here: what kernels must be able to read. */
  get used(): ReadonlyMap<WeightDtype, MatrixFormat> {
    return this.#used;
  }

  /** The same for modules that the checkpoint spells otherwise than those who ask; `used` has them too. */
  renamed(storedName: (name: string) => string): MatrixFormats {
    return new MatrixFormats({
      tensor: (name) => this.#tensor(storedName(name)),
      quantization: this.#quantization,
      uploadTo: this.#uploadTo,
      used: this.#used,
    });
  }

  /** The same where nothing is quantized while it is uploaded; `used` has them too. */
  asPublished(): MatrixFormats {
    return new MatrixFormats({
      tensor: this.#tensor,
      quantization: this.#quantization,
      used: this.#used,
    });
  }

  /** Whether the checkpoint has a tensor of this name. */
  has(tensor: string): boolean {
    return this.#tensor(tensor) !== undefined;
  }

  /** Gives out a format that the checkpoint's tensors do not say. */
  use(format: MatrixFormat): MatrixFormat {
    this.#used.set(format.dtype, format);
    return format;
  }

  /** Of a linear, which is quantized while it is uploaded where that was asked for. */
  linear(module: string): MatrixFormat {
    const published = this.#of(module);
    if (this.#uploadTo === undefined || published.encoding.kind !== "plain") {
      return this.use(published);
    }
    return this.use({ ...published, ...this.#uploadTo });
  }

  /** Of a matrix that stays as the checkpoint has it: a token table, a router. */
  published(module: string): MatrixFormat {
    return this.use(this.#of(module));
  }

  #of(module: string): MatrixFormat {
    const quantization = this.#quantization;
    const { method } = quantization;
    if (
      (method === "awq" || method === "gptq") &&
      this.#tensor(`${module}.qweight`) !== undefined
    ) {
      const groupColumns = quantization.groupSize;
      const zeroOffset = method === "gptq" ? quantization.zeroOffset : 0;
      return {
        dtype: "int4",
        groupColumns,
        encoding: { kind: method, groupColumns, zeroOffset },
      };
    }
    const name = `${module}.weight`;
    // A tensor that is missing is reported by the checkpoint's own check.
    const dtype = this.#tensor(name)?.dtype ?? "BF16";
    const stored = storedDtype(name, dtype);
    const known = dtype as Dtype;
    if (DTYPE_BYTES[known] !== 1)
      return { dtype: stored, encoding: { kind: "plain", dtype: known } };
    const scales = this.#scales(module, known);
    return { dtype: stored, encoding: { kind: "scaled", dtype: known, scales } };
  }

  #scales(module: string, dtype: Dtype): ScaleTensor {
    const quantization = this.#quantization;
    const { method } = quantization;
    if (method === (dtype === "I8" ? "int8_block" : "fp8_block")) {
      return { suffix: "weight_scale_inv", per: "block" };
    }
    if (method === (dtype === "I8" ? "int8_channel" : "fp8")) {
      const shape = this.#tensor(`${module}.weight_scale`)?.shape ?? [];
      const one = shape.every((size) => size === 1);
      return { suffix: "weight_scale", per: one ? "tensor" : "row", shape };
    }
    throw new UnsupportedError(
      `${module}.weight of dtype ${dtype}`,
      method === "none"
        ? "config.json has no quantization_config that says how it is scaled"
        : `the quantization that config.json names is ${quantization.name}`,
    );
  }
}
