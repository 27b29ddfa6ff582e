/**
 * config.json of the DeepSeek-V2 and V3 families, checked field by field.
 *
 * @module
 */
import type { ConfigReader } from "../checkpoint/config.ts";
import type { YarnScaling } from "../layers/rope_table.ts";

export interface DeepseekConfig {
  readonly hiddenSize: number;
  readonly vocabularySize: number;
  readonly layers: number;
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
  readonly normalize: boolean;
  readonly scalingFactor: number;
}

/** What an absent field of the router means in each generation of the family. */
export const ROUTER_DEFAULTS = {
  v2: { scoring: ["softmax", "sigmoid"], selection: "greedy", normalize: false },
  v3: { scoring: ["sigmoid", "softmax"], selection: "noaux_tc", normalize: true },
} as const;

/** @throws {CheckpointError | UnsupportedError} naming the field. */
export function readDeepseekConfig(
  config: ConfigReader,
  generation: keyof typeof ROUTER_DEFAULTS,
): DeepseekConfig {
  const size = (field: string) => config.integer(field, { min: 1 });
  config.only("attention_bias", [false]);
  config.only("hidden_act", ["silu"]);
  config.only("rope_interleave", [true]);
  const heads = size("num_attention_heads");
  if (config.integer("num_key_value_heads", { fallback: heads }) !== heads) {
    throw config.error("num_key_value_heads", `it must equal num_attention_heads, ${heads}`);
  }
  const rope = size("qk_rope_head_dim");
  if (rope % 2 !== 0) throw config.error("qk_rope_head_dim", `${rope} is odd`);
  const nope = size("qk_nope_head_dim");
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
    hiddenSize: size("hidden_size"),
    vocabularySize: size("vocab_size"),
    layers: size("num_hidden_layers"),
    contextLength: config.integer("max_position_embeddings", { min: 1 }),
    normEps: config.number("rms_norm_eps", { min: 0, fallback: 1e-6 }),
    heads,
    queryLatent: config.integer("q_lora_rank", { min: 1, fallback: null }),
    latent: size("kv_lora_rank"),
    nope,
    rope,
    value: size("v_head_dim"),
    ropeTheta: config.number("rope_theta", { min: 1, fallback: 10000 }),
    yarn: readYarn(config),
    denseIntermediate: size("intermediate_size"),
    experts: readExperts(config, generation),
    tiedEmbeddings: config.boolean("tie_word_embeddings", { fallback: false }),
  };
  config.finish({ ignored: ["num_nextn_predict_layers", "quantization_config"] });
  return parsed;
}

function readYarn(config: ConfigReader): YarnScaling | undefined {
  const section = config.section("rope_scaling", { fallback: undefined });
  if (section === undefined) return undefined;
  // Older files say "type", newer ones "rope_type", some both.
  const field = section.has("rope_type") ? "rope_type" : "type";
  section.only(field, ["yarn"]);
  if (section.has("type")) section.only("type", ["yarn"]);
  if (section.has("rope_theta")) {
    const theta = section.number("rope_theta");
    if (theta !== config.number("rope_theta", { fallback: 10000 })) {
      throw section.error("rope_theta", `it is ${theta}, which contradicts the field outside`);
    }
  }
  return {
    factor: section.number("factor", { min: 1 }),
    originalMaxPosition: section.integer("original_max_position_embeddings", { min: 1 }),
    betaFast: section.number("beta_fast", { fallback: 32 }),
    betaSlow: section.number("beta_slow", { fallback: 1 }),
    mscale: section.number("mscale", { fallback: 1 }),
    mscaleAllDim: section.number("mscale_all_dim", { fallback: 0 }),
  };
}

function readExperts(
  config: ConfigReader,
  generation: keyof typeof ROUTER_DEFAULTS,
): ExpertConfig | undefined {
  const defaults = ROUTER_DEFAULTS[generation];
  const routed = config.integer("n_routed_experts", { min: 1, fallback: undefined });
  const numbers = {
    shared: config.integer("n_shared_experts", { min: 0, fallback: 0 }),
    perToken: config.integer("num_experts_per_tok", { min: 1, fallback: 1 }),
    intermediate: config.integer("moe_intermediate_size", { min: 1, fallback: 1 }),
    firstLayer: config.integer("first_k_dense_replace", { min: 0, fallback: 0 }),
    layerPeriod: config.integer("moe_layer_freq", { min: 1, fallback: 1 }),
    scalingFactor: config.number("routed_scaling_factor", { fallback: 1 }),
  };
  const scoring = config.only("scoring_func", defaults.scoring);
  const selection = config.only("topk_method", [
    defaults.selection,
    "greedy",
    "group_limited_greedy",
    "noaux_tc",
  ]);
  const normalize = config.boolean("norm_topk_prob", { fallback: defaults.normalize });
  const groups = config.integer("n_group", { min: 1, fallback: 1 });
  const groupsKept = config.integer("topk_group", { min: 1, fallback: 1 });
  if (routed === undefined) return undefined;
  if (numbers.perToken > routed) {
    throw config.error("num_experts_per_tok", `it is above n_routed_experts, ${routed}`);
  }
  const grouped = selection !== "greedy";
  if (grouped && (routed % groups !== 0 || groupsKept > groups)) {
    throw config.error("n_group", `${routed} experts in ${groups} groups, ${groupsKept} kept`);
  }
  if (grouped && numbers.perToken > (routed / groups) * groupsKept) {
    throw config.error("topk_group", `the groups kept hold fewer experts than a token needs`);
  }
  if (selection === "noaux_tc" && groups > 1 && routed / groups < 2) {
    throw config.error(
      "n_group",
      "a group needs two experts: its score is the sum of its best two",
    );
  }
  return { routed, ...numbers, scoring, selection, groups, groupsKept, normalize };
}
