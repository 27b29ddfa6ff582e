/**
 * gpt-oss: experts in MXFP4 with biases and a clamped gate, a sink in every head's softmax, and
 * every other layer sees a short window.
 *
 * Source: OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card" (2025).
 *
 * @module
 */
import type { ConfigReader } from "../checkpoint/config.ts";
import type { Quantization } from "../checkpoint/quantization.ts";
import { UnsupportedError } from "../errors.ts";
import type { DefinedRanks } from "../layers/ranks/ranked_model.ts";
import { readEither } from "./config/either_field.ts";
import { MAX_EXPERTS, MAX_EXPERTS_PER_TOKEN, SOFTMAX_ROUTER } from "./config/expert_limits.ts";
import type { GqaConfig } from "./config/gqa_config.ts";
import { readSize } from "./config/size_limits.ts";
import { gqaArchitecture } from "./gqa_decoder.ts";
import type { ModelArchitecture } from "./model.ts";

/** Steepness of the gate's sigmoid where the file does not say. */
const GATE_ALPHA = 1.702;

const decoder = gqaArchitecture({
  architecture: "GptOssForCausalLM",
  sinks: true,
  defaults: {
    headDim: 64,
    ropeTheta: 150000,
    attentionBias: true,
    slidingWindow: 128,
    normEps: 1e-5,
  },
  slides: (_, layer) => layer % 2 === 0,
  experts: readExperts,
  expertsOnly: true,
});

export const gptOss: ModelArchitecture = {
  ...decoder,
  define(config: ConfigReader, quantization: Quantization, ranks?: DefinedRanks) {
    if (quantization.method !== "mxfp4") {
      throw new UnsupportedError(
        `${decoder.names[0]} without quantization method "mxfp4" of ${config.file}`,
        "its experts are read as OpenAI published them",
      );
    }
    if (!config.has("rope_scaling") && !config.has("rope_parameters")) {
      // Versions of the published code differ in what it is then.
      throw config.error("rope_scaling", "the field is missing");
    }
    return decoder.define(config, quantization, ranks);
  },
};

function readExperts(config: ConfigReader): GqaConfig["experts"] {
  const routed = config.integer("num_local_experts", { min: 1, max: MAX_EXPERTS });
  const most = { min: 1, max: Math.min(MAX_EXPERTS_PER_TOKEN, routed) };
  // Older files repeat the number under the name that OpenAI's own code has for it.
  const perToken = readEither(config, ["num_experts_per_tok", "experts_per_token"], most);
  const alpha = config.number("swiglu_alpha", { min: 0, fallback: GATE_ALPHA });
  const limit = config.number("swiglu_limit", { min: 0, fallback: 7 });
  return {
    ...SOFTMAX_ROUTER,
    routed,
    perToken,
    intermediate: readSize(config, "intermediate_size"),
    // A softmax over the chosen logits is one over all of them, divided by the sum of the chosen.
    normalize: true,
    router: { name: "router", bias: true },
    stackedMxfp4: true,
    activation: { kind: "clamped", alpha, limit },
    isSparse: () => true,
  };
}
