/**
 * Who may use the server: those who show its key, and only a key of its own for what changes the
 * server for every client.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import { InvalidRequestError } from "../../errors.ts";
import { errorResponse, errorStatus, HttpError } from "../../http/error_response.ts";

export interface AuthOptions {
  /** Asked for on every path but those of health checks and metrics. Default: no key is asked for. */
  readonly apiKey?: string | undefined;
  /**
   * Asked for where a request changes the server or other requests; good for everything else too.
   * Default: `apiKey` does there as well.
   */
  readonly adminApiKey?: string | undefined;
}

export interface KeyPaths {
  /**
   * No key is asked for there, nor on what begins with one of them: what asks a server how it is has
   * none, as operators set it up and not its clients.
   */
  readonly open: readonly string[];
  /** They change the server or other requests. */
  readonly admin: readonly string[];
}

/** What an HTTP header can carry as it is. */
const KEY = /^[\x21-\x7e]+$/;

/** @throws {InvalidRequestError} for a key that no request could show. */
export function checkKeys({ apiKey, adminApiKey }: AuthOptions): void {
  for (const [name, key] of Object.entries({ apiKey, adminApiKey })) {
    if (key === undefined || KEY.test(key)) continue;
    throw new InvalidRequestError(
      `Cannot use ${name}: it must be visible ASCII characters, at least one`,
      name,
    );
  }
}

/** @throws {InvalidRequestError} for a key that no request could show. */
export function requireKey(options: AuthOptions, { open, admin }: KeyPaths): MiddlewareHandler {
  checkKeys(options);
  const { apiKey, adminApiKey } = options;
  return async ({ req }, next) => {
    const { method, path } = req;
    const isAdmin = adminApiKey !== undefined && admin.includes(path);
    const isOpen = method === "OPTIONS" || open.some((begin) => path.startsWith(begin));
    if (isOpen || (apiKey === undefined && !isAdmin)) return next();
    // Clients of Anthropic's interface have a header of their own.
    const shown = [bearerToken(req.header("authorization")), req.header("x-api-key") ?? ""];
    const shows = (key: string | undefined) => shown.some((token) => isSame(token, key));
    if (shows(adminApiKey)) return next();
    if (!shows(apiKey)) return unauthorized(req, shown);
    return isAdmin ? forbidden(req, "it takes the admin's key") : next();
  };
}

/** For a client that has shown no key that the server knows. */
function unauthorized(call: Call, shown: readonly string[]): Response {
  const problem =
    shown.join("") === ""
      ? "it takes the server's key, in the header Authorization: Bearer KEY or x-api-key: KEY"
      : "the key in its header Authorization or x-api-key is not the server's";
  return refusal(call, { code: "unauthorized", word: "Unauthorized", problem });
}

/** For a client whose key or origin is known and does not allow this. */
export function forbidden(call: Call, problem: string): Response {
  return refusal(call, { code: "forbidden", word: "Forbidden", problem });
}

interface Call {
  readonly method: string;
  readonly path: string;
}

interface Refusal {
  readonly code: "unauthorized" | "forbidden";
  readonly word: string;
  readonly problem: string;
}

/** OpenAI's clients show the sentence of their form, other clients wait for the word alone. */
function refusal({ method, path }: Call, { code, word, problem }: Refusal): Response {
  const error = new HttpError(code, `${word}: cannot ${method} ${path}: ${problem}`);
  const headers: HeadersInit = code === "unauthorized" ? { "www-authenticate": "Bearer" } : {};
  if (path.startsWith("/v1/")) return errorResponse(error, headers);
  return Response.json({ error: word }, { status: errorStatus(error), headers });
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
