/**
 * Errors in Anthropic's shape: `{"type": "error", "error": {"type", "message"}}`.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import { flatError } from "../../http/error_response.ts";

const TYPES: ReadonlyMap<number, string> = new Map([
  [401, "authentication_error"],
  [403, "permission_error"],
  [404, "not_found_error"],
  [413, "request_too_large"],
  [503, "overloaded_error"],
]);

/** The event that ends a stream which failed, and the body of what is refused. */
export function messagesErrorBody(error: unknown): object {
  const { message, code } = flatError(error);
  return errorOf(code, message);
}

/**
 * Writes the errors of these paths in that shape, also those of the guards that ask for keys and origins
 * before the endpoint.
 */
export const answerMessagesErrors: MiddlewareHandler = async (context, next) => {
  await next();
  const { status } = context.res;
  if (status < 400) return;
  const { message } = (await context.res.json()) as { readonly message: string };
  context.res = Response.json(errorOf(status, message), { status });
};

function errorOf(status: number, message: string): object {
  const fallback = status >= 500 ? "api_error" : "invalid_request_error";
  return { type: "error", error: { type: TYPES.get(status) ?? fallback, message } };
}
