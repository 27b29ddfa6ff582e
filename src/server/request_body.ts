/**
 * The body of a request, within the limits of the server.
 *
 * @module
 */
import { readJsonBody } from "../http/read_body.ts";
import { takeBootstrap } from "./fields/bootstrap_fields.ts";
import type { ServerContext } from "./server_context.ts";

export interface RequestBodyOptions {
  /** Size at most, where that is less than the server's limit. */
  readonly maxBytes?: number;
  /** Stands for a body of no bytes. Default: there is no such value. */
  readonly whenEmpty?: unknown;
}

/**
 * Reads it as one JSON value, whose memory counts until the request is answered. A server that shares
 * requests with another one takes out of it where they meet.
 *
 * @throws {HttpError} when it is too large, or not JSON, or said to be something else.
 * @throws {CapacityError} when bodies of other requests leave no memory for it.
 */
export async function readBody(
  { bodies, maxBodyBytes, role, bootstraps }: ServerContext,
  request: Request,
  { maxBytes = maxBodyBytes, whenEmpty }: RequestBodyOptions = {},
): Promise<unknown> {
  const json = await readJsonBody(request, { maxBytes, share: bodies.of(request) }, whenEmpty);
  if (role === undefined) return json;
  const { body, bootstrapOf } = takeBootstrap(json);
  bootstraps.set(request, bootstrapOf);
  return body;
}
