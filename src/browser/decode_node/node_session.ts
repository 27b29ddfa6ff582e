/**
 * A decode node's end of its connection to the router: requests come in, and the endpoints of a server
 * answer them.
 *
 * @module
 */
import { type Channel, type ChannelMessage, wholeOf } from "../../disaggregation/channel.ts";
import { Heartbeat } from "../../disaggregation/heartbeat.ts";
import { parseMessage, shortened } from "../../disaggregation/messages.ts";
import { UnsupportedError, WorkerError } from "../../errors.ts";
import {
  type GenerationChunk,
  type GenerationEngine,
  type GenerationRequest,
  newRequestId,
} from "../../generation.ts";
import {
  GATEWAY_FIELDS,
  type GatewayMessage,
  NODE_VERSION,
  type NodeMessage,
  ofNumber,
} from "../../router/nodes/node_messages.ts";
import { createApp } from "../../server/app.ts";
import { layerOver } from "../../server/engine_layer.ts";
import type { EngineRole } from "../../server/server_context.ts";
import type { WorkerEngine } from "../worker/worker_engine.ts";
import type { DecodeNode, DecodeNodeOptions } from "./decode_node.ts";
import { NodeReply, type NodeRequestHead } from "./node_reply.ts";
import { connectPage } from "./page_socket.ts";

const CONNECT_TIMEOUT = 10_000;
const HEARTBEAT = { interval: 2000, misses: 3 };
const TYPES = Object.keys(GATEWAY_FIELDS) as GatewayMessage["type"][];

/** Connects, and joins. */
export async function startNode(
  engine: WorkerEngine,
  options: DecodeNodeOptions,
): Promise<DecodeNode> {
  if (!engine.takesPages) {
    const reason = "the engine was loaded without transfersPages";
    throw new UnsupportedError("joinAsDecodeNode", reason);
  }
  const url = new URL(
    "join_as_decode_node",
    options.url.endsWith("/") ? options.url : `${options.url}/`,
  );
  url.protocol = url.protocol.replace("http", "ws");
  const refused = (problem: string) => new WorkerError(`Cannot join ${options.url}: ${problem}`);
  const channel = await connectPage(url.href, CONNECT_TIMEOUT).catch((error: Error) => {
    throw refused(error.message);
  });
  const session = new NodeSession(channel, engine, options);
  const name = await session.joined;
  if (name === undefined) throw refused(await session.ended);
  return {
    name,
    ended: session.ended,
    leave: ({ now = false } = {}) => session.leave(now),
  };
}

class NodeSession {
  /** Resolves with the node's name; undefined where the router refuses it. */
  readonly joined: Promise<string | undefined>;
  readonly ended: Promise<string>;
  readonly #channel: Channel;
  readonly #options: DecodeNodeOptions;
  readonly #app: ReturnType<typeof createApp>;
  readonly #heartbeat: Heartbeat;
  readonly #replies = new Map<number, NodeReply>();
  /** What the engine has of them: the page may have asked it for more itself. */
  readonly #generations = new Set<string>();
  /** Requests whose bodies come next. */
  readonly #heads = new Map<number, NodeRequestHead>();
  #settle!: { joined(name?: string): void; ended(reason: string): void };
  #isLeaving = false;
  #isOver = false;

