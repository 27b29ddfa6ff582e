/**
 * How drafts are accepted by coins, in f64 and plain loops; the product does not use it.
 *
 * @module
 */
import { distribution, drawToken, philox } from "../reference.ts";
import type { Draw } from "../sample.ts";

/** From 0 to 1; with both at 1 the output has the target's distribution. */
export interface Thresholds {
  /** A draft is accepted where the target gives it this probability. */
  readonly single: number;
  /** What a coin is compared with is divided by this. */
  readonly acc: number;
}

/** The least divisor. */
const LEAST_ACC = 1e-9;

/** Of random numbers, beside that of the plain draw. */
const COIN_STREAM = 1;

export interface Toss {
  /** The distribution that the drafts' token has, filters and temperature applied. */
  readonly target: ArrayLike<number>;
  /** Tokens, no two the same. */
  readonly drafts: readonly number[];
  /** In [0, 1), as the next one. */
  readonly coin: number;
  /** For the token behind refused drafts. */
  readonly rest: number;
  readonly thresholds: Thresholds;
  /** Tokens that are never accepted. Default none. */
  readonly forbidden?: ReadonlySet<number>;
}

/**
 * The draft whose share of the distribution a coin falls into; where it falls into none, a token that
 * is drawn from what the drafts leave.
 *
 * @returns Its place among the drafts, -1 for another token.
 */
export function toss({ target, drafts, coin, rest, thresholds, forbidden }: Toss) {
  let share = 0;
  for (const [place, token] of drafts.entries()) {
    const probability = target[token] ?? 0;
    share += probability;
    if (token >= target.length || forbidden?.has(token)) continue;
    // Below, not at: a coin of 0 must not accept what the target never gives.
    const isHit = coin < share / Math.max(thresholds.acc, LEAST_ACC);
    if (isHit || probability >= thresholds.single) return { token, place };
  }
  return { token: drawWithout(target, new Set(drafts), rest), place: -1 };
}

/** A token of a distribution without some of its tokens, in the order of ids. */
function drawWithout(target: ArrayLike<number>, refused: ReadonlySet<number>, rest: number) {
  let mass = 0;
  for (let token = 0; token < target.length; token++) {
    if (!refused.has(token)) mass += target[token]!;
  }
  // The refused tokens are all that there is where a sum of shares was rounded down to below a coin.
  if (!(mass > 0)) return mostLikely(target);
  let left = rest * mass;
  let last = 0;
  for (let token = 0; token < target.length; token++) {
    if (refused.has(token) || !(target[token]! > 0)) continue;
    last = token;
    left -= target[token]!;
    if (left < 0) break;
  }
  return last;
}

function mostLikely(target: ArrayLike<number>): number {
  let best = 0;
  for (let token = 1; token < target.length; token++) {
    if (target[token]! > target[best]!) best = token;
  }
  return best;
}

/** The token of a row whose children stand at `drafts`: coins have their places by what is drawn. */
export function verifiedToken(
  logits: ArrayLike<number>,
  draw: Draw,
  { drafts, thresholds }: Pick<Toss, "drafts" | "thresholds">,
): number {
  const { id } = drawToken(logits, draw);
  if (drafts.length === 0 || draw.temperature === 0) return id;
  const target = distribution(logits, draw);
  const number = philox(draw.seed, draw.position, COIN_STREAM) / 2 ** 32;
  let [low, width] = [0, 1];
  for (const draft of drafts) {
    width = target[draft] ?? 0;
    if (draft === id) break;
    low += width;
  }
  if (!drafts.includes(id)) width = 1 - low;
  const coin = low + number * width;
  const impossible = (token: number) => !(logits[token]! > Number.NEGATIVE_INFINITY);
  const forbidden = new Set(drafts.filter(impossible));
  const { token, place } = toss({ target, drafts, coin, rest: 0, thresholds, forbidden });
  return place === -1 ? id : token;
}
