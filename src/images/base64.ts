/**
 * Base64 to bytes, of texts that may be megabytes long: in slices, between which other work has its
 * turns.
 *
 * @module
 */
import { turns } from "../turns.ts";

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const NO_DIGIT = 64;
/** By the code of a character. */
const VALUES = new Uint8Array(128).fill(NO_DIGIT);
for (let i = 0; i < DIGITS.length; i++) VALUES[DIGITS.charCodeAt(i)] = i;

/** Groups of four characters between two looks at the clock. */
const GROUPS = 4096;

/**
 * The bytes of a text in base64, with `=` at its end where there are not whole groups of three.
 *
 * @returns Undefined where it is none: nothing else may stand in it.
 */
export async function fromBase64(text: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const { length } = text;
  if (length % 4 !== 0) return undefined;
  const bytes = new Uint8Array((length / 4) * 3 - padding);
  const digits = length - padding;
  for (let i = 0, at = 0; i < length; i += 4, at += 3) {
    let group = 0;
    for (let j = i; j < i + 4; j++) {
      const value = j < digits ? (VALUES[text.charCodeAt(j)] ?? NO_DIGIT) : 0;
      if (value === NO_DIGIT) return undefined;
      group = (group << 6) | value;
    }
    // Bytes behind the end go nowhere.
    bytes[at] = group >> 16;
    bytes[at + 1] = group >> 8;
    bytes[at + 2] = group;
    if (i % (4 * GROUPS) === 0 && turns.isDue) await turns.take();
  }
  return bytes;
}
