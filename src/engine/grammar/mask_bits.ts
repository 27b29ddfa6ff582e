/**
 * What is read of masks: bit `t % 32` of word `t / 32` says whether token t may come.
 *
 * @module
 */

/** The token that alone may come; undefined where none or several may. */
export function onlyToken(mask: Uint32Array): number | undefined {
  let only: number | undefined;
  for (let i = 0; i < mask.length; i++) {
    const word = mask[i]!;
    if (word === 0) continue;
    if (only !== undefined || (word & (word - 1)) !== 0) return undefined;
    only = 32 * i + 31 - Math.clz32(word);
  }
  return only;
}

export const isEmpty = (mask: Uint32Array): boolean => mask.every((word) => word === 0);
