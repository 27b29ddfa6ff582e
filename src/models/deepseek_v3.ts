/**
 * DeepSeek-V3 and R1: sigmoid router with correction bias, FP8 blocks, an MTP layer to skip.
 *
 * @module
 */
import { defineDeepseek } from "./deepseek.ts";
import type { ModelArchitecture } from "./model.ts";

export const deepseekV3: ModelArchitecture = {
  names: ["DeepseekV3ForCausalLM"],
  define: (reader, quantization, ranks) => defineDeepseek("v3", { reader, quantization, ranks }),
};
