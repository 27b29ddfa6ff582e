/**
 * Pairs of tokens of a small random model, and how unlikely their counts are: the measure of
 * verification that has to leave the model's distribution as it is.
 *
 * @module
 */
import { seeded } from "../seeded.ts";

export const VOCABULARY = 6;

/** Where the strangeness of a right rule stays, and what that of a wrong one exceeds. */
export const LIKELY = 4;
export const WRONG = 10;

/** Times that a pair is wanted to come, in rounded numbers, which never comes. */
const NEVER = 1e-6;

export interface PairModel {
  /** Probabilities of the first token, and of the second one behind each. */
  readonly first: readonly number[];
  readonly second: readonly (readonly number[])[];
}

export function pairModel(seed: number): PairModel {
  const random = seeded(seed);
  const first = dirichlet(random);
  return { first, second: first.map(() => dirichlet(random)) };
}

/** Probabilities of six tokens, none of them small. (Dirichlet of 0.8, through gamma variates.) */
function dirichlet(random: () => number): number[] {
  const weights = Array.from({ length: VOCABULARY }, () => gamma(0.8, random));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const raised = weights.map((weight) => weight / total + 0.02);
  const mass = raised.reduce((sum, weight) => sum + weight, 0);
  return raised.map((weight) => weight / mass);
}

/** Marsaglia and Tsang's method; below 1 by a variate of shape + 1 and a power of a uniform one. */
function gamma(shape: number, random: () => number): number {
  const d = shape + 1 - 1 / 3;
  for (;;) {
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const v = (1 + normal / Math.sqrt(9 * d)) ** 3;
    if (v <= 0) continue;
    if (Math.log(1 - random()) < normal ** 2 / 2 + d - d * v + d * Math.log(v)) {
      return d * v * random() ** (1 / shape);
    }
  }
}

/** The token that a number in [0, 1) gives. */
export function drawn(probabilities: readonly number[], number: number): number {
  let left = number;
  for (let token = 0; token < probabilities.length; token++) {
    left -= probabilities[token]!;
    if (left < 0) return token;
  }
  return probabilities.length - 1;
}

/**
 * How unlikely it is that so many pairs came from the model, as a standard normal variate.
 *
 * (Wilson and Hilferty's cube root of a chi-square sum.)
 *
 * @param counts By first token times `VOCABULARY`, plus the second.
 */
export function strangeness({ first, second }: PairModel, counts: ArrayLike<number>): number {
  const all = Array.from(counts);
  const runs = all.reduce((total, count) => total + count, 0);
  const wanted = all.map((_, pair) => {
    const a = Math.floor(pair / VOCABULARY);
    return runs * first[a]! * second[a]![pair % VOCABULARY]!;
  });
  const sum = all.reduce((total, count, pair) => {
    // A pair that never comes is infinitely strange.
    if (count === wanted[pair]) return total;
    return total + (count - wanted[pair]!) ** 2 / wanted[pair]!;
  }, 0);
  const freedom = wanted.filter((count) => count > NEVER).length - 1;
  const spread = 2 / (9 * freedom);
  return (Math.cbrt(sum / freedom) - (1 - spread)) / Math.sqrt(spread);
}
