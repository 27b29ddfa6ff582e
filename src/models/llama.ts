/**
 * Llama 2 and 3, and what has their shape.
 *
 * Source: Grattafiori et al., "The Llama 3 Herd of Models" (2024).
 *
 * @module
 */
import { gqaArchitecture } from "./gqa_decoder.ts";

export const llama = gqaArchitecture({ architecture: "LlamaForCausalLM" });
