/**
 * DeepSeek-V2 and V2-Lite: softmax router, queries with or without a latent.
 *
 * @module
 */
import { ONE_RANK } from "../parallel/communicator.ts";
import { defineDeepseek } from "./deepseek.ts";
import type { ModelArchitecture } from "./model.ts";

export const deepseekV2: ModelArchitecture = {
  names: ["DeepseekV2ForCausalLM"],
  define: (reader, quantization, communicator = ONE_RANK) =>
    defineDeepseek("v2", { reader, quantization, communicator }),
};
