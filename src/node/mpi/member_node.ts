/**
 * A node above 0 of a group: its launcher goes to that of node 0.
 *
 * @module
 */
import { connect, type Socket } from "node:net";
import { ControlChannel, type Message } from "./control_channel.ts";
import { EXIT, type ExitCode, LaunchError } from "./launch_error.ts";
import { addressText, type Deferred, deferred, type Nodes, type NodesOptions } from "./nodes.ts";
import type { KeyValues } from "./pmi_service.ts";

/** Milliseconds between two tries to reach node 0. */
const RETRY = 200;
/** Milliseconds that one try may take. */
export const TRY = 5000;

/**
 * Goes to node 0, which may start later, and waits until every node has come.
 *
 * @throws {LaunchError} when node 0 is not there in time, refuses this node, or does not start.
 */
export async function meetAsMember(options: NodesOptions): Promise<Nodes> {
  const deadline = performance.now() + options.timeout;
  for (;;) {
    const tried = await attempt(options);
    if (tried.socket !== undefined) {
      const member = new MemberNode(tried.socket, options);
      if (await member.meet(deadline)) return member;
    }
    await waitToRetry(options, deadline, tried.problem ?? "it hangs up");
  }
}

class MemberNode implements Nodes {
  readonly #channel: ControlChannel;
  readonly #options: NodesOptions;
  readonly #complete = deferred<boolean>();
  readonly #end = deferred<void>();
  #isWelcome = false;
  #fenced: Deferred<KeyValues> = deferred();
  #failure: LaunchError | undefined;
  onFailure: ((error: LaunchError) => void) | undefined;

  constructor(socket: Socket, options: NodesOptions) {
    this.#options = options;
    this.#channel = new ControlChannel(socket, {
      onMessage: (message) => this.#hear(message),
      onEnd: (reason, isClosed) => this.#lose(reason, isClosed),
    });
  }

  /**
   * Waits until every node has come.
   *
   * @returns False where node 0 has hung up without a word: it may be about to start again, or full
   * of strangers.
   */
  async meet(deadline: number): Promise<boolean> {
    const { node, facts, beat, timeout, signal } = this.#options;
    this.#channel.send({ type: "join", node, facts });
    this.#channel.trust(beat);
    const late = `not all nodes were there ${timeout / 1000} s after its start`;
    // Node 0 says which are missing where it has waited as long.
    const timer = setTimeout(
      () => this.fail(new LaunchError(`Cannot start node ${node}: ${late}`, EXIT.timeout)),
      deadline - performance.now() + 2 * beat,
    );
    const stop = () =>
      this.fail(new LaunchError("Cannot wait for the group: it is stopped", EXIT.failed));
    signal?.addEventListener("abort", stop, { once: true });
    try {
      return await this.#complete.promise;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
    }
  }

  fence(values: KeyValues): Promise<KeyValues> {
    this.#channel.send({ type: "fence", values });
    return this.#fenced.promise;
  }

  fail(error: LaunchError): void {
    if (this.#failure !== undefined) return;
    const { message: reason, exitCode } = error;
    this.#channel.send({ type: "failed", reason, exitCode });
    this.#failWith(error);
  }

  async finish(): Promise<void> {
    this.#channel.send({ type: "done" });
    await this.#end.promise;
    this.close();
  }

  close(): void {
    this.#channel.close();
  }

  #failWith(error: LaunchError): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    this.close();
    for (const waiting of [this.#complete, this.#fenced, this.#end]) waiting.reject(error);
    this.onFailure?.(error);
  }

  #lose(reason: string, isClosed: boolean): void {
    if (isClosed && !this.#isWelcome) this.#complete.resolve(false);
    else this.#failWith(new LaunchError(`Cannot go on without node 0: ${reason}`, EXIT.lost));
  }

  #hear({ type, values, reason, exitCode }: Message): void {
    switch (type) {
      case "welcome":
        this.#isWelcome = true;
        break;
      case "go":
        this.#complete.resolve(true);
        break;
      case "fenced": {
        const fenced = this.#fenced;
        this.#fenced = deferred();
        fenced.resolve(values as KeyValues);
        break;
      }
      case "refused":
        this.#failWith(new LaunchError(String(reason), EXIT.failed));
        break;
      case "failed":
        this.#failWith(new LaunchError(String(reason), exitCode as ExitCode));
        break;
      case "end":
        this.#end.resolve();
        break;
    }
  }
}

/** @throws {LaunchError} where the time is over or the wait is stopped. */
export async function waitToRetry(
  { address, timeout, signal }: Pick<NodesOptions, "address" | "timeout" | "signal">,
  deadline: number,
  problem: string,
): Promise<void> {
  if (signal?.aborted) {
    throw new LaunchError("Cannot wait for the group: it is stopped", EXIT.failed);
  }
  if (performance.now() >= deadline) {
    const state = `it is not at ${addressText(address!)} after ${timeout / 1000} s (${problem})`;
    throw new LaunchError(`Cannot start without node 0: ${state}`, EXIT.timeout);
  }
  await new Promise((resolve) => setTimeout(resolve, RETRY));
}

interface Attempt {
  readonly socket?: Socket;
  readonly problem?: string;
}

function attempt({ address }: NodesOptions): Promise<Attempt> {
  return new Promise((resolve) => {
    const socket = connect({ host: address!.host, port: address!.port });
    const fail = (problem: string) => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ problem });
    };
    const onError = (error: NodeJS.ErrnoException) => fail(error.code ?? error.message);
    const timer = setTimeout(() => fail("no answer"), TRY);
    socket.once("error", onError);
    socket.once("connect", () => {
      clearTimeout(timer);
      socket.off("error", onError);
      resolve({ socket });
    });
  });
}
