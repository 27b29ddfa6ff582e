/**
 * What a page says when it joins a router, and what it gets.
 *
 * @module
 */
import type { EndpointOptions } from "../endpoint/endpoint_messages.ts";

export interface DecodeNodeOptions
  extends Pick<EndpointOptions, "servedModelName" | "reasoningParser" | "toolCallParser"> {
  /** Address of the router, such as `http://10.0.0.1:30000`. */
  readonly url: string;
  /** Of `POST /decode_node_token` of the router; it is good for one node, once. */
  readonly token: string;
  /** Told how many requests are being answered, when that changes. */
  readonly onRequests?: ((running: number) => void) | undefined;
}

export interface DecodeNode {
  /** By which the router calls it. */
  readonly name: string;
  /** Resolves when it is a node no more, with why. */
  readonly ended: Promise<string>;
  /**
   * Takes no more requests. What runs is answered to its end first, unless `now` is set: then a server
   * goes on with it.
   */
  leave(options?: { readonly now?: boolean }): Promise<void>;
}
