/**
 * Which requests browsers send: pages of strangers make them in the name of the person who looks at
 * them, who may reach servers that strangers do not.
 *
 * @module
 */

/**
 * Whether a header says so that no page can leave out. Node's `fetch` sends `Sec-Fetch-Mode` too,
 * which therefore tells nothing.
 */
export function isOfPage(headers: Headers): boolean {
  return headers.has("origin") || headers.has("sec-fetch-site");
}

/**
 * Also where a browser sends neither: to a plain HTTP address that is not this machine's, it sends
 * no `Sec-Fetch-Site`, and with a GET no `Origin`. Other programs that take a browser's name are
 * taken for one.
 */
export function mayBeOfPage(headers: Headers): boolean {
  return isOfPage(headers) || (headers.get("user-agent") ?? "").startsWith("Mozilla/");
}
