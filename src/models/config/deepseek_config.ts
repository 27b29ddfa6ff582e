/**
 * config.json of the DeepSeek-V2 and V3 families, checked field by field.
 *
 * @module
 */
import { MLA_DECODE_MAX_LATENT } from "../../../kernels/attention/mla/mla_decode.ts";
import type { ConfigReader } from "../../checkpoint/config.ts";
import { UnsupportedError } from "../../errors.ts";
import type { YarnScaling } from "../../layers/attention/rope_scaling.ts";
import { MAX_EXPERT_GROUPS, MAX_EXPERTS, MAX_EXPERTS_PER_TOKEN } from "./expert_limits.ts";
import { positive, readRopeSection } from "./rope_config.ts";
import { checkExperts, readLayers, readPositions, readSize } from "./size_limits.ts";

export interface DeepseekConfig {
  readonly hiddenSize: number;
  readonly vocabularySize: number;
  readonly layers: number;
  /** Layers behind those, of multi-token-prediction modules. */
  readonly draftLayers: number;
  /** Positions the rotary embedding is defined for. */
  readonly contextLength: number;
  readonly normEps: number;
  readonly heads: number;
  /** Width of the query's latent; `null` when queries are projected in one step. */
  readonly queryLatent: number | null;
  /** Width of the latent that keys and values share. */
  readonly latent: number;
  /** Elements per head without and with rotation, and of a value. */
  readonly nope: number;
  readonly rope: number;
  readonly value: number;
  readonly ropeTheta: number;
  readonly yarn: YarnScaling | undefined;
  readonly denseIntermediate: number;
  /** Layers below it are dense, and those its period skips; `undefined` without experts. */
  readonly experts: ExpertConfig | undefined;
  readonly tiedEmbeddings: boolean;
}

export interface ExpertConfig {
  readonly routed: number;
  readonly shared: number;
  readonly perToken: number;
  readonly intermediate: number;
  readonly firstLayer: number;
  readonly layerPeriod: number;
  readonly scoring: "sigmoid" | "softmax";
  readonly selection: "noaux_tc" | "group_limited_greedy" | "greedy";
  readonly groups: number;
  readonly groupsKept: number;
  /** Whether the weights of a token's experts are divided by their sum. */
  readonly normalize: boolean;
  /** Multiplies them, after that. */
  readonly scalingFactor: number;
}

/**
 * What an absent field of the router means in each generation of the family; V2 has no default for
 * the experts of a token.
 */
const ROUTER_DEFAULTS = {
  v2: {
    scoring: ["softmax", "sigmoid"],
    selection: "greedy",
    normalize: false,
    scalingFactor: 1,
    perToken: undefined,
    groups: 1,
    groupsKept: 1,
  },
  v3: {
    scoring: ["sigmoid", "softmax"],
    selection: "noaux_tc",
    normalize: true,
    scalingFactor: 2.5,
    perToken: 8,
    groups: 8,
    groupsKept: 4,
  },
} as const;

/** Sizes from which on a kernel does not fit into a workgroup's memory. */
const LIMITS = { hiddenSize: 16384, queryLatent: 8192 };
/** Elements that kernels load at once. */
const VECTOR = 4;

/** @throws {CheckpointError | UnsupportedError} naming the field. */
export function readDeepseekConfig(
  config: ConfigReader,
  generation: keyof typeof ROUTER_DEFAULTS,
): DeepseekConfig {
  const size = (field: string) => readSize(config, field);
  const vectors = (field: string) => {
    const elements = size(field);
    if (elements % VECTOR === 0) return elements;
    const feature = `${field} ${elements} of ${config.file}`;
    throw new UnsupportedError(feature, `only multiples of ${VECTOR} are supported`);
  };
  config.only("attention_bias", [false]);
  config.only("mlp_bias", [false]);
  config.only("hidden_act", ["silu"]);
  config.only("rope_interleave", [true]);
  const heads = size("num_attention_heads");
  if (config.integer("num_key_value_heads", { fallback: heads }) !== heads) {
    throw config.error("num_key_value_heads", `it must equal num_attention_heads, ${heads}`);
  }
  const rope = vectors("qk_rope_head_dim");
  const nope = vectors("qk_nope_head_dim");
  const latent = vectors("kv_lora_rank");
  if (latent > MLA_DECODE_MAX_LATENT) {
    throw config.error("kv_lora_rank", `a latent may have ${MLA_DECODE_MAX_LATENT} elements`);
  }
  // Some files repeat what follows from the others.
  for (const [field, value] of [
    ["head_dim", [rope, nope + rope]],
    ["qk_head_dim", [nope + rope]],
  ] as const) {
    const given = config.integer(field, { fallback: value[0]! });
    if (!(value as readonly number[]).includes(given)) {
      throw config.error(field, `it is ${given}, which contradicts the other sizes`);
    }
  }
  const parsed: DeepseekConfig = {
    hiddenSize: config.integer("hidden_size", { min: 1, max: LIMITS.hiddenSize }),
    vocabularySize: size("vocab_size"),
    layers: readLayers(config),
    draftLayers: config.integer("num_nextn_predict_layers", { min: 0, fallback: 0 }),
    contextLength: readPositions(config),
    normEps: config.number("rms_norm_eps", { min: 0, fallback: 1e-6 }),
    heads,
    queryLatent: config.integer("q_lora_rank", {
      min: 1,
      max: LIMITS.queryLatent,
      fallback: null,
    }),
    latent,
    nope,
    rope,
    value: vectors("v_head_dim"),
    ...readDeepseekRope(config),
    denseIntermediate: size("intermediate_size"),
    experts: readDeepseekExperts(config, generation),
    tiedEmbeddings: config.boolean("tie_word_embeddings", { fallback: false }),
  };
  const { layers, experts } = parsed;
  if (experts !== undefined) checkExperts(config, { layers, routed: experts.routed });
  config.finish({ ignored: ["quantization_config"] });
  return parsed;
}

