/**
 * Every answer, also one that refuses or fails, has the id of its request in a header.
 *
 * It names the exchange. What is generated in it has ids of its own, `rid`, as one request may have
 * several completions and a client that tries again sends its header again.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import { REQUEST_ID_HEADER, requestIdOf } from "../http/request_id.ts";

export const identifyAnswers: MiddlewareHandler = async (context, next) => {
  const id = requestIdOf(context.req.raw.headers);
  await next();
  context.res.headers.set(REQUEST_ID_HEADER, id);
};
