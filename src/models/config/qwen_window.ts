/**
 * Which layers of the dense Qwen families slide, where config.json has no `layer_types`.
 *
 * @module
 */
import type { ConfigReader } from "../../checkpoint/config.ts";

/** Those from `max_window_layers` on, when `use_sliding_window` is set. */
export function qwenSlides(config: ConfigReader, layer: number): boolean {
  if (!config.boolean("use_sliding_window", { fallback: false })) return false;
  return layer >= config.integer("max_window_layers", { min: 0, fallback: 28 });
}
