/**
 * Who may use the server: those who show its key, and only a key of its own for what changes the
 * server for everybody.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import { InvalidRequestError } from "../errors.ts";

export interface AuthOptions {
  /** Asked for on every path but those of health checks and metrics. Default: no key is asked for. */
  readonly apiKey?: string | undefined;
  /**
   * Asked for where a request changes the server or other requests; good for everything else too.
   * Default: `apiKey` does there as well.
   */
  readonly adminApiKey?: string | undefined;
}

/** What asks a server how it is has no key, as it is set up by others than its clients. */
const OPEN = /^\/(health|metrics)/;

const ADMIN: ReadonlySet<string> = new Set([
  "/abort_request",
  "/flush_cache",
  "/start_profile",
  "/stop_profile",
]);

/** What an HTTP header can carry as it is. */
const KEY = /^[\x21-\x7e]+$/;

/** @throws {InvalidRequestError} for a key that no request could show. */
export function requireKey({ apiKey, adminApiKey }: AuthOptions): MiddlewareHandler {
  for (const [name, key] of Object.entries({ apiKey, adminApiKey })) {
    if (key === undefined || KEY.test(key)) continue;
    throw new InvalidRequestError(`${name} must be visible ASCII characters, at least one`, name);
  }
  return async ({ req }, next) => {
    const { method, path } = req;
    const isAdmin = adminApiKey !== undefined && ADMIN.has(path);
    const isOpen = method === "OPTIONS" || OPEN.test(path);
    if (isOpen || (apiKey === undefined && !isAdmin)) return next();
    const token = bearerToken(req.header("authorization"));
    if (isSame(token, adminApiKey)) return next();
    if (!isSame(token, apiKey)) return unauthorized();
    return isAdmin ? forbidden() : next();
  };
}

/** Who has shown no key that is known here. */
function unauthorized(): Response {
  return Response.json(
    { error: "Unauthorized" },
    { status: 401, headers: { "www-authenticate": "Bearer" } },
  );
}

/** Who is known, or where from, and may not do this. */
export function forbidden(): Response {
  return Response.json({ error: "Forbidden" }, { status: 403 });
}

/** The scheme's name may be written in any case, as in all of HTTP; what follows is taken as it is. */
function bearerToken(header: string | undefined): string {
  return /^Bearer (.*)$/i.exec(header ?? "")?.[1] ?? "";
}

/** Takes as long for a token that is nearly right as for any other of its length. */
function isSame(token: string, key: string | undefined): boolean {
  if (key === undefined) return false;
  let difference = token.length ^ key.length;
  for (let i = 0; i < token.length; i++) {
    difference |= token.charCodeAt(i) ^ key.charCodeAt(i % key.length);
  }
  return difference === 0;
}
