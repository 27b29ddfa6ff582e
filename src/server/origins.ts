/**
 * Which pages may use the server from a browser.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import { cors } from "hono/cors";
import { forbidden } from "./auth.ts";

/**
 * Lets pages of these origins read answers, with any method and header. Other pages are refused
 * before anything is done for them, as a browser sends simple requests without asking.
 *
 * @param origins Default: all.
 */
export function allowOrigins(origins: readonly string[] | undefined): readonly MiddlewareHandler[] {
  // An origin is repeated and not "*", which browsers refuse together with credentials.
  if (origins === undefined) {
    return [cors({ origin: (origin) => origin || "*", credentials: true })];
  }
  const isAllowed = (origin: string) => origins.includes(origin);
  return [
    cors({ origin: (origin) => (isAllowed(origin) ? origin : null), credentials: true }),
    async ({ req }, next) => {
      const origin = req.header("origin");
      return origin === undefined || isAllowed(origin) ? next() : forbidden();
    },
  ];
}
