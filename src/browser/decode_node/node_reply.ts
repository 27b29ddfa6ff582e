/**
 * A decode node's answer to one request, on its way to the router.
 *
 * @module
 */
import { MAX_NODE_BYTES_AHEAD, MAX_NODE_MESSAGE_BYTES } from "../../router/nodes/limits.ts";
import {
  type GatewayMessage,
  type NodeMessage,
  numbered,
} from "../../router/nodes/node_messages.ts";

export type NodeRequestHead = Extract<GatewayMessage, { type: "request" }>;

/** Bytes of one message, without its number. */
const PIECE_BYTES = MAX_NODE_MESSAGE_BYTES / 2;

export interface NodeReplyWays {
  readonly fetch: (request: Request) => Response | Promise<Response>;
  readonly say: (message: NodeMessage) => void;
  readonly send: (bytes: Uint8Array<ArrayBuffer>) => void;
}

export class NodeReply {
  readonly #head: NodeRequestHead;
  readonly #body: Uint8Array<ArrayBuffer>;
  readonly #ways: NodeReplyWays;
  readonly #leaving = new AbortController();
  /** Bytes that the router has not passed on yet. */
  #ahead = 0;
  #tell: () => void = () => {};

  constructor(head: NodeRequestHead, body: Uint8Array<ArrayBuffer>, ways: NodeReplyWays) {
    this.#head = head;
    this.#body = body;
    this.#ways = ways;
  }

  get id(): number {
    return this.#head.id;
  }

  get room(): string {
    return this.#head.room;
  }

  abort(): void {
    this.#leaving.abort();
    this.#tell();
  }

  taken(bytes: number): void {
    this.#ahead -= bytes;
    this.#tell();
  }

  /** @returns What has gone wrong, where it could not be answered to its end. */
  async run(): Promise<string | undefined> {
    const { id, method, path, headers } = this.#head;
    const { signal } = this.#leaving;
    const { say, fetch } = this.#ways;
    try {
      const given = Object.entries(headers).map(([name, value]) => [name, String(value)] as const);
      const request = new Request(new URL(path, "http://node/"), {
        method,
        headers: given.map(([name, value]) => [name, value]),
        body: method === "GET" ? null : this.#body,
        signal,
      });
      const response = await fetch(request);
      const { status } = response;
      say({ type: "head", id, status, headers: Object.fromEntries(response.headers) });
      await this.#sendBody(response);
      say({ type: "end", id });
      return undefined;
    } catch (error) {
      return signal.aborted ? undefined : (error as Error).message;
    }
  }

  async #sendBody({ body }: Response): Promise<void> {
    const { signal } = this.#leaving;
    const reader = body?.getReader();
    if (reader === undefined) return;
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        for (let start = 0; start < value.length; start += PIECE_BYTES) {
          await this.#untilNear();
          signal.throwIfAborted();
          const piece = value.subarray(start, start + PIECE_BYTES);
          this.#ahead += piece.length;
          this.#ways.send(numbered(this.id, piece));
        }
      }
    } finally {
      void reader.cancel();
    }
  }

  async #untilNear(): Promise<void> {
    while (this.#ahead >= MAX_NODE_BYTES_AHEAD && !this.#leaving.signal.aborted) {
      await new Promise<void>((resolve) => {
        this.#tell = resolve;
      });
    }
  }
}
