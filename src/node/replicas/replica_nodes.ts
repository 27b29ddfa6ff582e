/**
 * Node 0 of replicas on several machines: where the others come to, with a connection for each of
 * their replicas.
 *
 * @module
 */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Socket } from "node:net";
import { WebSocketServer } from "ws";
import { type Facts, firstDifference } from "../../parallel/agree.ts";
import { CONTROL_LIMITS } from "../mpi/control_channel.ts";
import { isFacts } from "../mpi/head_node.ts";
import { EXIT, LaunchError } from "../mpi/launch_error.ts";
import { type Address, type Deferred, deferred, listenAt } from "../mpi/nodes.ts";
import { MAX_NODE_MESSAGE_BYTES, NodePort } from "./node_port.ts";

/** Of the request by which a replica's node comes: which one it is, and what all must have alike. */
export const JOIN_HEADER = "x-wisp-replica";
/** Statuses of answers to those who are not taken: for good, and for now. */
export const REFUSED = 409;
export const TAKEN = 503;

export interface Join {
  readonly replica: number;
  readonly facts: Facts;
}

export interface ReplicaNodesOptions {
  readonly address: Address;
  readonly nodes: number;
  readonly replicasPerNode: number;
  readonly facts: Facts;
  /** Milliseconds in which all must have come. */
  readonly timeout: number;
  /** Milliseconds between signs of life. Default 2000. */
  readonly beat?: number;
}

