/**
 * Bytes as base64.
 *
 * @module
 */

/** Bytes that become text at once, few enough to be arguments of a call. */
const PIECE = 0x2000;

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE) {
    text += String.fromCharCode.apply(null, Array.from(bytes.subarray(at, at + PIECE)));
  }
  return btoa(text);
}
