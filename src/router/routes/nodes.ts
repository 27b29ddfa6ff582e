/**
 * How pages of browsers become decode nodes.
 *
 * @module
 */
import { UnsupportedError } from "../../errors.ts";
import { HttpError } from "../../http/error_response.ts";
import type { DecodeNodes } from "../nodes/decode_nodes.ts";
import type { RouterContext } from "../router_context.ts";

export const NODE_PATH = "/join_as_decode_node";

/** @throws {UnsupportedError} where none may join. */
function nodesOf({ nodes }: RouterContext, path: string): DecodeNodes {
  if (nodes !== undefined) return nodes;
  const reason =
    "the router takes no decode nodes; --pd-disaggregation --decode-nodes lets them in";
  throw new UnsupportedError(path, reason);
}

/** `POST /decode_node_token`: a token by which one page may join, once. */
export function giveNodeToken(context: RouterContext): Response {
  return Response.json(nodesOf(context, "/decode_node_token").newToken());
}

/**
 * `GET /join_as_decode_node`: what a page's WebSocket asks for. A request that comes so far may be one; what
 * joins shows its token by its first message.
 *
 * @throws {HttpError} `upgrade_required`, whatever else is right.
 */
export function decodeNode(context: RouterContext): Response {
  nodesOf(context, NODE_PATH);
  throw new HttpError("upgrade_required", `Cannot join ${NODE_PATH}: it takes WebSockets only`);
}
