/**
 * What changes the server cannot be set off by a page of a stranger: browsers send a GET for an
 * image or a link without asking, and mostly without saying who sent it.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import { errorResponse, HttpError } from "../../http/error_response.ts";
import type { AuthOptions } from "./auth.ts";
import { mayBeOfPage } from "./browser.ts";

/**
 * Refuses requests of browsers that are no POST, which has an origin. With a key they may, as those
 * that get this far have shown it.
 *
 * @param paths Of what changes the server.
 */
export function refuseChangesByPages(
  { apiKey, adminApiKey }: AuthOptions,
  paths: readonly string[],
): MiddlewareHandler {
  const isKeyed = apiKey !== undefined || adminApiKey !== undefined;
  return async ({ req }, next) => {
    const { method, path } = req;
    if (isKeyed || method === "POST" || !paths.includes(path)) return next();
    if (!mayBeOfPage(req.raw.headers)) return next();
    const problem = "it changes the server, which browsers may do by POST only";
    const error = new HttpError("method_not_allowed", `Cannot ${method} ${path}: ${problem}`);
    return errorResponse(error, { allow: "POST" });
  };
}
