/**
 * Which pages may use the server from a browser.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import { cors } from "hono/cors";
import { InvalidRequestError } from "../../errors.ts";
import { EVERY_ORIGIN, isOrigin } from "../../http/origins.ts";
import { REQUEST_ID_HEADER } from "../../http/request_id.ts";
import { forbidden } from "./auth.ts";
import { hostOf } from "./hosts.ts";

/** What pages may read of an answer, beside its body. */
const SHOWN = { exposeHeaders: [REQUEST_ID_HEADER], credentials: true };

/** Characters of an origin that a refusal repeats. */
const SHOWN_ORIGIN = 100;

/** @throws {InvalidRequestError} for what no page can be of. */
function checkOrigins(origins: readonly string[]): void {
  const field = "allowedOrigins";
  const wrong = origins.find((origin) => !isOrigin(origin));
  if (wrong === undefined) return;
  const rule = 'origins such as "https://example.org", or "*"';
  throw new InvalidRequestError(`${field} must be ${rule}, got ${JSON.stringify(wrong)}`, field);
}

/**
 * Lets pages of these origins read answers, with any method and header. Other pages are refused
 * before anything is done for them, as a browser sends simple requests without asking. Programs
 * that are no browsers are not asked where they come from.
 *
 * @param origins `*` is every origin. Default: those pages that came by the server's own address.
 * @throws {InvalidRequestError} for what is no origin.
 */
export function allowOrigins(origins: readonly string[] | undefined): readonly MiddlewareHandler[] {
  checkOrigins(origins ?? []);
  // An origin is repeated and not "*", which browsers refuse together with credentials.
  if (origins?.includes(EVERY_ORIGIN)) {
    return [cors({ ...SHOWN, origin: (origin) => origin || EVERY_ORIGIN })];
  }
  const isListed = (origin: string) => origins?.includes(origin) ?? false;
  return [
    cors({ ...SHOWN, origin: (origin) => (isListed(origin) ? origin : null) }),
    async ({ req }, next) => {
      const origin = req.header("origin");
      const site = req.header("sec-fetch-site");
      if (origin === undefined) {
        // None: a person typed the address.
        if (site === undefined || site === "same-origin" || site === "none") return next();
        return forbidden(req, "pages of other origins may not use the server");
      }
      if (isListed(origin)) return next();
      if (origins === undefined && isOwn(origin, site, hostOf(req.raw))) return next();
      const shown = origin.slice(0, SHOWN_ORIGIN);
      return forbidden(req, `pages of ${shown} may not use the server`);
    },
  ];
}

/** Whether a page is of the address that it asks; older browsers leave the comparison to us. */
function isOwn(origin: string, site: string | undefined, host: string): boolean {
  if (site !== undefined) return site === "same-origin";
  if (!URL.canParse(origin)) return false;
  const { protocol, host: ofPage } = new URL(origin);
  const address = `${protocol}//${host}`;
  return ofPage !== "" && URL.canParse(address) && new URL(address).host === ofPage;
}
