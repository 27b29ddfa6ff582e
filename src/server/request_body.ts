/**
 * The body of a request, within the limits of the server.
 *
 * @module
 */
import { readJsonBody } from "../http/read_body.ts";
import type { ServerContext } from "./server_context.ts";

export interface RequestBodyOptions {
  /** Size at most, where that is less than the server's limit. */
  readonly maxBytes?: number;
  /** Stands for a body of no bytes. Default: there is no such value. */
  readonly whenEmpty?: unknown;
}

/**
 * Reads it as one JSON value, whose memory counts until the request is answered.
 *
 * @throws {HttpError} when it is too large, or not JSON, or said to be something else.
 * @throws {CapacityError} when bodies of other requests leave no memory for it.
 */
export function readBody(
  { bodies, maxBodyBytes }: ServerContext,
  request: Request,
  { maxBytes = maxBodyBytes, whenEmpty }: RequestBodyOptions = {},
): Promise<unknown> {
  return readJsonBody(request, { maxBytes, share: bodies.of(request) }, whenEmpty);
}
