/**
 * The page at `/`: files that are the same for every visitor, from this server alone.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import { errorResponse, HttpError } from "../../http/error_response.ts";

/** Files by their paths, such as "/" and "/page/main.js". */
export type WebPage = ReadonlyMap<string, WebFile>;

export interface WebFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Its media type. */
  readonly type: string;
}

/**
 * A page that shows what a model writes must be able to do nothing but ask its own server: no script
 * or style that stands in it, no other origin, no frame around it.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": POLICY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
};

/** Names of files have a hash of what is in them, all but that of the page itself. */
const KEPT = "public, max-age=31536000, immutable";

/** Answers requests for the files; every other request goes on. */
export function serveWebPage(page: WebPage): MiddlewareHandler {
  return async ({ req }, next) => {
    const { method, path } = req;
    const file = page.get(path);
    if (file === undefined || method === "OPTIONS") return next();
    if (method !== "GET" && method !== "HEAD") {
      const error = new HttpError("method_not_allowed", `Cannot ${method} ${path}: it takes GET`);
      return errorResponse(error, { allow: "GET" });
    }
    const headers = {
      ...HEADERS,
      "content-type": file.type,
      "content-length": String(file.bytes.byteLength),
      "cache-control": path === "/" ? "no-cache" : KEPT,
    };
    return new Response(method === "HEAD" ? null : file.bytes, { headers });
  };
}
