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

/** @param value Finite. */
export function decimalOf(value: number): Decimal {
  const [mantissa, power = "0"] = String(Math.abs(value)).split("e");
  const [whole, fraction = ""] = mantissa!.split(".");
  return reduce(value < 0, BigInt(whole! + fraction), Number(power) - fraction.length);
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
