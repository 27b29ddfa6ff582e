/**
 * Where the two servers of a request meet, or which replica answers it, written into its body. What else
 * is in it stays as it is.
 *
 * @module
 */
import { HttpError } from "../../http/error_response.ts";
import type { Worker } from "../worker/worker.ts";

const SPACE: readonly number[] = [0x20, 0x09, 0x0a, 0x0d];
const OPEN = 0x7b;
const CLOSE = 0x7d;

/** A number that no other request has: 52 bits by chance. */
export function newRoom(): number {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return (high! >>> 12) * 2 ** 32 + low!;
}

/** Fields beside those that say where the two meet. */
export type BootstrapFields = Readonly<Record<string, unknown>>;

/**
 * The same JSON object with the fields at its end.
 *
 * @throws {HttpError} `malformed_body` for what is no object.
 */
export function withBootstrap(
  body: Uint8Array,
  prefill: Worker,
  { room, more = {} }: { readonly room: number; readonly more?: BootstrapFields },
): Uint8Array {
  return withFields(body, {
    bootstrap_host: hostOf(prefill),
    bootstrap_port: prefill.bootstrapPort,
    bootstrap_room: room,
    // What a client has written there is not the router's word; null is as absent.
    bootstrap_ticket: null,
    bootstrap_begun: null,
    ...more,
  });
}

/** By which a body names a replica. */
export const REPLICA_FIELD = "data_parallel_rank";

/**
 * The same JSON object with the replica that is to answer it.
 *
 * @throws {HttpError} `malformed_body` for what is no object.
 */
export function withReplica(body: Uint8Array, replica: number): Uint8Array {
  return withFields(body, { [REPLICA_FIELD]: replica });
}

/**
 * The same JSON object with further fields at its end: of fields of one name the last one counts.
 *
 * @param added At least one.
 * @throws {HttpError} `malformed_body` for what is no object.
 */
function withFields(body: Uint8Array, added: Readonly<Record<string, unknown>>): Uint8Array {
  let end = body.length - 1;
  while (end >= 0 && SPACE.includes(body[end]!)) end -= 1;
  let before = end - 1;
  while (before >= 0 && SPACE.includes(body[before]!)) before -= 1;
  if (end < 0 || body[end] !== CLOSE || before < 0) {
    throw new HttpError("malformed_body", "Cannot read the request body: it is no JSON object");
  }
  const fields = JSON.stringify(added);
  const comma = body[before] === OPEN ? "" : ",";
  const more = new TextEncoder().encode(comma + fields.slice(1));
  const shared = new Uint8Array(end + more.length);
  shared.set(body.subarray(0, end));
  shared.set(more, end);
  return shared;
}

/** By which a decode server finds it; an address in version 6 has no brackets. */
export function hostOf({ url }: Worker): string {
  return new URL(url).hostname.replace(/^\[(.*)\]$/, "$1");
}
