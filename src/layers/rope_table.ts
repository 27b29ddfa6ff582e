/**
 * Rotary position embeddings as a table: the cosine and sine of every position and pair, computed
 * once on the host when a model loads.
 *
 * YaRN is Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models" (2023),
 * in the form of the public DeepSeek code, which the checkpoints were trained with.
 *
 * @module
 */

/** Fields of `rope_scaling` in a DeepSeek config. */
export interface YarnScaling {
  /** How many times longer the context becomes. */
  readonly factor: number;
  /** Positions of the context before the extension. */
  readonly originalMaxPosition: number;
  /** A pair that turns at least this often over the original context keeps its speed... */
  readonly betaFast: number;
  /** ...and one that turns at most this often is slowed down by the whole factor. */
  readonly betaSlow: number;
  readonly mscale: number;
  /** 0 when the config has none. */
  readonly mscaleAllDim: number;
}

export interface RopeOptions {
  readonly theta: number;
  /** Elements of a rope vector, an even number. */
  readonly dim: number;
  readonly scaling?: YarnScaling | undefined;
}

export interface RopeTableOptions extends RopeOptions {
  /** Rows of the table; position p is row p. */
  readonly positions: number;
}

export interface SoftmaxScaleOptions {
  readonly nope: number;
  readonly rope: number;
  readonly scaling?: YarnScaling | undefined;
}

/** Radians per position of each of the `dim / 2` pairs: computed in f64, rounded once to f32. */
export function inverseFrequencies({ theta, dim, scaling }: RopeOptions): Float32Array {
  const plain = Float64Array.from({ length: dim / 2 }, (_, i) => 1 / theta ** ((2 * i) / dim));
  if (scaling === undefined) return Float32Array.from(plain);
  const { factor, originalMaxPosition, betaFast, betaSlow } = scaling;
  // The (fractional) pair that makes this many turns over the original context.
  const pairOf = (turns: number) =>
    (dim * Math.log(originalMaxPosition / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const low = Math.max(Math.floor(pairOf(betaFast)), 0);
  const high = Math.min(Math.ceil(pairOf(betaSlow)), dim - 1);
  const width = high === low ? 0.001 : high - low;
  return Float32Array.from(plain, (frequency, i) => {
    const slowed = Math.min(Math.max((i - low) / width, 0), 1);
    return (frequency / factor) * slowed + frequency * (1 - slowed);
  });
}

/**
 * `[positions, dim]`: for position p and pair i, the cosine at `p * dim + 2i` and the sine after
 * it, both times YaRN's ratio of the two mscale factors.
 */
export function ropeTable(options: RopeTableOptions): Float32Array {
  const { dim, scaling, positions } = options;
  const frequencies = inverseFrequencies(options);
  const magnitude =
    scaling === undefined
      ? 1
      : mscaleFactor(scaling.factor, scaling.mscale) /
        mscaleFactor(scaling.factor, scaling.mscaleAllDim);
  const table = new Float32Array(positions * dim);
  for (let position = 0; position < positions; position++) {
    for (let pair = 0; pair < dim / 2; pair++) {
      // The public code multiplies in f32; far positions notice.
      const angle = Math.fround(position * frequencies[pair]!);
      table[position * dim + 2 * pair] = Math.cos(angle) * magnitude;
      table[position * dim + 2 * pair + 1] = Math.sin(angle) * magnitude;
    }
  }
  return table;
}

/** What attention scores are multiplied by: `(nope + rope)^-0.5`, times YaRN's squared mscale. */
export function softmaxScale({ nope, rope, scaling }: SoftmaxScaleOptions): number {
  const plain = (nope + rope) ** -0.5;
  if (scaling === undefined) return plain;
  return plain * mscaleFactor(scaling.factor, scaling.mscaleAllDim) ** 2;
}

function mscaleFactor(factor: number, mscale: number): number {
  return factor <= 1 ? 1 : 0.1 * mscale * Math.log(factor) + 1;
}
