/**
 * CRC-32C (Castagnoli): the checksum of bytes that leave the process or the GPU.
 *
 * Four tables take four bytes at a time, after Kounavis and Berry, "A Systematic Approach to
 * Building High Performance, Software-based, CRC Generators" (2005).
 *
 * @module
 */

/** The polynomial, lowest power first. */
const POLYNOMIAL = 0x82f63b78;
const TABLE_SIZE = 256;

const [T0, T1, T2, T3] = tables();

/** Check value: `crc32c` of the ASCII digits 1 to 9 is `0xe3069283`. */
export function crc32c(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  const wordEnd = bytes.length - (bytes.length % 4);
  for (let i = 0; i < wordEnd; i += 4) {
    crc ^= bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24);
    crc = T3[crc & 0xff]! ^ T2[(crc >>> 8) & 0xff]! ^ T1[(crc >>> 16) & 0xff]! ^ T0[crc >>> 24]!;
  }
  for (let i = wordEnd; i < bytes.length; i++) {
    crc = T0[(crc ^ bytes[i]!) & 0xff]! ^ (crc >>> 8);
  }
  return ~crc >>> 0;
}

/** Table k: what a byte becomes when k more bytes follow it. */
function tables(): readonly [Uint32Array, Uint32Array, Uint32Array, Uint32Array] {
  const first = Uint32Array.from({ length: TABLE_SIZE }, (_, byte) => {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
    return crc;
  });
  const following = (table: Uint32Array) => table.map((crc) => first[crc & 0xff]! ^ (crc >>> 8));
  const second = following(first);
  const third = following(second);
  return [first, second, third, following(third)];
}
