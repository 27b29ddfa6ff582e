/**
 * A page that lends its GPU: it joins a router as a decode node.
 *
 * @module
 */
import type { WorkerEngine } from "../worker/worker_engine.ts";
import type { DecodeNode, DecodeNodeOptions } from "./decode_node.ts";

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
