/**
 * Qwen3: every head's query and key is normed before it turns.
 *
 * Source: Yang et al., "Qwen3 Technical Report" (2025).
 *
 * @module
 */
import { gqaArchitecture } from "./gqa_decoder.ts";
import { qwenSlides } from "./qwen_window.ts";

export const qwen3 = gqaArchitecture({
  architecture: "Qwen3ForCausalLM",
  headNorms: true,
  defaults: { headDim: 128, slidingWindow: 4096 },
  slides: qwenSlides,
});