  constructor(channel: Channel, engine: GenerationEngine, options: DecodeNodeOptions) {
    this.#channel = channel;
    this.#options = options;
    let settleJoined!: (name?: string) => void;
    this.joined = new Promise((resolve) => {
      settleJoined = resolve;
    });
    this.ended = new Promise((resolve) => {
      this.#settle = { joined: settleJoined, ended: resolve };
    });
    const { url: _, token, onRequests: __, ...forms } = options;
    const doors = { allowedOrigins: ["*"], allowedHosts: ["*"] };
    this.#app = createApp(engine, { ...doors, ...forms, role: this.#role() });
    this.#heartbeat = new Heartbeat(HEARTBEAT, {
      beat: () => this.#say({ type: "beat" }),
      onLost: (reason) => this.#leaveFor(reason),
    });
    channel.listen({
      onMessage: (message) => this.#take(message),
      onClose: (reason) => this.#end(reason),
    });
    this.#say({ type: "join", version: NODE_VERSION, token });
  }

  async leave(now: boolean): Promise<void> {
    this.#isLeaving = true;
    this.#say({ type: "leave" });
    if (now || this.#replies.size === 0) this.#leaveFor("the page leaves");
    await this.ended;
  }

  /** Tells the router what answers have, before the bytes that tell it to the client. */
  #role(): EngineRole {
    return {
      name: "decode",
      over: (engine) =>
        layerOver(engine, {
          generate: (request) => this.#told(engine, request),
          abort: (id) => {
            for (const own of this.#generations) {
              if (id === undefined || id === own) engine.abort(own);
            }
          },
        }),
    };
  }

  async *#told(
    engine: GenerationEngine,
    { requestId = newRequestId(), ...request }: GenerationRequest,
  ): AsyncGenerator<GenerationChunk, undefined> {
    const [room = "", number = "0"] = request.bootstrap?.room.split("+") ?? [];
    const answer = Number(number);
    this.#generations.add(requestId);
    try {
      for await (const chunk of engine.generate({ ...request, requestId })) {
        const { tokens } = chunk;
        const id = [...this.#replies.values()].find((reply) => reply.room === room)?.id;
        if (tokens.length > 0 && id !== undefined)
          this.#say({ type: "tokens", id, answer, tokens });
        yield chunk;
      }
    } finally {
      this.#generations.delete(requestId);
    }
    return undefined;
  }

  async #abort(rid: string | undefined): Promise<void> {
    const body = JSON.stringify(rid === undefined ? { abort_all: true } : { rid });
    const headers = { "content-type": "application/json" };
    await this.#app.fetch(
      new Request("http://node/abort_request", { method: "POST", headers, body }),
    );
  }

  #say(message: NodeMessage): void {
    if (!this.#isOver) this.#channel.send(JSON.stringify(message));
  }

  #leaveFor(reason: string): void {
    if (this.#isOver) return;
    this.#channel.close(reason);
    this.#end(reason);
  }

  #end(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#heartbeat.stop();
    for (const reply of this.#replies.values()) reply.abort();
    this.#replies.clear();
    this.#settle.ended(reason);
    this.#settle.joined();
    this.#options.onRequests?.(0);
  }

  #take(message: ChannelMessage): void {
    if (this.#isOver) return;
    this.#heartbeat.heard();
    try {
      if (typeof message === "string") this.#hear(parseMessage(message, TYPES, GATEWAY_FIELDS));
      else this.#begin(message);
    } catch (error) {
      this.#leaveFor((error as Error).message);
    }
  }

  #hear(message: GatewayMessage): void {
    switch (message.type) {
      case "joined":
        this.#settle.joined(message.node);
        break;
      case "refused":
        this.#leaveFor(message.problem);
        break;
      case "request":
        this.#heads.set(message.id, message);
        break;
      case "taken":
        this.#replies.get(message.id)?.taken(message.bytes);
        break;
      case "abort":
        this.#heads.delete(message.id);
        this.#replies.get(message.id)?.abort();
        break;
      case "abort_request":
        void this.#abort(message.rid);
        break;
      case "beat":
        break;
      default:
        message satisfies never;
    }
  }

  /** The body of a request has come. */
  #begin(message: Exclude<ChannelMessage, string>): void {
    const { id, bytes } = ofNumber(wholeOf(message));
    const head = this.#heads.get(id);
    this.#heads.delete(id);
    if (head === undefined) return;
    const reply = new NodeReply(head, bytes, {
      fetch: (request) => this.#app.fetch(request),
      say: (said) => this.#say(said),
      send: (sent) => {
        if (!this.#isOver) this.#channel.send(sent);
      },
    });
    this.#replies.set(id, reply);
    this.#options.onRequests?.(this.#replies.size);
    void reply.run().then((problem) => {
      this.#replies.delete(id);
      if (problem !== undefined) this.#say({ type: "failed", id, problem: shortened(problem) });
      this.#options.onRequests?.(this.#replies.size);
      if (this.#isLeaving && this.#replies.size === 0) this.#leaveFor("the page leaves");
    });
  }
}
