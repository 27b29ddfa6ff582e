/**
 * The ids by which a client may have a request aborted that a decode node answers: a node is told no
 * other client's.
 *
 * @module
 */
import { EngineError } from "../../errors.ts";
import type { BodyShare } from "../../http/body_memory.ts";
import { isObject } from "../../http/fields.ts";
import { parseJsonBytes } from "../../http/read_body.ts";

/** Of a request that names none: drawn by the engine, so that it tells nothing. */
const DRAWN = /^[0-9a-f]{32}$/;
/** Behind the id of a batch. */
const ITEM = /_\d{1,10}$/;

export type GivenIds = (id: string) => boolean;

/** @returns Whether an id may be of the request whose body this is. */
export async function givenIds(
  body: Uint8Array,
  { signal, share }: { readonly signal: AbortSignal; readonly share: BodyShare },
): Promise<GivenIds> {
  const rid = await ridOf(body, signal, share);
  const given = new Set(Array.isArray(rid) ? rid : [rid]);
  return (id) => DRAWN.test(id) || given.has(id) || given.has(id.replace(ITEM, ""));
}

/** Undefined where it has none, or cannot be read, as the node will say. */
async function ridOf(body: Uint8Array, signal: AbortSignal, share: BodyShare): Promise<unknown> {
  try {
    const json = await parseJsonBytes(body, signal, share);
    return isObject(json) ? json.rid : undefined;
  } catch (error) {
    if (error instanceof EngineError) return undefined;
    throw error;
  } finally {
    share.hold(body.length);
  }
}
