/**
 * Rotary position embeddings as a table: the cosine and sine of every position and pair, computed
 * once on the host when a model loads.
 *
 * @module
 */

import {
  inverseFrequencies,
  mscaleFactor,
  type RopeTableOptions,
  ropeMagnitude,
  type YarnScaling,
} from "./rope_scaling.ts";

export interface SoftmaxScaleOptions {
  readonly nope: number;
  readonly rope: number;
  readonly scaling?: YarnScaling | undefined;
}

/**
 * `[positions, dim]`: for position p and pair i, the cosine at `p * dim + 2i` and the sine after
 * it, both times the scaling's magnitude.
 */
export function ropeTable(options: RopeTableOptions): Float32Array {
  const { dim, scaling, positions } = options;
  const frequencies = inverseFrequencies(options);
  const magnitude = ropeMagnitude(scaling);
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

/**
 * What the scores of latent attention are multiplied by: `(nope + rope)^-0.5`, times the square of
 * YaRN's factor for all dimensions, as in the public DeepSeek code.
 */
export function softmaxScale({ nope, rope, scaling }: SoftmaxScaleOptions): number {
  const plain = (nope + rope) ** -0.5;
  if (scaling === undefined) return plain;
  return plain * mscaleFactor(scaling.factor, scaling.mscaleAllDim) ** 2;
}
