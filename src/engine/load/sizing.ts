/**
 * How large a model is and how many devices hold it, from its config alone: nothing is read,
 * nothing is allocated.
 *
 * A model is laid out with a ledger that only counts, as a start does before it allocates; where
 * there are no tensors to say how a matrix is spelled, the weight type that is asked about does.
 *
 * @module
 */
import { DEFAULT_LAYOUT } from "../../../kernels/linear/weights/layout.ts";
import type { Quantization } from "../../checkpoint/quantization.ts";
import type { UploadTarget } from "../../checkpoint/quantization_option.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { Dtype } from "../../dtype.ts";
import { UnsupportedError } from "../../errors.ts";
import { DeviceMemory } from "../../gpu/memory.ts";
import { MatrixFormats, type TensorFacts } from "../../layers/weights/matrix_format.ts";
import type { AttentionFacts, Model, ModelDefinition } from "../../models/model.ts";
import type { CreateOptions } from "../../models/model_options.ts";
import { ListedModules } from "./listed_modules.ts";
import { MIN_CONTEXT, type VisionBytes, visionBytes } from "./memory_budget.ts";

/** Forms in which weights of one shape are published. */
export const WEIGHT_TYPES = ["fp8", "bf16", "awq", "int8"] as const;
export type WeightType = (typeof WEIGHT_TYPES)[number];

export interface ParameterCount {
  readonly total: number;
  /** Of a token: all of a dense model's, else with as many experts as a token is sent to. */
  readonly active: number;
}

/** Devices are put into machines by eight. */
export const NODE_DEVICES = 8;

const PLAIN: Quantization = { method: "none" };
const NAMELESS = { name: "", unconverted: [] };
const BLOCKS = { blockRows: 128, blockColumns: 128, activations: "dynamic" } as const;
/** The largest that the columns of every matrix are a multiple of is taken. */
const AWQ_GROUPS = [128, 64, 32] as const;
const NO_LIMIT = Number.MAX_SAFE_INTEGER;

/**
 * The model laid out without a device, and the bytes that its weights would take on one.
 *
 * @param whole What ranks do not all share.
 */
export function layOut(
  definition: ModelDefinition,
  formats: MatrixFormats,
  whole: Pick<CreateOptions, "headByGroup" | "wholeDense"> = {},
): {
  readonly model: Model;
  readonly weightBytes: number;
  readonly vision: VisionBytes | undefined;
} {
  const memory = new DeviceMemory({
    maxBufferSize: NO_LIMIT,
    maxStorageBufferBindingSize: NO_LIMIT,
  });
  const model = definition.create({
    memory,
    layout: DEFAULT_LAYOUT,
    formats,
    // Only working memory, which is allocated later, depends on these.
    maxRows: 1,
    maxDecodeRows: 1,
    contextLength: MIN_CONTEXT,
    pageSize: 1,
    cacheDtype: "bf16",
    prefillCapacity: 0,
    quantizeActivations: true,
    ...whole,
  });
  const vision = visionBytes(model, memory);
  return { model, weightBytes: memory.bytes("weights"), vision };
}

/** Counts numbers, not the words they are packed in. Tied embeddings count once. */
export function countParameters(definition: ModelDefinition): ParameterCount {
  const { model } = layOut(definition, configFormats(PLAIN, { plain: "BF16" }));
  const { experts } = definition.facts;
  let total = 0;
  let ofExperts = 0;
  for (const spec of model.specs) {
    const numbers = numbersOf(spec);
    total += numbers;
    if (spec.split === "experts") ofExperts += numbers;
  }
  if (experts === undefined) return { total, active: total };
  return { total, active: total - ofExperts + (ofExperts * experts.perToken) / experts.routed };
}

function numbersOf({ name, shape, dtypes }: WeightSpec): number {
  const elements = shape.reduce((product, size) => product * size, 1);
  // Experts that exist in MXFP4 only: two codes to a byte, and exponents that are no parameters.
  if (dtypes[0] !== "U8") return elements;
  return name.endsWith("_scales") ? 0 : 2 * elements;
}

/**
 * Bytes on the GPU of weights of this type: FP8 in blocks of 128x128, BF16, AWQ's four bits in the
 * largest groups that the shape allows, int8 with a scale for each row. Token table, LM head,
 * routers and norms are BF16 in all of them, as they are published.
 *
 * @throws {UnsupportedError} when the shape does not come in this type.
 */
