/**
 * Characters by the first one of their bytes in UTF-8.
 *
 * @module
 */

/** Of bytes that are not the beginning of a text in UTF-8. */
export const BROKEN = -1;

/** 32-bit words of a set of bytes. */
export const BYTE_SET_WORDS = 8;

/** Bytes that may come second in a character of several bytes. */
export interface SecondBytes {
  readonly from: number;
  readonly to: number;
}

/** Bytes behind the first one of a character; -1 for bytes that begin none. */
export function bytesBehind(lead: number): number {
  if (lead < 0x80) return 0;
  if (lead < 0xc2 || lead > 0xf4) return BROKEN;
  return lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
}

export function secondBytes(lead: number): SecondBytes {
  const from = lead === 0xe0 ? 0xa0 : lead === 0xf0 ? 0x90 : 0x80;
  const to = lead === 0xed ? 0x9f : lead === 0xf4 ? 0x8f : 0xbf;
  return { from, to };
}
