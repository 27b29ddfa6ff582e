/**
 * Every answer, also one that refuses or fails, has the id of its request in a header, and so have
 * the server's reports of errors.
 *
 * It names the exchange. What is generated in it has ids of its own, `rid`, as one request may have
 * several completions and a client that tries again sends its header again.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import { REQUEST_ID_HEADER, requestIdOf } from "../../http/request_id.ts";

/** Of the requests that are being answered. */
const ids = new WeakMap<Request, string>();

/** @param idOf The id of a request, which a header can carry. */
export function identifyBy(idOf: (request: Request) => string): MiddlewareHandler {
  return async (context, next) => {
    const { raw } = context.req;
    const id = idOf(raw);
    ids.set(raw, id);
    await next();
    context.res.headers.set(REQUEST_ID_HEADER, id);
  };
}

export const identifyAnswers = identifyBy(({ headers }) => requestIdOf(headers));

/** The id that the request's answer has. */
export function answerIdOf(request: Request): string {
  return ids.get(request) ?? requestIdOf(request.headers);
}