export function weightTypeBytes(definition: ModelDefinition, type: WeightType): number {
  const bytes = (quantization: Quantization) => {
    const formats = configFormats(quantization, { plain: "BF16" });
    const { model, weightBytes } = layOut(definition, formats);
    if (!model.weightFormats.has("mxfp4")) return weightBytes;
    const feature = `${definition.architecture} in ${type}`;
    throw new UnsupportedError(feature, "its experts exist in MXFP4 only");
  };
  switch (type) {
    case "bf16":
      return bytes(PLAIN);
    case "fp8":
      return bytes({ method: "fp8_block", ...BLOCKS, ...NAMELESS });
    case "int8":
      return bytes({ method: "int8_channel", activations: "dynamic", ...NAMELESS });
    case "awq":
      return firstSupported(AWQ_GROUPS, (groupSize) =>
        bytes({ method: "awq", groupSize, ...NAMELESS }),
      );
  }
}

function firstSupported<T>(choices: readonly T[], attempt: (choice: T) => number): number {
  const refusals: UnsupportedError[] = [];
  for (const choice of choices) {
    try {
      return attempt(choice);
    } catch (error) {
      if (!(error instanceof UnsupportedError)) throw error;
      refusals.push(error);
    }
  }
  throw refusals.at(-1)!;
}

/**
 * The formats that a checkpoint of this quantization has as a rule: every projection is quantized,
 * except those that its config lists, and the rest is plain.
 */
export function configFormats(
  quantization: Quantization,
  options: { readonly plain: Dtype; readonly uploadTo?: UploadTarget | undefined },
): MatrixFormats {
  const { plain, uploadTo } = options;
  const codes = codeDtype(quantization);
  const listed = new ListedModules(quantization.method === "none" ? [] : quantization.unconverted);
  return new MatrixFormats({
    quantization,
    uploadTo,
    tensor: (name): TensorFacts | undefined => {
      const isPacked = codes === "I32";
      const isCode = name.endsWith(isPacked ? ".qweight" : ".weight");
      if (codes !== undefined && isCode && isProjection(name) && !listed.has(name)) {
        return { dtype: codes, shape: [] };
      }
      if (name.endsWith(".qweight")) return undefined;
      return { dtype: plain, shape: [] };
    },
  });
}

function codeDtype({ method }: Quantization): Dtype | undefined {
  switch (method) {
    case "none":
    case "mxfp4":
      return undefined;
    case "fp8":
    case "fp8_block":
      return "F8_E4M3";
    case "int8_block":
    case "int8_channel":
      return "I8";
    case "awq":
    case "gptq":
      return "I32";
  }
}

/** Of a text model: vision towers are published plain beside quantized ones. */
function isProjection(name: string): boolean {
  return /_proj(_with_mqa)?\.\w+$/.test(name) && !/^(model\.)?(vision|visual)/.test(name);
}

export interface FitRequest {
  readonly weightBytes: number;
  /** What each device has beside them, and beside the cache. Default 0. */
  readonly fixedBytes?: number;
  /** Bytes of one token's keys and values in all layers. */
  readonly bytesPerToken: number;
  /** Tokens to be cached at the same time. */
  readonly tokens: number;
  /** Bytes of each device. */
  readonly deviceMemory: number;
  readonly memFractionStatic: number;
  readonly attention: AttentionFacts;
}

export interface Fit {
  readonly devices: number;
  /** Machines of eight devices. */
  readonly nodes: number;
  /** Tokens that could be cached on so many devices. */
  readonly cacheTokens: number;
}

/**
 * The fewest devices that hold a model's weights and its cache; undefined where it does not fit.
 *
 * Tensor parallelism cuts weights and heads evenly, so devices are a power of two that divides the
 * number of heads; above eight, these are whole machines. Each device has its share of the weights
 * and of the cache within its fraction of memory. With grouped queries the cache is shared out by
 * key heads, one on each device at least; with latent attention, where no head has keys of its own,
 * by sequences (data-parallel attention).
 */
export function devicesFor(request: FitRequest): Fit | undefined {
  const { weightBytes, fixedBytes = 0, bytesPerToken, tokens, attention } = request;
  const budget = Math.floor(request.deviceMemory * request.memFractionStatic);
  for (let devices = 1; attention.heads % devices === 0; devices *= 2) {
    const shares = attention.kind === "gqa" ? Math.min(devices, attention.kvHeads) : devices;
    const room = Math.floor(
      ((budget - weightBytes / devices - fixedBytes) * shares) / bytesPerToken,
    );
    if (room >= tokens) {
      return { devices, nodes: Math.ceil(devices / NODE_DEVICES), cacheTokens: room };
    }
  }
  return undefined;
}
