/**
 * How fast each pair of a rotary embedding turns, for every published way of stretching a context.
 *
 * Some ways depend on how long a sequence is; libraries that run them change the angles of a
 * sequence while it grows. Here the engine's context length decides, once: a token's bits then
 * depend neither on the length of its sequence nor on when its keys were cached.
 *
 * Sources: Su et al., "RoFormer" (2021); Chen et al., "Extending Context Window of Large Language
 * Models via Positional Interpolation" (2023), linear; bloc97, "Dynamically Scaled RoPE" (2023),
 * dynamic; Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models" (2023);
 * Llama Team, "The Llama 3 Herd of Models" (2024), llama3; Ding et al., "LongRoPE" (2024).
 *
 * @module
 */

/** Every position counts as `position / factor`. */
export interface LinearScaling {
  readonly type: "linear";
  readonly factor: number;
}

/** A larger theta, so that a context of any length turns the slowest pair as far as before. */
export interface DynamicScaling {
  readonly type: "dynamic";
  readonly factor: number;
  /** A context of up to this many positions is not scaled. */
  readonly originalMaxPosition: number;
}

/** Fast pairs keep their speed, slow ones are slowed down by the whole factor. */
export interface YarnScaling {
  readonly type: "yarn";
  /** How many times longer the context becomes. */
  readonly factor: number;
  /** Positions of the context before the extension. */
  readonly originalMaxPosition: number;
  /** A pair that turns at least this often over the original context keeps its speed... */
  readonly betaFast: number;
  /** ...and one that turns at most this often is slowed down by the whole factor. */
  readonly betaSlow: number;
  /** The ends of the ramp between the two are moved outwards to whole pairs. Default true. */
  readonly truncate?: boolean;
  /** What the table is multiplied by. Default: the ratio of the two mscale factors. */
  readonly attentionFactor?: number;
  /** 1 when the config has none. */
  readonly mscale: number;
  /** 0 when the config has none. */
  readonly mscaleAllDim: number;
}

/** As YaRN, with a ramp over wavelengths. */
export interface Llama3Scaling {
  readonly type: "llama3";
  readonly factor: number;
  readonly originalMaxPosition: number;
  /** A pair that turns at most this often over the original context is slowed down wholly... */
  readonly lowFrequencyFactor: number;
  /** ...and one that turns at least this often keeps its speed. */
  readonly highFrequencyFactor: number;
}

/** Each pair is slowed down by a factor of its own. */
export interface LongScaling {
  readonly type: "longrope";
  /** Of each pair, for a context of up to `originalMaxPosition` positions. */
  readonly shortFactors: readonly number[];
  /** Of each pair, for a longer context. */
  readonly longFactors: readonly number[];
  readonly originalMaxPosition: number;
  /** What the table is multiplied by, whichever factors are in use. */
  readonly attentionFactor: number;
}

export type RopeScaling =
  | LinearScaling
  | DynamicScaling
  | YarnScaling
  | Llama3Scaling
  | LongScaling;

export interface RopeTableOptions {
  readonly theta: number;
  /** Elements that turn, an even number. */
  readonly dim: number;
  readonly scaling?: RopeScaling | undefined;
  /** The engine's context length: rows of the table, and what length-dependent scalings go by. */
  readonly positions: number;
}

/** Radians per position of each of the `dim / 2` pairs: computed in f64, rounded once to f32. */
export function inverseFrequencies(options: RopeTableOptions): Float32Array {
  const { dim } = options;
  const theta = thetaOf(options);
  const plain = Float64Array.from({ length: dim / 2 }, (_, i) => 1 / theta ** ((2 * i) / dim));
  return Float32Array.from(plain, slowdown(options));
}

/** What cosines and sines are multiplied by. */
export function ropeMagnitude(scaling: RopeScaling | undefined): number {
  if (scaling?.type === "longrope") return scaling.attentionFactor;
  if (scaling?.type !== "yarn") return 1;
  const { factor, mscale, mscaleAllDim, attentionFactor } = scaling;
  return attentionFactor ?? mscaleFactor(factor, mscale) / mscaleFactor(factor, mscaleAllDim);
}

/** YaRN's `0.1 * mscale * ln(factor) + 1`, which makes up for attention spread over more keys. */
export function mscaleFactor(factor: number, mscale: number): number {
  return factor <= 1 ? 1 : 0.1 * mscale * Math.log(factor) + 1;
}

function thetaOf({ theta, dim, scaling, positions }: RopeTableOptions): number {
  if (scaling?.type !== "dynamic" || positions <= scaling.originalMaxPosition) return theta;
  const { factor, originalMaxPosition } = scaling;
  const stretched = (factor * positions) / originalMaxPosition - (factor - 1);
  return theta * stretched ** (dim / (dim - 2));
}

/** The speed of a pair as a function of its speed without scaling. */
function slowdown(options: RopeTableOptions): (frequency: number, pair: number) => number {
  const { scaling, positions } = options;
  switch (scaling?.type) {
    case undefined:
    case "dynamic":
      return (frequency) => frequency;
    case "linear":
      return (frequency) => frequency / scaling.factor;
    case "yarn":
      return yarnSlowdown(options, scaling);
    case "llama3":
      return llama3Slowdown(scaling);
    case "longrope": {
      const isLong = positions > scaling.originalMaxPosition;
      const factors = isLong ? scaling.longFactors : scaling.shortFactors;
      return (frequency, pair) => frequency / factors[pair]!;
    }
    default:
      return scaling satisfies never;
  }
}

function yarnSlowdown({ theta, dim }: RopeTableOptions, scaling: YarnScaling) {
  const { factor, originalMaxPosition, betaFast, betaSlow, truncate = true } = scaling;
  // The (fractional) pair that makes this many turns over the original context.
  const pairOf = (turns: number) =>
    (dim * Math.log(originalMaxPosition / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const [first, last] = [pairOf(betaFast), pairOf(betaSlow)];
  const low = Math.max(truncate ? Math.floor(first) : first, 0);
  const high = Math.min(truncate ? Math.ceil(last) : last, dim - 1);
  const width = high === low ? 0.001 : high - low;
  return (frequency: number, pair: number) => {
    const slowed = Math.min(Math.max((pair - low) / width, 0), 1);
    return (frequency / factor) * slowed + frequency * (1 - slowed);
  };
}

function llama3Slowdown(scaling: Llama3Scaling) {
  const { factor, originalMaxPosition, lowFrequencyFactor, highFrequencyFactor } = scaling;
  return (frequency: number) => {
    const turns = (originalMaxPosition * frequency) / (2 * Math.PI);
    if (turns > highFrequencyFactor) return frequency;
    if (turns < lowFrequencyFactor) return frequency / factor;
    const kept = (turns - lowFrequencyFactor) / (highFrequencyFactor - lowFrequencyFactor);
    return ((1 - kept) * frequency) / factor + kept * frequency;
  };
}
