/**
 * Frequencies of the rotary embedding in f64: plain, llama3, and YaRN with the ramp rounded or not.
 *
 * Source: Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models" (2023).
 *
 * @module
 */
import type { ModelConfig } from "./gguf/gguf_metadata.ts";

export interface Frequencies {
  /** Radians per position, one for each pair of a head. */
  readonly frequencies: readonly number[];
  /** What cosines and sines are multiplied by. */
  readonly magnitude: number;
}

export function rotaryFrequencies(config: ModelConfig): Frequencies {
  const { rope_theta: theta, rope_scaling: scaling } = config;
  const size = config.head_dim!;
  const plain = Array.from({ length: size / 2 }, (_, i) => theta ** ((-2 * i) / size));
  if (scaling === null) return { frequencies: plain, magnitude: 1 };
  if (scaling.rope_type === "llama3") {
    const factors = llama3Factors(config);
    return { frequencies: plain.map((frequency, i) => frequency / factors[i]!), magnitude: 1 };
  }
  const { factor, original_max_position_embeddings: original } = scaling;
  // The pair that turns this often within the original context.
  const pairOf = (turns: number) =>
    (size * Math.log(original / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const rounded = scaling.truncate !== false;
  const low = pairOf(scaling.beta_fast ?? 32);
  const high = pairOf(scaling.beta_slow ?? 1);
  const from = Math.max(0, rounded ? Math.floor(low) : low);
  const to = Math.min(size - 1, rounded ? Math.ceil(high) : high);
  const frequencies = plain.map((frequency, i) => {
    const stretched = Math.max(0, Math.min(1, (i - from) / (to - from)));
    return (frequency / factor) * stretched + frequency * (1 - stretched);
  });
  return { frequencies, magnitude: 0.1 * Math.log(factor) + 1 };
}

/** What each frequency is divided by in Llama 3.1 and later. */
export function llama3Factors({ rope_scaling, rope_theta, head_dim }: ModelConfig): number[] {
  const { factor, low_freq_factor: low, high_freq_factor: high } = rope_scaling!;
  const original = rope_scaling!.original_max_position_embeddings;
  return Array.from({ length: head_dim! / 2 }, (_, i) => {
    const waveLength = 2 * Math.PI * rope_theta ** ((2 * i) / head_dim!);
    const smooth = (original / waveLength - low!) / (high! - low!);
    if (smooth >= 1) return 1;
    return smooth <= 0 ? factor : 1 / ((1 - smooth) / factor + smooth);
  });
}
