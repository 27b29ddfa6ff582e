/**
 * Rotary embeddings of the published scalings in f64, read from config.json's own fields.
 *
 * @module
 */
import { magnitude } from "./reference_math.ts";

/** `rope_scaling` or `rope_parameters`; absent fields as the public code takes them. */
export interface RopeSection {
  readonly rope_type?: string;
  readonly type?: string;
  readonly rope_theta?: number;
  readonly factor?: number;
  readonly original_max_position_embeddings?: number;
  readonly beta_fast?: number;
  readonly beta_slow?: number;
  readonly truncate?: boolean;
  readonly attention_factor?: number;
  readonly low_freq_factor?: number;
  readonly high_freq_factor?: number;
  readonly short_factor?: readonly number[];
  readonly long_factor?: readonly number[];
}

export interface RopeAngles {
  /** Radians per position of each pair, float32 numbers. */
  readonly speeds: readonly number[];
  /** What cosines and sines are multiplied by. */
  readonly length: number;
}

/**
 * @param sizes `dim` elements turn; `positions` is the context that the engine was opened with, which
 * some scalings go by.
 */
export function referenceRope(
  section: RopeSection,
  sizes: {
    readonly theta: number;
    readonly dim: number;
    readonly positions: number;
    /** Before any extension, where the section does not say. */
    readonly original: number;
    readonly maxPosition: number;
  },
): RopeAngles {
  const { theta, dim, positions, maxPosition } = sizes;
  const { factor = 1, original_max_position_embeddings: original = sizes.original } = section;
  const speedsOf = (base: number) =>
    Array.from({ length: dim / 2 }, (_, i) => base ** ((-2 * i) / dim));
  const plain = speedsOf(theta);
  switch (section.rope_type ?? section.type ?? "default") {
    case "default":
      return { speeds: plain.map(Math.fround), length: 1 };
    case "linear":
      return { speeds: plain.map((speed) => Math.fround(speed / factor)), length: 1 };
    case "dynamic": {
      const stretch = (factor * Math.max(positions, original)) / original - (factor - 1);
      return {
        speeds: speedsOf(theta * stretch ** (dim / (dim - 2))).map(Math.fround),
        length: 1,
      };
    }
    case "llama3": {
      const { low_freq_factor: low = 1, high_freq_factor: high = 4 } = section;
      const speeds = plain.map((speed) => {
        const turns = (original * speed) / (2 * Math.PI);
        const kept = Math.min(Math.max((turns - low) / (high - low), 0), 1);
        return Math.fround(speed * kept + (speed / factor) * (1 - kept));
      });
      return { speeds, length: 1 };
    }
    case "yarn": {
      const { beta_fast: fast = 32, beta_slow: slow = 1, truncate = true } = section;
      const pairOf = (turns: number) =>
        ((dim / 2) * Math.log(original / (turns * 2 * Math.PI))) / Math.log(theta);
      const low = Math.max(truncate ? Math.floor(pairOf(fast)) : pairOf(fast), 0);
      const end = truncate ? Math.ceil(pairOf(slow)) : pairOf(slow);
      const high = Math.min(end, dim - 1);
      const speeds = plain.map((speed, i) => {
        const ramp = Math.min(Math.max((i - low) / (high - low || 0.001), 0), 1);
        return Math.fround((speed / factor) * ramp + speed * (1 - ramp));
      });
      return { speeds, length: section.attention_factor ?? magnitude(factor, 1) };
    }
    case "longrope": {
      const factors = positions > original ? section.long_factor! : section.short_factor!;
      const grown = section.factor ?? maxPosition / original;
      const length =
        section.attention_factor ??
        (grown <= 1 ? 1 : Math.sqrt(1 + Math.log(grown) / Math.log(original)));
      return { speeds: plain.map((speed, i) => Math.fround(speed / factors[i]!)), length };
    }
    default:
      throw new Error(`${section.rope_type ?? section.type} is not known here`);
  }
}
