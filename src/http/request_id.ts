/**
 * The name of one exchange of a request and its answer, by which client and server speak of it.
 *
 * @module
 */

export const REQUEST_ID_HEADER = "x-request-id";

/** What a header and a line of a log can carry as it is. */
const SANE_ID = /^[\x21-\x7e]{1,200}$/;

/** The client's own where it has a sane one, else a new one. */
export function requestIdOf(headers: Headers): string {
  return givenRequestId(headers, [REQUEST_ID_HEADER]) ?? crypto.randomUUID();
}

/** The first sane one in these headers. */
export function givenRequestId(headers: Headers, names: readonly string[]): string | undefined {
  return names.map((name) => headers.get(name) ?? "").find((given) => SANE_ID.test(given));
}
