/**
 * Qwen3: every head's query and key is normed before it turns.
 *
 * Source: Yang et al., "Qwen3 Technical Report" (2025).
 *
 * @module
 */

import { qwenSlides } from "./config/qwen_window.ts";
import { gqaArchitecture } from "./gqa_decoder.ts";

export const qwen3 = gqaArchitecture({
  architecture: "Qwen3ForCausalLM",
  headNorms: true,
  defaults: { headDim: 128, slidingWindow: 4096 },
  slides: qwenSlides,
});
