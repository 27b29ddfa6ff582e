/**
 * The router's end of the connection to a decode node.
 *
 * @module
 */
import { type Channel, type ChannelMessage, wholeOf } from "../../disaggregation/channel.ts";
import { Heartbeat } from "../../disaggregation/heartbeat.ts";
import { parseMessage, shortened } from "../../disaggregation/messages.ts";
import { REQUEST_ID_HEADER } from "../../http/request_id.ts";
import type { UpstreamAnswer, UpstreamRequest } from "../worker/upstream.ts";
import type { GivenIds } from "./given_ids.ts";
import { MAX_NODE_REQUESTS } from "./limits.ts";
import { type BegunAnswers, NodeAnswer, workerFailed } from "./node_answer.ts";
import {
  type GatewayMessage,
  NODE_FIELDS,
  NODE_VERSION,
  type NodeMessage,
  numbered,
  ofNumber,
} from "./node_messages.ts";

/** Milliseconds in which a page must show its token. */
const JOIN_TIME = 10_000;
const HEARTBEAT = { interval: 2000, misses: 3 };

/** What a page is told of a client's headers: never the keys of the client or the router. */
const TOLD_HEADERS: readonly string[] = [
  ...["content-type", "accept", "anthropic-version", REQUEST_ID_HEADER],
];

const TYPES = Object.keys(NODE_FIELDS) as NodeMessage["type"][];

export interface NodeLinkOptions {
  /** The node's name. @throws {TypeError} for a token that is not good. */
  readonly join: (token: string) => string;
  /** It takes requests from now on. */
  readonly onJoined: (name: string) => void;
  /** Called once, when nothing comes or goes any more. @param name Undefined where it has not joined. */
  readonly onEnd: (reason: string, name: string | undefined) => void;
}

/** What a node is asked, beside the request itself. */
export interface NodeRequest {
  readonly begun: BegunAnswers;
  /** By which clients may have it aborted. */
  readonly ids: GivenIds;
  /** Resolves when the prefill server's part is over: until then there is nothing that it could say. */
  readonly prefilled: Promise<unknown>;
  /** Where its pages come from. */
  readonly host: string;
  readonly port: number;
  readonly room: string;
}

export class NodeLink {
  readonly #channel: Channel;
  readonly #options: NodeLinkOptions;
  readonly #heartbeat: Heartbeat;
  readonly #joining: ReturnType<typeof setTimeout>;
  readonly #answers = new Map<number, NodeAnswer>();
  readonly #ids = new Map<number, GivenIds>();
  #name: string | undefined;
  #count = 0;
  #isLeaving = false;
  #isOver = false;

  constructor(channel: Channel, options: NodeLinkOptions) {
    this.#channel = channel;
    this.#options = options;
    this.#joining = setTimeout(() => this.end("it has shown no token"), JOIN_TIME);
    this.#heartbeat = new Heartbeat(HEARTBEAT, {
      beat: () => this.#say({ type: "beat" }),
      onLost: (reason) => this.end(reason),
    });
    channel.listen({
      onMessage: (message) => this.#take(message),
      onClose: (reason) => this.#end(reason),
    });
  }

  /** Whether it may be sent one more request. */
  get isFree(): boolean {
    return this.#name !== undefined && !this.#isLeaving && this.#answers.size < MAX_NODE_REQUESTS;
  }

  /** Sends a request. @throws {HttpError} `worker_failed` as a rejection, and the signal's reason. */
  async ask(
    { url, method, headers, body, signal }: UpstreamRequest,
    { begun, ids, prefilled, ...place }: NodeRequest,
  ): Promise<UpstreamAnswer> {
    signal.throwIfAborted();
    if (this.#isOver) throw workerFailed("it has left");
    const { pathname, search } = new URL(url);
    this.#count += 1;
    const id = this.#count;
    const forget = () => {
      if (!this.#forget(id)) return;
      signal.removeEventListener("abort", onAbort);
      this.#say({ type: "abort", id });
    };
    const answer = new NodeAnswer({
      begun,
      prefilled,
      taken: (bytes) => {
        if (this.#answers.has(id)) this.#say({ type: "taken", id, bytes });
      },
      leave: forget,
    });
    const onAbort = () => {
      answer.fail(signal.reason);
      forget();
    };
    signal.addEventListener("abort", onAbort, { once: true });
    this.#answers.set(id, answer);
    this.#ids.set(id, ids);
    const path = pathname + search;
    this.#say({ type: "request", id, method, path, headers: toldHeaders(headers), ...place });
    this.#channel.send(numbered(id, body ?? new Uint8Array()));
    return answer.answer;
  }

  /** A client ends what stands behind an id, or all: the node answers what there is of it. */
  abort(rid?: string): void {
    const isHere = rid === undefined || [...this.#ids.values()].some((ids) => ids(rid));
    if (isHere && this.#ids.size > 0) this.#say({ type: "abort_request", rid });
  }

  /** Ends the connection from this side. */
  end(reason: string): void {
    if (this.#isOver) return;
    this.#say({ type: "refused", problem: shortened(reason) });
    this.#channel.close(reason);
    this.#end(reason);
  }

  #end(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#joining);
    this.#heartbeat.stop();
    for (const answer of this.#answers.values()) answer.fail(workerFailed(reason));
    this.#answers.clear();
    this.#ids.clear();
    this.#options.onEnd(reason, this.#name);
  }

  /** @returns Whether it was there. */
  #forget(id: number): boolean {
    this.#ids.delete(id);
    return this.#answers.delete(id);
  }

  #say(message: GatewayMessage): void {
    if (!this.#isOver) this.#channel.send(JSON.stringify(message));
  }

  #take(message: ChannelMessage): void {
    if (this.#isOver) return;
    this.#heartbeat.heard();
    try {
      if (typeof message === "string") this.#hear(parseMessage(message, TYPES, NODE_FIELDS));
      else this.#takeBytes(message);
    } catch (error) {
      this.end((error as Error).message);
    }
  }

  #takeBytes(message: Exclude<ChannelMessage, string>): void {
    const { id, bytes } = ofNumber(wholeOf(message));
    // Of a request that has ended here: they were on their way.
    this.#answers.get(id)?.take(bytes);
  }

  #hear(message: NodeMessage): void {
    if (message.type === "join") {
      this.#join(message);
      return;
    }
    if (this.#name === undefined) throw new TypeError("it says more before it has joined");
    if (message.type === "leave") this.#isLeaving = true;
    if (!("id" in message)) return;
    this.#answers.get(message.id)?.hear(message);
    if (message.type === "end" || message.type === "failed") this.#forget(message.id);
  }

  #join({ version, token }: Extract<NodeMessage, { type: "join" }>): void {
    if (this.#name !== undefined) throw new TypeError("it has joined already");
    if (version !== NODE_VERSION) {
      throw new TypeError(`the router speaks version ${NODE_VERSION}, the node ${version}`);
    }
    this.#name = this.#options.join(token);
    clearTimeout(this.#joining);
    this.#say({ type: "joined", node: this.#name });
    this.#options.onJoined(this.#name);
  }
}

function toldHeaders(headers: UpstreamRequest["headers"]): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => TOLD_HEADERS.includes(name.toLowerCase())),
  );
}
