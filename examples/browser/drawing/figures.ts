/**
 * Numbers as people read them: three digits, a unit, thin spaces in between.
 *
 * @module
 */

const STEPS: readonly (readonly [number, string])[] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
];

/** Three digits at most, where more would only be noise. */
export function rounded(value: number): string {
  if (value === 0) return "0";
  if (Math.abs(value) >= 100) return value.toFixed(0);
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(digits, 4));
}

/** A count a second with its unit, such as `rate(1.2e11, "B/s")`: 120 GB/s. */
export function rate(value: number, unit: string): string {
  const [size, prefix] = STEPS.find(([least]) => value >= least) ?? [1, ""];
  return `${rounded(value / size)} ${prefix}${unit}`;
}

/** A label of a logarithmic axis, such as "100 M". */
export function powerOfTen(value: number): string {
  const [size, prefix] = STEPS.find(([least]) => value >= least) ?? [1, ""];
  return `${value / size} ${prefix}`.trim();
}

/** A time in the unit that suits it. */
export function duration(seconds: number): string {
  if (seconds >= 1) return `${rounded(seconds)} s`;
  if (seconds >= 1e-3) return `${rounded(seconds * 1e3)} ms`;
  return `${rounded(seconds * 1e6)} µs`;
}

export function percent(share: number): string {
  const value = share * 100;
  return `${value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1)} %`;
}

/** Whole numbers with their thousands apart. */
export function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}