/** Only what the public code of the family has: YaRN with its own two mscale fields. */
function readDeepseekRope(config: ConfigReader): Pick<DeepseekConfig, "ropeTheta" | "yarn"> {
  const { theta = 10000, section, type } = readRopeSection(config, ["default", "yarn"]);
  if (section === undefined || type === "default") return { ropeTheta: theta, yarn: undefined };
  section.only("truncate", [true]);
  const yarn: YarnScaling = {
    type,
    factor: section.number("factor", { min: 1 }),
    originalMaxPosition: section.integer("original_max_position_embeddings", { min: 2 }),
    betaFast: positive(section, "beta_fast", { fallback: 32 }),
    betaSlow: positive(section, "beta_slow", { fallback: 1 }),
    mscale: section.number("mscale", { fallback: 1 }),
    mscaleAllDim: section.number("mscale_all_dim", { fallback: 0 }),
  };
  return { ropeTheta: theta, yarn };
}

/** Of either generation; undefined without experts. */
export function readDeepseekExperts(
  config: ConfigReader,
  generation: keyof typeof ROUTER_DEFAULTS,
): ExpertConfig | undefined {
  const defaults = ROUTER_DEFAULTS[generation];
  const most = (max: number) => ({ min: 1, max });
  const routed = config.integer("n_routed_experts", {
    ...most(MAX_EXPERTS),
    fallback: undefined,
  });
  const perToken = config.integer("num_experts_per_tok", {
    ...most(MAX_EXPERTS_PER_TOKEN),
    fallback: defaults.perToken,
  });
  const numbers = {
    shared: config.integer("n_shared_experts", {
      min: 0,
      max: MAX_EXPERTS_PER_TOKEN,
      fallback: 0,
    }),
    intermediate: readSize(config, "moe_intermediate_size", { fallback: 1 }),
    firstLayer: config.integer("first_k_dense_replace", { min: 0, fallback: 0 }),
    layerPeriod: config.integer("moe_layer_freq", { min: 1, fallback: 1 }),
  };
  const factor = config.number("routed_scaling_factor", { fallback: defaults.scalingFactor });
  const scoring = config.only("scoring_func", defaults.scoring);
  const selection = config.only("topk_method", [
    defaults.selection,
    "greedy",
    "group_limited_greedy",
    "noaux_tc",
  ]);
  const asked = config.boolean("norm_topk_prob", { fallback: defaults.normalize });
  const groups = config.integer("n_group", {
    ...most(MAX_EXPERT_GROUPS),
    fallback: defaults.groups,
  });
  const groupsKept = config.integer("topk_group", { min: 1, fallback: defaults.groupsKept });
  if (routed === undefined) return undefined;
  if (perToken === undefined) {
    throw config.error("num_experts_per_tok", "the field is missing");
  }
  if (perToken > routed) {
    throw config.error("num_experts_per_tok", `it is above n_routed_experts, ${routed}`);
  }
  const grouped = selection !== "greedy";
  if (grouped && (routed % groups !== 0 || groupsKept > groups)) {
    throw config.error("n_group", `${routed} experts in ${groups} groups, ${groupsKept} kept`);
  }
  if (grouped && perToken > (routed / groups) * groupsKept) {
    throw config.error("topk_group", `the groups kept hold fewer experts than a token needs`);
  }
  if (selection === "noaux_tc" && groups > 1 && routed / groups < 2) {
    throw config.error(
      "n_group",
      "a group needs two experts: its score is the sum of its best two",
    );
  }
  const weighting = expertWeighting(generation, { asked, perToken, selection, factor });
  return { routed, perToken, ...numbers, scoring, selection, groups, groupsKept, ...weighting };
}

/**
 * How the weights of a token's experts are made of their scores, as DeepSeek published it with each
 * generation. Ports of V2 differ in what a factor means beside normalizing, or leave the latter out;
 * all of them agree on the models that there are.
 *
 * V3 normalizes, then scales. V2 normalizes or scales, and a single expert's weight is only scaled;
 * with "noaux_tc", which came with DeepSeek-VL2's edition of V2, it does both.
 *
 * @param options `asked`: the file's `norm_topk_prob`.
 */
function expertWeighting(
  generation: keyof typeof ROUTER_DEFAULTS,
  options: Pick<ExpertConfig, "perToken" | "selection"> & {
    readonly asked: boolean;
    readonly factor: number;
  },
): Pick<ExpertConfig, "normalize" | "scalingFactor"> {
  const { asked, perToken, selection, factor } = options;
  const isV2 = generation === "v2";
  const normalize = asked && !(isV2 && perToken === 1);
  const isScaled = !(isV2 && normalize) || selection === "noaux_tc";
  return { normalize, scalingFactor: isScaled ? factor : 1 };
}
