/**
 * The launchers of a group, one on each node: how they meet, and what they tell each other.
 *
 * @module
 */
import { once } from "node:events";
import type { Server } from "node:net";
import type { Facts } from "../../parallel/agree.ts";
import { EXIT, LaunchError } from "./launch_error.ts";
import type { KeyValues } from "./pmi_service.ts";

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface NodesOptions {
  readonly nodes: number;
  /** This one's number. Node 0 waits for the others. */
  readonly node: number;
  /** Where node 0 listens. A group of one node needs none. */
  readonly address: Address | undefined;
  /** What all must have alike; the first that differs is told. */
  readonly facts: Facts;
  /** Milliseconds in which all must have come. */
  readonly timeout: number;
  /** Milliseconds between signs of life. */
  readonly beat: number;
  /** Settles to end the wait. */
  readonly signal?: AbortSignal | undefined;
}

/** This launcher's end of the group of launchers, once all have met. */
export interface Nodes {
  /** Once, when another launcher is gone or has ended the group. */
  onFailure: ((error: LaunchError) => void) | undefined;
  /** Resolves with the values of all nodes, once every node has come here. */
  fence(own: KeyValues): Promise<KeyValues>;
  /** Ends the group on all nodes. */
  fail(error: LaunchError): void;
  /** This node's ranks have done their work. Resolves when those of all nodes have. */
  finish(): Promise<void>;
  close(): void;
}

/** "host:port", for messages. */
export function addressText({ host, port }: Address): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/**
 * Has node 0 wait for the others there.
 *
 * @throws {LaunchError} where the address cannot be used.
 */
export async function listenAt(server: Server, address: Address): Promise<void> {
  server.listen({ host: address.host, port: address.port });
  try {
    await once(server, "listening");
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const states: Readonly<Record<string, string>> = {
      EADDRINUSE: "another program has the port",
      EADDRNOTAVAIL: "this machine does not have the address; node 0 runs where it is",
      ENOTFOUND: "there is no such host",
    };
    const state = states[code ?? ""] ?? message;
    throw new LaunchError(
      `Cannot wait for nodes at ${addressText(address)}: ${state}`,
      EXIT.failed,
      { cause },
    );
  }
}

export interface Deferred<T> {
  readonly promise: Promise<T>;
  resolve(value: T): void;
  reject(error: unknown): void;
}

export function deferred<T>(): Deferred<T> {
  let settle: Pick<Deferred<T>, "resolve" | "reject"> | undefined;
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject };
  });
  // What waits for it may come later, or never.
  promise.catch(() => {});
  return { promise, ...settle! };
}
