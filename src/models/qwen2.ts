/**
 * Qwen2 and Qwen2.5, and the distillations into them: queries, keys and values have biases.
 *
 * Source: Yang et al., "Qwen2 Technical Report" (2024).
 *
 * @module
 */

import { qwenSlides } from "./config/qwen_window.ts";
import { gqaArchitecture } from "./gqa_decoder.ts";

export const qwen2 = gqaArchitecture({
  architecture: "Qwen2ForCausalLM",
  projectionBias: true,
  defaults: { slidingWindow: 4096 },
  slides: qwenSlides,
});
