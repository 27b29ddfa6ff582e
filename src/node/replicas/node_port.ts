/**
 * What a node of replicas and node 0 say to each other about one of its replicas: plain data over a
 * WebSocket, and signs of life when there is nothing else to say.
 *
 * @module
 */
import type { Socket } from "node:net";
import { deserialize, serialize } from "node:v8";
import type { WebSocket } from "ws";
import type { Port } from "../../engine/remote/port.ts";
import { MAX_UNSENT_BYTES } from "../disaggregation/web_socket_channel.ts";
import { SAID_BY_NONE } from "../mpi/control_channel.ts";
import type { ExitCode } from "../mpi/launch_error.ts";
import { deferred } from "../mpi/nodes.ts";

/** Bytes of one message, of a launcher whose options fit. */
export const MAX_NODE_MESSAGE_BYTES = 2 ** 30;
/** Bytes that wait to be sent to a node at most; requests beyond are refused. */
export const MAX_NODE_UNSENT_BYTES = 2 ** 28;
/** Milliseconds between signs of life. */
const BEAT = 2000;
/** Signs of life that may be missing. */
const MISSES = 3;
/** Milliseconds that the other end has to answer a close. */
const LAST_WORDS = 500;
/** Of a WebSocket that ends as it should. */
const NORMAL = 1000;

export class NodePort implements Port {
  readonly #socket: WebSocket;
  readonly #left = deferred<string | undefined>();
  readonly #noted = deferred<void>();
  readonly #timer: NodeJS.Timeout;
  #onMessage: Port["onMessage"];
  readonly #unheard: unknown[] = [];
  #isOver = false;
  #isLeaving = false;
  onEnd: Port["onEnd"];

  /**
   * @param socket That is open.
   * @param connection What carries it: a long message is a sign of life before all of it is there.
   * @param beat Milliseconds between signs of life.
   */
  constructor(socket: WebSocket, connection: Socket, beat = BEAT) {
    this.#socket = socket;
    socket.on("message", (data) => this.#hear(data as Buffer));
    socket.on("error", ({ message }) => this.#end(`its connection has failed: ${message}`));
    socket.on("close", () => this.#end("its connection has ended"));
    let heard = connection.bytesRead;
    let misses = 0;
    this.#timer = setInterval(() => {
      socket.ping();
      misses = connection.bytesRead === heard ? misses + 1 : 0;
      heard = connection.bytesRead;
      if (misses > MISSES)
        this.#end(`it has given no sign of life for ${(MISSES * beat) / 1000} s`);
    }, beat);
  }

  /** Whether nothing comes or goes any more. What came before is still heard. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Whether the other end only answers what it has been asked, and leaves then. */
  get isLeaving(): boolean {
    return this.#isLeaving && !this.#isOver;
  }

  /** Whether more waits to be sent than may. */
  get isFull(): boolean {
    return this.#socket.bufferedAmount > MAX_NODE_UNSENT_BYTES;
  }

  /** Resolves once nothing comes any more: with why, where it was not closed here. */
  get left(): Promise<string | undefined> {
    return this.#left.promise;
  }

  get onMessage(): Port["onMessage"] {
    return this.#onMessage;
  }

  set onMessage(take) {
    this.#onMessage = take;
    while (this.#onMessage !== undefined && this.#unheard.length > 0) {
      this.#onMessage(this.#unheard.shift());
    }
  }

  post(message: unknown): void {
    if (this.#isOver) return;
    if (this.#socket.bufferedAmount > MAX_UNSENT_BYTES) {
      this.#end(`it leaves ${MAX_UNSENT_BYTES} bytes lying`);
    } else this.#socket.send(serialize(message));
  }

  /** Says that nothing more is to be asked here. Resolves once nothing more comes. */
  async leave(): Promise<void> {
    this.post({ type: "leaving" } satisfies NodeWord);
    await Promise.race([this.#noted.promise, this.left]);
  }

  close(): void {
    if (!this.#stop(undefined)) return;
    this.#socket.close(NORMAL);
    setTimeout(() => this.#socket.terminate(), LAST_WORDS).unref();
  }

  #hear(data: Buffer): void {
    if (this.#isOver) return;
    try {
      const message: unknown = deserialize(data);
      if (this.#isOfNodes(message)) return;
      if (this.#onMessage === undefined) this.#unheard.push(message);
      else this.#onMessage(message);
    } catch {
      this.#end(SAID_BY_NONE);
    }
  }

  /** @returns Whether it is no matter of the replica's engine. */
  #isOfNodes(message: unknown): boolean {
    const { type } = (message ?? {}) as Partial<NodeWord>;
    if (type === "noted") this.#noted.resolve();
    if (type === "leaving") {
      this.#isLeaving = true;
      // What has been asked until now is sent first.
      setImmediate(() => this.post({ type: "noted" } satisfies NodeWord));
    }
    return type === "noted" || type === "leaving";
  }

  #end(problem: string): void {
    if (!this.#stop(problem)) return;
    this.#socket.terminate();
    this.onEnd?.(problem);
  }

  /** @returns False where it has ended before. */
  #stop(problem: string | undefined): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    clearInterval(this.#timer);
    this.#left.resolve(problem);
    return true;
  }
}

/** A node wants to leave, and node 0 has heard it and asks nothing more. */
interface NodeWord {
  readonly type: "leaving" | "noted";
}

/** What a node says first of a replica, before its engine answers. */
export type FirstWord =
  | { readonly type: "loaded"; readonly adapter: string }
  | { readonly type: "failed"; readonly reason: string; readonly exitCode: ExitCode };
