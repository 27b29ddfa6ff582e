/**
 * Pearson's test: whether counts come from a distribution.
 *
 * @module
 */

/** Cells with fewer expected are pooled, as the statistic's own distribution holds for full ones. */
const LEAST_EXPECTED = 5;

export interface ChiSquare {
  /** Infinite where something came that cannot. */
  readonly statistic: number;
  /** Degrees of freedom. */
  readonly freedom: number;
}

export function chiSquare(counts: ArrayLike<number>, probabilities: ArrayLike<number>): ChiSquare {
  let draws = 0;
  for (let i = 0; i < counts.length; i++) draws += counts[i]!;
  let statistic = 0;
  let cells = 0;
  const pool = { expected: 0, seen: 0 };
  for (let i = 0; i < counts.length; i++) {
    const expected = probabilities[i]! * draws;
    const seen = counts[i]!;
    if (expected === 0 && seen > 0) return { statistic: Number.POSITIVE_INFINITY, freedom: 1 };
    if (expected < LEAST_EXPECTED) {
      pool.expected += expected;
      pool.seen += seen;
      continue;
    }
    statistic += (seen - expected) ** 2 / expected;
    cells += 1;
  }
  // Less than one expected is too little for a cell of its own, and is left out.
  if (pool.expected >= 1) {
    statistic += (pool.seen - pool.expected) ** 2 / pool.expected;
    cells += 1;
  }
  return { statistic, freedom: Math.max(cells - 1, 0) };
}

/** Of independent counts together. */
export function sumOf(parts: readonly ChiSquare[]): ChiSquare {
  return {
    statistic: parts.reduce((sum, one) => sum + one.statistic, 0),
    freedom: parts.reduce((sum, one) => sum + one.freedom, 0),
  };
}

/** How likely a statistic at least this large is, where the counts come from the distribution. */
export function pValue({ statistic, freedom }: ChiSquare): number {
  if (freedom === 0) return Number.isFinite(statistic) ? 1 : 0;
  if (!Number.isFinite(statistic)) return 0;
  return upperGamma(freedom / 2, statistic / 2);
}

/** The regularized upper incomplete gamma function Q(a, x). */
function upperGamma(a: number, x: number): number {
  if (x <= 0) return 1;
  const scale = Math.exp(a * Math.log(x) - x - logGamma(a));
  if (x < a + 1) {
    // P(a, x) is the scale times the sum of x^n / (a (a + 1) ... (a + n)).
    let term = 1 / a;
    let sum = term;
    for (let n = 1; term > sum * 1e-16; n++) {
      term *= x / (a + n);
      sum += term;
    }
    return 1 - sum * scale;
  }
  // Q(a, x) is the scale over x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...), from its tail.
  let fraction = 0;
  for (let n = 2000; n >= 1; n--) fraction = (n * (n - a)) / (x + 2 * n + 1 - a - fraction);
  return scale / (x + 1 - a - fraction);
}

/** Stirling's series, from where it is exact to f64; smaller numbers are shifted there. */
function logGamma(value: number): number {
  let x = value;
  let shift = 0;
  for (; x < 12; x++) shift += Math.log(x);
  const square = x * x;
  const series = 1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * square)) / square) / square;
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series / x - shift;
}
