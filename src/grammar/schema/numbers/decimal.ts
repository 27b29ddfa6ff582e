/**
 * Decimal numbers, exact.
 *
 * The numbers of a schema are read as the shortest decimal that names the same double, which is how
 * they were written in all but odd cases.
 *
 * @module
 */

/** `sign * coefficient * 10^exponent`. A coefficient above 0 does not end in 0; that of 0 is 0. */
export interface Decimal {
  readonly negative: boolean;
  readonly coefficient: bigint;
  readonly exponent: number;
}

/** Digits before and after the point, without zeros that say nothing: 0.5 is "0" and "5". */
export interface Digits {
  readonly whole: string;
  readonly fraction: string;
}

/** Digits that a number may have before or after the point. */
const MAX_DIGITS = 2_000;

/** @param value Finite. */
export function decimalOf(value: number): Decimal {
  if (Number.isSafeInteger(value)) return reduce(value < 0, BigInt(Math.abs(value)), 0);
  return parseDecimal(String(value))!;
}

/**
 * @param text A number as JSON or JavaScript spells it.
 * @returns Nothing when it has too many digits.
 */
export function parseDecimal(text: string): Decimal | undefined {
  const [mantissa, power = "0"] = text.toLowerCase().split("e");
  const [whole, fraction = ""] = mantissa!.replace("-", "").split(".");
  const exponent = Number(power) - fraction.length;
  if (whole!.length + fraction.length + Math.abs(exponent) > MAX_DIGITS) return undefined;
  return reduce(text.startsWith("-"), BigInt(whole! + fraction), exponent);
}

function reduce(negative: boolean, coefficient: bigint, exponent: number): Decimal {
  if (coefficient === 0n) return { negative: false, coefficient, exponent: 0 };
  let [digits, power] = [coefficient, exponent];
  for (; digits % 10n === 0n; power++) digits /= 10n;
  return { negative, coefficient: digits, exponent: power };
}

/** @returns Below, equal to or above 0 as `a` is to `b`. */
export function compareDecimals(a: Decimal, b: Decimal): number {
  const exponent = Math.min(a.exponent, b.exponent);
  const scaled = (d: Decimal) =>
    (d.negative ? -d.coefficient : d.coefficient) * 10n ** BigInt(d.exponent - exponent);
  const difference = scaled(a) - scaled(b);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/** Without the sign. */
export function digitsOf({ coefficient, exponent }: Decimal): Digits {
  const digits = coefficient.toString();
  if (exponent >= 0) return { whole: digits + "0".repeat(exponent), fraction: "" };
  const padded = digits.padStart(1 - exponent, "0");
  return { whole: padded.slice(0, exponent), fraction: padded.slice(exponent) };
}

export function decimalText(value: Decimal): string {
  const { whole, fraction } = digitsOf(value);
  return `${value.negative ? "-" : ""}${whole}${fraction && `.${fraction}`}`;
}
