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
import { MAX_NAME_UNITS } from "../../server/fields/field_limits.ts";

/** Drawn by the engine, for messages and responses with what their ids begin with. */
const DRAWN = /^(?:msg_|resp_)?[0-9a-f]{32}$/;
/** Behind the id of a batch. */
const ITEM = /_\d{1,10}$/;
/** UTF-16 units of an id, of an item too. */
export const MOST_ID_UNITS = MAX_NAME_UNITS + 11;

export type GivenIds = (id: string) => boolean;

/**
 * @returns Whether an id may be of the request whose body this is: which one the engine has drawn, the
 * router does not know, so that all of that form may.
 */
export async function givenIds(
  body: Uint8Array,
  { signal, share }: { readonly signal: AbortSignal; readonly share: BodyShare },
): Promise<GivenIds> {
  const fields = await fieldsOf(body, signal, share);
  const { rid } = fields;
  const named: readonly unknown[] = Array.isArray(rid) ? rid : [rid];
  // The node refuses a request with a longer one.
  const given = new Set(
    named.filter((id) => typeof id === "string" && id.length <= MAX_NAME_UNITS),
  );
  const isDrawn = drawsIds(fields);
  return (id) => given.has(id) || given.has(id.replace(ITEM, "")) || (isDrawn && DRAWN.test(id));
}

/** Whether its answers get ids of the engine: those without a `rid`, and several to one prompt. */
function drawsIds({ rid, n, sampling_params: sampling }: Readonly<Record<string, unknown>>) {
  // Lists name the same number for each prompt.
  const first: unknown = Array.isArray(sampling) ? sampling[0] : sampling;
  const count = n ?? (isObject(first) ? first.n : undefined) ?? 1;
  return rid === undefined || rid === null || count !== 1;
}

/** None where it cannot be read, as the node will say. */
async function fieldsOf(
  body: Uint8Array,
  signal: AbortSignal,
  share: BodyShare,
): Promise<Readonly<Record<string, unknown>>> {
  try {
    const json = await parseJsonBytes(body, signal, share);
    return isObject(json) ? json : {};
  } catch (error) {
    if (error instanceof EngineError) return {};
    throw error;
  } finally {
    share.hold(body.length);
  }
}
