/**
 * Mistral 7B and its successors: the first one's layers all slide.
 *
 * Source: Jiang et al., "Mistral 7B" (2023).
 *
 * @module
 */
import { gqaArchitecture } from "./gqa_decoder.ts";

export const mistral = gqaArchitecture({
  architecture: "MistralForCausalLM",
  defaults: { slidingWindow: 4096 },
  slides: () => true,
});
