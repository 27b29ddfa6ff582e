/**
 * Which headers go through the router.
 *
 * @module
 */
import { REQUEST_ID_HEADER } from "../../http/request_id.ts";

/** Of one connection, not of what is sent over it. */
const OF_CONNECTIONS: ReadonlySet<string> = new Set([
  ...["connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"],
  ...["transfer-encoding", "upgrade", "proxy-connection", "expect", "host"],
]);

/**
 * By these a worker tells pages of browsers from programs. The router has decided about pages, and is
 * itself a program.
 */
const OF_BROWSERS = /^(?:origin|referer|cookie|user-agent|sec-.*|access-control-.*)$/;

/** What the worker's own answers to pages would say; the router says it itself. */
const OF_PAGES = /^access-control-|^vary: Origin$/;

/** The names that a Connection header adds. */
function named(connection: string): readonly string[] {
  return connection.split(",").map((name) => name.trim().toLowerCase());
}

/** Those of a client's request that its worker gets. */
export function requestHeaders(headers: Headers, requestId: string): Record<string, string> {
  const hops = new Set(named(headers.get("connection") ?? ""));
  const sent: Record<string, string> = {};
  for (const [name, value] of headers) {
    if (OF_CONNECTIONS.has(name) || hops.has(name) || OF_BROWSERS.test(name)) continue;
    // The body has been read, and its own length is sent.
    if (name !== "content-length") sent[name] = value;
  }
  sent[REQUEST_ID_HEADER] = requestId;
  return sent;
}

/** Those of a worker's answer that the client gets. */
export function answerHeaders(
  headers: readonly (readonly [name: string, value: string])[],
): Headers {
  const hops = new Set(
    headers.flatMap(([name, value]) => (name === "connection" ? named(value) : [])),
  );
  const sent = new Headers();
  for (const [name, value] of headers) {
    if (OF_CONNECTIONS.has(name) || hops.has(name) || OF_PAGES.test(`${name}: ${value}`)) continue;
    sent.append(name, value);
  }
  return sent;
}
