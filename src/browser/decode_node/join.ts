/**
 * A page that lends its GPU: it joins a router as a decode node.
 *
 * @module
 */
import type { EndpointOptions } from "../endpoint/endpoint_messages.ts";
import type { WorkerEngine } from "../worker/worker_engine.ts";

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

/**
 * Joins a router of prefill and decode servers, and answers requests whose clients allow it: the prompt's
 * cache pages come from a prefill server, and answers are to the bit those of a server. The page may be
 * closed at any time: a decode server then goes on behind the tokens that the client has got.
 *
 * @param engine Of the model that the servers have, loaded with `transfersPages`; `onPages` of its options
 * tells what arrives.
 * @throws {UnsupportedError} when the engine takes no pages.
 * @throws {WorkerError} when the router cannot be reached, or refuses the page.
 */
export async function joinAsDecodeNode(
  engine: WorkerEngine,
  options: DecodeNodeOptions,
): Promise<DecodeNode> {
  const { startNode } = await import("./node_session.ts");
  return startNode(engine, options);
}
