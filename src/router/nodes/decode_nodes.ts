/**
 * Pages of browsers that answer requests: they join by tokens, each good for one, and get only requests
 * whose clients have said that they may.
 *
 * @module
 */
import type { Channel } from "../../disaggregation/channel.ts";
import { newNonce } from "../../disaggregation/handshake.ts";
import { newTicket } from "../../disaggregation/ticket.ts";
import { HttpError } from "../../http/error_response.ts";
import type { RouterEvent } from "../observer.ts";
import { CircuitBreaker } from "../worker/breaker.ts";
import { Worker } from "../worker/worker.ts";
import { MAX_DECODE_NODES, MAX_NODE_BODY_BYTES, MAX_NODE_PATH, MAX_NODE_TOKENS } from "./limits.ts";
import { NodeLink } from "./node_link.ts";

/** With which a client says that a page of a stranger's browser may answer. */
export const OPT_IN_HEADER = "x-wisp-decode-node";
const OPT_IN = "allow";

/** Milliseconds in which a token may be used. */
const TOKEN_TIME = 600_000;

/** A page that takes requests. */
export interface DecodeNode {
  readonly worker: Worker;
  readonly link: NodeLink;
}

export interface DecodeNodesOptions {
  /** Of the group of prefill servers, which is not told to nodes. */
  readonly key: string;
  readonly onEvent: (event: RouterEvent) => void;
}

export class DecodeNodes {
  readonly #options: DecodeNodesOptions;
  /** Tokens -> when they are good no more, oldest first. */
  readonly #tokens = new Map<string, number>();
  readonly #nodes = new Map<string, DecodeNode>();
  readonly #links = new Set<NodeLink>();

  constructor(options: DecodeNodesOptions) {
    this.#options = options;
  }

  /** Those that have joined. */
  get names(): readonly string[] {
    return [...this.#nodes.keys()];
  }

  /** @throws {HttpError} `unavailable` when too many were given. */
  newToken(): { readonly token: string; readonly expires_in: number } {
    this.#forgetOld();
    if (this.#tokens.size >= MAX_NODE_TOKENS) {
      const state = `${MAX_NODE_TOKENS} were given and not used, which are the most`;
      throw new HttpError("unavailable", `Cannot give a token: ${state}`);
    }
    const token = newNonce();
    this.#tokens.set(token, Date.now() + TOKEN_TIME);
    return { token, expires_in: TOKEN_TIME / 1000 };
  }

  /** A page has connected. */
  accept(channel: Channel): void {
    if (this.#links.size >= MAX_DECODE_NODES) {
      channel.close(`there are ${MAX_DECODE_NODES} nodes, which are the most`);
      return;
    }
    const link: NodeLink = new NodeLink(channel, {
      join: (token) => this.#useToken(token),
      onJoined: (name) => this.#add(name, link),
      onEnd: (reason, name) => {
        this.#links.delete(link);
        if (name === undefined) this.#tell("info", `A page did not join: ${reason}`);
        else if (this.#nodes.delete(name)) this.#tell("info", `Node ${name} has left: ${reason}`);
      },
    });
    this.#links.add(link);
  }

  /** Whether a request may go to one. */
  mayAnswer(request: Request, body: Uint8Array): boolean {
    const isSmall = body.length <= MAX_NODE_BODY_BYTES && request.url.length <= MAX_NODE_PATH;
    return isSmall && request.headers.get(OPT_IN_HEADER) === OPT_IN;
  }

  /** The one with the least to do, for a request that may go to one. */
  choose(request: Request, body: Uint8Array): DecodeNode | undefined {
    if (!this.mayAnswer(request, body)) return undefined;
    const free = [...this.#nodes.values()].filter(({ link }) => link.isFree);
    return free.sort((a, b) => a.worker.inFlight - b.worker.inFlight)[0];
  }

  /** A client ends what stands behind an id, or everything: nodes that have it are told. */
  abort(rid?: string): void {
    for (const { link } of this.#nodes.values()) link.abort(rid);
  }

  /** By which a node fetches pages of rooms that were made for it. */
  ticketFor({ worker }: DecodeNode) {
    const owner = worker.url.slice(NODE_SCHEME.length);
    return { owner, ticket: newTicket(this.#options.key, owner) };
  }

  close(): void {
    for (const link of [...this.#links]) link.end("the router ends");
  }

  #add(name: string, link: NodeLink): void {
    const url = NODE_SCHEME + name;
    const never = Number.POSITIVE_INFINITY;
    const always = { failureThreshold: never, successThreshold: 1, openTime: 1, window: 1 };
    const worker = new Worker(url, new CircuitBreaker(always, () => {}), { role: "decode" });
    worker.health = "healthy";
    this.#nodes.set(name, { worker, link });
    this.#tell("info", `Node ${name} has joined`);
  }

  /** @returns The name of who has it now. */
  #useToken(token: string): string {
    this.#forgetOld();
    if (!this.#tokens.delete(token)) throw new TypeError("its token is none, or was used already");
    return newNonce();
  }

  #forgetOld(): void {
    const now = Date.now();
    for (const [token, until] of this.#tokens) {
      if (until >= now) return;
      this.#tokens.delete(token);
    }
  }

  #tell(level: RouterEvent["level"], text: string): void {
    this.#options.onEvent({ level, text, fields: { message: text } });
  }
}

/** What addresses of nodes begin with, to which nothing can be sent but over their connections. */
export const NODE_SCHEME = "node://";
