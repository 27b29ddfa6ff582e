/**
 * What the sampling kernels compute, in f64 and plain loops; the product does not use it.
 *
 * @module
 */
import type { PenaltyStrengths } from "./adjust.ts";
import type { Draw } from "./sample.ts";

/** Philox2x32-10 with the counter (counter, stream): the first of the two words. */
export function philox(key: number, counter: number, stream = 0): number {
  let [low, high, round] = [counter, stream, key];
  for (let i = 0; i < 10; i++) {
    const product = BigInt(0xd256d193) * BigInt(low);
    low = (Number(product >> 32n) ^ round ^ high) >>> 0;
    high = Number(product & 0xffffffffn);
    round = (round + 0x9e3779b9) >>> 0;
  }
  return low;
}

/** The distribution a token is drawn from; greedy is all on the best token. */
export function distribution(logits: ArrayLike<number>, draw: Omit<Draw, "seed" | "position">) {
  const { temperature, topP, topK, minP = 0 } = draw;
  const finite = Array.from(logits, (logit) => (Number.isNaN(logit) ? -Infinity : logit));
  const largest = finite.reduce((most, logit) => Math.max(most, logit), -Infinity);
  const weights = finite.map((logit) => {
    if (logit === largest) return 1;
    return temperature > 0 ? Math.exp((logit - largest) / temperature) : 0;
  });
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const order = finite.map((_, i) => i).sort((a, b) => finite[b]! - finite[a]! || a - b);
  const kept = new Float64Array(finite.length);
  let before = 0;
  order.forEach((token, rank) => {
    const weight = weights[token]!;
    const random = rank < topK && before <= topP * total && weight >= minP;
    if (temperature > 0 ? random : rank === 0) kept[token] = weight;
    before += weight;
  });
  const mass = kept.reduce((sum, weight) => sum + weight, 0);
  return kept.map((weight) => weight / mass);
}

/** The token that `draw` gives, and how far the random number is from giving another. */
export function drawToken(logits: ArrayLike<number>, draw: Draw) {
  const probabilities = distribution(logits, draw);
  const target = philox(draw.seed, draw.position) / 2 ** 32;
  let before = 0;
  for (let id = 0; id < probabilities.length; id++) {
    const after = before + probabilities[id]!;
    if (target < after) return { id, margin: Math.min(target - before, after - target) };
    before = after;
  }
  return { id: probabilities.length - 1, margin: 0 };
}

export interface RowHistory {
  readonly prompt: readonly number[];
  readonly generated: readonly number[];
}

/** A row of logits after the penalties, each step rounded to f32 as the kernel does. */
export function penalized(
  logits: ArrayLike<number>,
  { repetition, frequency, presence }: PenaltyStrengths,
  { prompt, generated }: RowHistory,
): Float32Array {
  const [r, f, p] = [repetition, frequency, presence].map(Math.fround) as [number, number, number];
  const counts = new Map<number, number>();
  for (const token of generated) counts.set(token, (counts.get(token) ?? 0) + 1);
  const occurs = new Set([...prompt, ...generated]);
  return Float32Array.from(logits, (logit, token) => {
    let value = logit;
    if (occurs.has(token)) value = Math.fround(value < 0 ? value * r : value / r);
    const count = counts.get(token) ?? 0;
    value = Math.fround(value - f * count);
    return count > 0 ? value - p : value;
  });
}

/** log softmax(logits / temperature); -inf and NaN give -inf. */
export function logSoftmax(logits: ArrayLike<number>, temperature: number): Float64Array {
  const finite = Array.from(logits, (logit) => (Number.isNaN(logit) ? -Infinity : logit));
  const largest = finite.reduce((most, logit) => Math.max(most, logit), -Infinity);
  const scaled = Float64Array.from(finite, (logit) => {
    return logit === -Infinity ? logit : (logit - largest) / temperature;
  });
  if (largest === -Infinity) return scaled;
  const sum = scaled.reduce((total, value) => total + Math.exp(value), 0);
  return scaled.map((value) => value - Math.log(sum));
}