export class ReplicaNodes {
  readonly #options: ReplicaNodesOptions;
  readonly #server: Server;
  readonly #sockets = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_NODE_MESSAGE_BYTES,
    perMessageDeflate: false,
  });
  /** Of replicas whose nodes are there, or have left before they were asked. */
  readonly #ports = new Map<number, NodePort>();
  readonly #taken = new WeakSet<NodePort>();
  readonly #awaited = new Map<number, Deferred<NodePort>>();
  #difference: LaunchError | undefined;
  /** Whether all have been there: one that comes with other options then is refused, and that is all. */
  #hasMet = false;

  private constructor(options: ReplicaNodesOptions) {
    this.#options = options;
    const { introduction, firstMessage } = CONTROL_LIMITS;
    this.#server = createServer(
      {
        maxHeaderSize: firstMessage,
        headersTimeout: introduction,
        requestTimeout: introduction,
        connectionsCheckingInterval: introduction / 10,
      },
      (_, response) => response.writeHead(404, { connection: "close" }).end(),
    );
    this.#server.maxConnections = this.#size + CONTROL_LIMITS.strangers;
    this.#server.on("upgrade", (request: IncomingMessage, socket: Socket, head) =>
      this.#welcome(request, socket, head),
    );
  }

  /** @throws {LaunchError} where the address cannot be used. */
  static async listen(options: ReplicaNodesOptions): Promise<ReplicaNodes> {
    const nodes = new ReplicaNodes(options);
    await listenAt(nodes.#server, options.address);
    return nodes;
  }

  /**
   * Waits until every node has come with all of its replicas.
   *
   * @throws {LaunchError} naming the nodes that have not, or the first option that differs.
   */
  async meet(): Promise<void> {
    const { replicasPerNode } = this.#options;
    const others = this.#size - replicasPerNode;
    const replicas = Array.from({ length: others }, (_, i) => replicasPerNode + i);
    await this.#before(Promise.all(replicas.map((replica) => this.#arrival(replica))), replicas);
    this.#hasMet = true;
  }

  /**
   * The connection of a replica, once its node is there. It may have ended since, and then have
   * something to say.
   *
   * @param signal Ends the wait, and rejects with its reason.
   * @throws {LaunchError} where it does not come in time.
   */
  async connection(replica: number, signal: AbortSignal): Promise<NodePort> {
    const port = await this.#before(this.#arrival(replica), [replica], signal);
    this.#taken.add(port);
    if (port.isOver) this.#ports.delete(replica);
    return port;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
    for (const port of this.#ports.values()) port.close();
  }

  get #size(): number {
    return this.#options.nodes * this.#options.replicasPerNode;
  }

  #arrival(replica: number): Promise<NodePort> {
    const port = this.#ports.get(replica);
    if (port !== undefined) return Promise.resolve(port);
    const awaited = this.#awaited.get(replica) ?? deferred<NodePort>();
    this.#awaited.set(replica, awaited);
    if (this.#difference !== undefined) awaited.reject(this.#difference);
    return awaited.promise;
  }

  async #before<T>(
    arrival: Promise<T>,
    replicas: readonly number[],
    signal?: AbortSignal,
  ): Promise<T> {
    const over = deferred<never>();
    const timer = setTimeout(() => over.reject(this.#late(replicas)), this.#options.timeout);
    const giveUp = () => over.reject(signal?.reason);
    signal?.addEventListener("abort", giveUp, { once: true });
    try {
      return await Promise.race([arrival, over.promise]);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", giveUp);
    }
  }

  #late(replicas: readonly number[]): LaunchError {
    const { replicasPerNode, timeout } = this.#options;
    const late = replicas.filter((replica) => !this.#ports.has(replica));
    const missing = [...new Set(late.map((replica) => Math.floor(replica / replicasPerNode)))];
    const named = `node${missing.length === 1 ? "" : "s"} ${missing.join(", ")}`;
    const state = `not there after ${timeout / 1000} s`;
    return new LaunchError(`Cannot start without ${named}: ${state}`, EXIT.timeout);
  }

  #welcome(request: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.on("error", () => {});
    const join = joinOf(request.headers[JOIN_HEADER]);
    const refusal = this.#refusalOf(join);
    if (join === undefined || refusal !== undefined) {
      refuse(socket, refusal!);
      return;
    }
    socket.setNoDelay(true);
    this.#sockets.handleUpgrade(request, socket, head, (client) => {
      this.#admit(join.replica, new NodePort(client, socket, this.#options.beat));
    });
  }

  #refusalOf(join: Join | undefined): Refusal | undefined {
    const refused = (reason: string) => ({ status: REFUSED, reason });
    if (join === undefined) return refused("what came was not said by a launcher");
    const difference = this.#differenceOf(join);
    if (difference !== undefined) {
      this.#note(difference);
      return refused(difference.message);
    }
    const { replica } = join;
    const named = `Cannot join with replica ${replica}`;
    if (replica < this.#options.replicasPerNode || replica >= this.#size) {
      return refused(`${named}: it is no other node's`);
    }
    if (this.#ports.get(replica)?.isOver !== false) return undefined;
    return { status: TAKEN, reason: `${named}: another launcher has` };
  }

  #note(difference: LaunchError): void {
    if (this.#hasMet) return;
    this.#difference ??= difference;
    for (const awaited of this.#awaited.values()) awaited.reject(difference);
  }

  #admit(replica: number, port: NodePort): void {
    this.#ports.set(replica, port);
    port.left.then(() => {
      if (this.#taken.has(port)) this.#ports.delete(replica);
    });
    this.#awaited.get(replica)?.resolve(port);
    this.#awaited.delete(replica);
  }

  #differenceOf({ replica, facts }: Join): LaunchError | undefined {
    const own = this.#options.facts;
    const name = firstDifference(own, facts);
    if (name === undefined) return undefined;
    const node = Math.floor(replica / this.#options.replicasPerNode);
    const state = `${name} is ${own[name]} on node 0, ${facts[name]} on node ${node}`;
    return new LaunchError(`Cannot start nodes with different options: ${state}`, EXIT.failed);
  }
}

function joinOf(header: string | readonly string[] | undefined): Join | undefined {
  if (typeof header !== "string") return undefined;
  try {
    const { replica, facts } = JSON.parse(Buffer.from(header, "base64url").toString()) as Join;
    return Number.isSafeInteger(replica) && isFacts(facts) ? { replica, facts } : undefined;
  } catch {
    return undefined;
  }
}

interface Refusal {
  readonly status: number;
  readonly reason: string;
}

function refuse(socket: Socket, { status, reason }: Refusal): void {
  const body = Buffer.from(reason);
  const head = `HTTP/1.1 ${status} Refused\r\ncontent-length: ${body.length}\r\nconnection: close`;
  socket.end(Buffer.concat([Buffer.from(`${head}\r\n\r\n`), body]), () => socket.destroy());
}
