/**
 * Formats of numbers in the registry of OpenAPI: whole numbers of so many bits. Those of floating
 * point say how a number is kept, and every number fits.
 *
 * @module
 */

import { type Decimal, parseDecimal } from "./decimal.ts";

/** Both are inside. */
export interface WholeRange {
  readonly lower: Decimal;
  readonly upper: Decimal;
}

function range(lower: bigint, upper: bigint): WholeRange {
  return { lower: parseDecimal(String(lower))!, upper: parseDecimal(String(upper))! };
}

const signed = (bits: bigint) => range(-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n);
const unsigned = (bits: bigint) => range(0n, 2n ** bits - 1n);
/** Whole numbers that a double tells apart. */
const EXACT = 2n ** 53n - 1n;

/** Nothing for those that every number fits. */
export const NUMBER_FORMATS: ReadonlyMap<string, WholeRange | undefined> = new Map([
  ["double", undefined],
  ["double-int", range(-EXACT, EXACT)],
  ["float", undefined],
  ["int16", signed(16n)],
  ["int32", signed(32n)],
  ["int64", signed(64n)],
  ["int8", signed(8n)],
  ["uint16", unsigned(16n)],
  ["uint32", unsigned(32n)],
  ["uint64", unsigned(64n)],
  ["uint8", unsigned(8n)],
]);
