/**
 * Node 0 of a group: where the launchers of the others come to.
 *
 * @module
 */
import { createServer, type Server, type Socket } from "node:net";
import { type Facts, firstDifference } from "../../parallel/agree.ts";
import { CONTROL_LIMITS, ControlChannel, type Message, SAID_BY_NONE } from "./control_channel.ts";
import { EXIT, type ExitCode, LaunchError } from "./launch_error.ts";
import { type Deferred, deferred, listenAt, type Nodes, type NodesOptions } from "./nodes.ts";
import type { KeyValues } from "./pmi_service.ts";

/**
 * Waits until every node has come.
 *
 * @throws {LaunchError} naming the nodes that have not, the first option that differs, or what is
 * wrong with the address.
 */
export async function meetAsHead(options: NodesOptions): Promise<Nodes> {
  const head = new HeadNode(options);
  await head.meet();
  return head;
}

class HeadNode implements Nodes {
  readonly #options: NodesOptions;
  readonly #channels = new Map<number, ControlChannel>();
  readonly #strangers = new Set<Socket>();
  readonly #complete = deferred<void>();
  readonly #finished = new Set<number>();
  readonly #end = deferred<void>();
  #server: Server | undefined;
  #fence = new Map<number, KeyValues>();
  #fenced: Deferred<KeyValues> = deferred();
  #failure: LaunchError | undefined;
  onFailure: ((error: LaunchError) => void) | undefined;

  constructor(options: NodesOptions) {
    this.#options = options;
  }

  async meet(): Promise<void> {
    const { nodes, address, timeout, signal } = this.#options;
    if (nodes === 1) return;
    this.#server = createServer((socket) => this.#welcome(socket));
    await listenAt(this.#server, address!);
    const timer = setTimeout(() => this.fail(this.#late()), timeout);
    const stop = () =>
      this.fail(new LaunchError("Cannot wait for the group: it is stopped", EXIT.failed));
    signal?.addEventListener("abort", stop, { once: true });
    try {
      await this.#complete.promise;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
    }
    for (const channel of this.#channels.values()) channel.send({ type: "go" });
  }

  fence(own: KeyValues): Promise<KeyValues> {
    const { promise } = this.#fenced;
    this.#arrive(0, own);
    return promise;
  }

  fail(error: LaunchError): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    const { message: reason, exitCode } = error;
    for (const channel of this.#channels.values()) {
      channel.send({ type: "failed", reason, exitCode });
    }
    this.close();
    for (const waiting of [this.#complete, this.#fenced, this.#end]) waiting.reject(error);
    this.onFailure?.(error);
  }

  async finish(): Promise<void> {
    this.#finishes(0);
    await this.#end.promise;
    this.close();
  }

  close(): void {
    this.#server?.close();
    for (const socket of this.#strangers) socket.destroy();
    for (const channel of this.#channels.values()) channel.close();
  }

  #late(): LaunchError {
    const { nodes, timeout } = this.#options;
    const missing = Array.from({ length: nodes - 1 }, (_, i) => i + 1).filter(
      (node) => !this.#channels.has(node),
    );
    const named = `node${missing.length === 1 ? "" : "s"} ${missing.join(", ")}`;
    const state = `not there ${timeout / 1000} s after the start of node 0`;
    return new LaunchError(`Cannot start without ${named}: ${state}`, EXIT.timeout);
  }

  #welcome(socket: Socket): void {
    if (this.#strangers.size >= CONTROL_LIMITS.strangers) {
      socket.destroy();
      return;
    }
    this.#strangers.add(socket);
    const timer = setTimeout(() => socket.destroy(), CONTROL_LIMITS.introduction);
    socket.once("close", () => {
      clearTimeout(timer);
      this.#strangers.delete(socket);
    });
    let node: number | undefined;
    const channel = new ControlChannel(socket, {
      onMessage: (message) => {
        if (node !== undefined) {
          this.#hear(node, message);
          return;
        }
        clearTimeout(timer);
        node = this.#join(message, channel);
        if (node !== undefined) this.#strangers.delete(socket);
      },
      onEnd: (reason) => {
        if (node !== undefined) this.#lose(node, reason);
      },
    });
  }

  /** The node that has joined; undefined for one that is refused. */
  #join(message: Message, channel: ControlChannel): number | undefined {
    const { type, node, facts } = message;
    const isLauncher = type === "join" && Number.isSafeInteger(node) && isFacts(facts);
    if (!isLauncher) return this.#refuse(channel, "what came was not said by a launcher");
    const difference = firstDifference(this.#options.facts, facts);
    if (difference !== undefined) {
      const [own, other] = [this.#options.facts[difference], facts[difference]];
      const state = `${difference} is ${own} on node 0, ${other} on node ${node}`;
      const error = new LaunchError(
        `Cannot start nodes with different options: ${state}`,
        EXIT.failed,
      );
      this.#refuse(channel, error.message);
      // A group that is whole has nothing to do with one who comes late.
      if (this.#channels.size < this.#options.nodes - 1) this.fail(error);
      return undefined;
    }
    return this.#admit(node as number, channel);
  }

  #admit(node: number, channel: ControlChannel): number | undefined {
    const { nodes, beat } = this.#options;
    if (node < 1 || node >= nodes) {
      const state = `nodes of this group are 0 to ${nodes - 1}`;
      return this.#refuse(channel, `Cannot join as node ${node}: ${state}`);
    }
    if (this.#channels.has(node)) {
      return this.#refuse(channel, `Cannot join as node ${node}: another launcher has`);
    }
    this.#channels.set(node, channel);
    channel.trust(beat);
    channel.send({ type: "welcome" });
    if (this.#channels.size === nodes - 1) this.#complete.resolve();
    return node;
  }

  #refuse(channel: ControlChannel, reason: string): undefined {
    channel.send({ type: "refused", reason });
    channel.close();
  }

  #hear(node: number, { type, values, reason, exitCode }: Message): void {
    if (type === "fence") {
      if (isFacts(values)) this.#arrive(node, values as KeyValues);
      else this.#lose(node, SAID_BY_NONE);
    } else if (type === "done") this.#finishes(node);
    else if (type === "failed") {
      this.fail(new LaunchError(String(reason), exitCode as ExitCode));
    }
  }

  #lose(node: number, reason: string): void {
    if (this.#finished.has(node)) return;
    this.fail(new LaunchError(`Cannot go on without node ${node}: ${reason}`, EXIT.lost));
  }

  #arrive(node: number, values: KeyValues): void {
    this.#fence.set(node, values);
    if (this.#fence.size < this.#options.nodes) return;
    const all: KeyValues = Object.fromEntries([...this.#fence.values()].flatMap(Object.entries));
    const fenced = this.#fenced;
    this.#fence = new Map();
    this.#fenced = deferred();
    for (const channel of this.#channels.values()) channel.send({ type: "fenced", values: all });
    fenced.resolve(all);
  }

  #finishes(node: number): void {
    this.#finished.add(node);
    if (this.#finished.size < this.#options.nodes) return;
    for (const channel of this.#channels.values()) channel.send({ type: "end" });
    this.#end.resolve();
  }
}

export function isFacts(value: unknown): value is Facts {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
