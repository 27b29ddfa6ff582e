/**
 * DeepSeek-V2 and V2-Lite: softmax router, queries with or without a latent.
 *
 * @module
 */
import { defineDeepseek } from "./deepseek.ts";
import type { ModelArchitecture } from "./model.ts";

export const deepseekV2: ModelArchitecture = {
  names: ["DeepseekV2ForCausalLM"],
  define: (reader, quantization, ranks) => defineDeepseek("v2", { reader, quantization, ranks }),
};
