/**
 * What tells the follower of a grammar that items of a list must differ: bytes that no text has.
 *
 * No automaton of a sensible size remembers the items of a list. So a grammar says where such a list
 * begins and where one of its items may be over, and `Positions` remembers the items beside the
 * automaton: the end of an item that stands in the list already leads nowhere.
 *
 * @module
 */

import { bytes, type Expression } from "../expression.ts";

/**
 * Stands behind the opening bracket of a list whose items differ, or of an object whose keys do; in
 * UTF-8 it occurs nowhere.
 */
export const LIST_BYTE = 0xfc;
/** Stands behind each item of such a list, or key of such an object. */
export const ITEM_BYTE = 0xfd;

export const LIST_BEGIN: Expression = bytes([LIST_BYTE, LIST_BYTE]);
export const ITEM_END: Expression = bytes([ITEM_BYTE, ITEM_BYTE]);

/** Whether it is no byte of a text. */
export function isSign(byte: number): boolean {
  return byte === LIST_BYTE || byte === ITEM_BYTE;
}
