/**
 * config.json of the families with grouped-query attention, checked field by field.
 *
 * @module
 */
import type { ConfigReader } from "../../checkpoint/config.ts";
import { UnsupportedError } from "../../errors.ts";
import type { MoeShape } from "../../layers/moe/moe_scratch.ts";
import { type RopeConfig, readRope } from "./rope_config.ts";
import { checkExperts, MAX_POSITIONS, readLayers, readPositions, readSize } from "./size_limits.ts";

export interface GqaConfig {
  readonly architecture: string;
  readonly hiddenSize: number;
  readonly vocabularySize: number;
  readonly layers: number;
  readonly normEps: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly headNorms: boolean;
  readonly sinks: boolean;
  readonly rope: RopeConfig;
  readonly bias: { readonly projections: boolean; readonly output: boolean; readonly mlp: boolean };
  /** Keys that a row of each layer sees; undefined where it sees all. */
  readonly windows: readonly (number | undefined)[];
  /** Of layers without experts. */
  readonly intermediate: number;
  readonly experts:
    | (Omit<MoeShape, "hiddenSize"> & { isSparse(layer: number): boolean })
    | undefined;
  readonly tiedEmbeddings: boolean;
}

/** What a family fixes that its config.json does not say. */
export interface GqaFamily {
  readonly architecture: string;
  /** RMSNorm of each head's query and key. */
  readonly headNorms?: boolean;
  /** Logits that join the softmax's denominator. */
  readonly sinks?: boolean;
  /** Query, key and value have biases and the output has none, whatever the file says. */
  readonly projectionBias?: boolean;
  /** Values of absent fields. */
  readonly defaults?: {
    readonly headDim?: number;
    readonly ropeTheta?: number;
    readonly tiedEmbeddings?: boolean;
    readonly attentionBias?: boolean;
    /** Of layers that slide. A `sliding_window` that is null says that none does. */
    readonly slidingWindow?: number;
    readonly normEps?: number;
  };
  /** Whether positions may have parts. Default false. */
  readonly ropeParts?: boolean;
  /** Which layers slide where `layer_types` does not say. Default none. */
  slides?(config: ConfigReader, layer: number): boolean;
  /** Reads the experts' fields. Default: there are none. */
  experts?(config: ConfigReader): GqaConfig["experts"];
  /** Whether `intermediate_size` is that of an expert. */
  readonly expertsOnly?: boolean;
}

/** Query heads of a key head, and elements of a head, that the attention kernels are made for. */
const GQA_MAX_GROUP = 16;
const GQA_MAX_HEAD = 256;
/** Elements that kernels load at once. */
const VECTOR = 4;
/** Columns from which on a row's norm does not fit into a workgroup's memory. */
const MAX_HIDDEN = 16384;

/** @throws {CheckpointError | UnsupportedError} naming the field. */
export function readGqaConfig(config: ConfigReader, family: GqaFamily): GqaConfig {
  const { defaults = {}, headNorms = false, sinks = false, projectionBias = false } = family;
  const size = (field: string) => readSize(config, field);
  config.only("hidden_act", ["silu"]);
  const hiddenSize = config.integer("hidden_size", { min: 1, max: MAX_HIDDEN });
  const heads = size("num_attention_heads");
  const kvHeads = config.integer("num_key_value_heads", { min: 1, max: heads, fallback: heads });
  if (heads % kvHeads !== 0 || heads / kvHeads > GQA_MAX_GROUP) {
    const rule = `num_attention_heads ${heads} must be up to ${GQA_MAX_GROUP} times as many`;
    throw config.error("num_key_value_heads", rule);
  }
  const headDim = config.integer("head_dim", {
    min: VECTOR,
    max: GQA_MAX_HEAD,
    fallback: defaults.headDim ?? hiddenSize / heads,
  });
  requireVectors(config, "head_dim", headDim);
  if (headDim > GQA_MAX_HEAD) {
    const problem = `hidden_size / num_attention_heads makes it ${headDim}`;
    throw config.error("head_dim", `${problem}, it must be at most ${GQA_MAX_HEAD}`);
  }
  const layers = readLayers(config);
  const experts = family.experts?.(config);
  if (experts !== undefined) checkExperts(config, { layers, routed: experts.routed });
  const maxPosition = readPositions(config);
  const rope = readRope(config, {
    headDim,
    maxPosition,
    takesParts: family.ropeParts ?? false,
    ...(defaults.ropeTheta !== undefined && { defaultTheta: defaults.ropeTheta }),
  });
  requireVectors(config, "partial_rotary_factor", rope.dim);
  const biasField = config.boolean("attention_bias", { fallback: defaults.attentionBias ?? false });
  // A family that fixes its biases has no such field: the published code ignores it.
  const attentionBias = !projectionBias && biasField;
  return {
    architecture: family.architecture,
    hiddenSize,
    vocabularySize: size("vocab_size"),
    layers,
    normEps: config.number("rms_norm_eps", { min: 0, fallback: defaults.normEps ?? 1e-6 }),
    heads,
    kvHeads,
    headDim,
    headNorms,
    sinks,
    rope,
    bias: {
      projections: projectionBias || attentionBias,
      output: attentionBias,
      mlp: config.boolean("mlp_bias", { fallback: false }),
    },
    windows: readWindows(config, family, layers),
    intermediate: family.expertsOnly ? 1 : size("intermediate_size"),
    experts,
    tiedEmbeddings: config.boolean("tie_word_embeddings", {
      fallback: defaults.tiedEmbeddings ?? false,
    }),
  };
}

function requireVectors(config: ConfigReader, field: string, elements: number): void {
  if (elements % VECTOR === 0) return;
  throw new UnsupportedError(
    `${field} of ${config.file}, which makes ${elements} elements`,
    `only multiples of ${VECTOR} are supported`,
  );
}

/** `layer_types` where there is one, else the family's rule. */
function readWindows(
  config: ConfigReader,
  { slides, defaults }: GqaFamily,
  layers: number,
): (number | undefined)[] {
  const fallback = config.isNull("sliding_window") ? undefined : defaults?.slidingWindow;
  const window = config.integer("sliding_window", { min: 1, max: MAX_POSITIONS, fallback });
  const types = config.strings("layer_types", { fallback: undefined });
  if (types !== undefined) {
    if (types.length !== layers) {
      throw config.error("layer_types", `it names ${types.length} of ${layers} layers`);
    }
    // Says of all layers what their types say of each.
    config.boolean("use_sliding_window", { fallback: false });
  }
  return Array.from({ length: layers }, (_, i) => {
    const type = types?.[i];
    if (type !== undefined && type !== "full_attention" && type !== "sliding_attention") {
      throw new UnsupportedError(`layer_types "${type}" of ${config.file}`);
    }
    const sliding = type === undefined ? slides?.(config, i) : type === "sliding_attention";
    if (!sliding) return undefined;
    if (window === undefined && type !== undefined) {
      throw config.error("sliding_window", `layer ${i} slides, but by how much is missing`);
    }
    return window;
  });
}
