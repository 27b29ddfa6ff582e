/**
 * Which pages may use the server from a browser.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import { cors } from "hono/cors";
import { REQUEST_ID_HEADER } from "../../http/request_id.ts";
import { forbidden } from "./auth.ts";

/** What pages may read of an answer, beside its body. */
const SHOWN = { exposeHeaders: [REQUEST_ID_HEADER], credentials: true };

/**
 * Lets pages of these origins read answers, with any method and header. Other pages are refused
 * before anything is done for them, as a browser sends simple requests without asking.
 *
 * @param origins Default: all.
 */
export function allowOrigins(origins: readonly string[] | undefined): readonly MiddlewareHandler[] {
  // An origin is repeated and not "*", which browsers refuse together with credentials.
  if (origins === undefined) {
    return [cors({ ...SHOWN, origin: (origin) => origin || "*" })];
  }
  const isAllowed = (origin: string) => origins.includes(origin);
  return [
    cors({ ...SHOWN, origin: (origin) => (isAllowed(origin) ? origin : null) }),
    async ({ req }, next) => {
      const origin = req.header("origin");
      if (origin === undefined || isAllowed(origin)) return next();
      return forbidden(req, `pages of ${origin} may not use the server`);
    },
  ];
}
