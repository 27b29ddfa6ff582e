/**
 * How a node above 0 comes to node 0 with one of its replicas.
 *
 * @module
 */
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { WebSocket } from "ws";
import type { Facts } from "../../parallel/agree.ts";
import { EXIT, LaunchError } from "../mpi/launch_error.ts";
import { TRY, waitToRetry } from "../mpi/member_node.ts";
import { type Address, addressText } from "../mpi/nodes.ts";
import { MAX_NODE_MESSAGE_BYTES, NodePort } from "./node_port.ts";
import { JOIN_HEADER, type Join, REFUSED } from "./replica_nodes.ts";

export interface JoinOptions {
  readonly address: Address;
  readonly facts: Facts;
  /** Milliseconds in which node 0 must be there. */
  readonly timeout: number;
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

/** Characters of a refusal that are read. */
const LONGEST_REASON = 4096;

/**
 * Goes to node 0, which may start later.
 *
 * @throws {LaunchError} when node 0 is not there in time or refuses the replica.
 */
export async function joinNode0(replica: number, options: JoinOptions): Promise<NodePort> {
  const { address, facts, timeout } = options;
  const deadline = performance.now() + timeout;
  const join: Join = { replica, facts };
  const header = Buffer.from(JSON.stringify(join)).toString("base64url");
  for (;;) {
    const tried = await attempt(`ws://${addressText(address)}/`, header);
    if (tried instanceof NodePort) return tried;
    if (tried.status === REFUSED) throw new LaunchError(tried.problem, EXIT.failed);
    options.signal.throwIfAborted();
    await waitToRetry(options, deadline, tried.problem);
  }
}

interface Refusal {
  readonly problem: string;
  readonly status?: number | undefined;
}

function attempt(url: string, header: string): Promise<NodePort | Refusal> {
  return new Promise((resolve) => {
    const socket = new WebSocket(url, {
      headers: { [JOIN_HEADER]: header },
      handshakeTimeout: TRY,
      maxPayload: MAX_NODE_MESSAGE_BYTES,
      perMessageDeflate: false,
      followRedirects: false,
    });
    let connection: Socket | undefined;
    socket.once("upgrade", (response) => {
      connection = response.socket;
    });
    socket.once("open", () => resolve(new NodePort(socket, connection!)));
    socket.on("error", (error: NodeJS.ErrnoException) =>
      resolve({ problem: error.code ?? error.message }),
    );
    socket.once("unexpected-response", (request, response: IncomingMessage) => {
      let problem = "";
      response.setEncoding("utf8").on("data", (text: string) => {
        if (problem.length < LONGEST_REASON) problem += text;
      });
      const end = () => {
        request.destroy();
        resolve({ problem: problem.slice(0, LONGEST_REASON), status: response.statusCode });
      };
      response.once("end", end).once("close", end);
    });
  });
}
