/**
 * The pods of a Kubernetes cluster behind an interface like its own, which breaks off, forgets, and
 * sends what it should not.
 *
 * @module
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createSecureServer, type ServerOptions } from "node:https";
import type { AddressInfo } from "node:net";
import { closeAfterwards } from "./worker_servers.ts";

export interface PodFields {
  readonly ip?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly isReady?: boolean;
  readonly phase?: string;
  readonly isLeaving?: boolean;
  /** Default: a new one for each name. */
  readonly uid?: string;
}

interface Change {
  readonly version: number;
  readonly type: string;
  readonly pod: Pod;
}

type Pod = ReturnType<typeof podOf>;

export interface Asked {
  readonly kind: "list" | "watch";
  readonly path: string;
  readonly query: URLSearchParams;
  readonly token: string | undefined;
}

export class FakeCluster {
  url = "";
  /** Requests, in their order. */
  readonly asked: Asked[] = [];
  /** What the token must be; undefined where none is asked for. */
  token: string | undefined;
  /** Answers the next requests, each by one of these. */
  readonly faults: ((response: ServerResponse, asked: Asked) => void)[] = [];
  readonly #pods = new Map<string, Pod>();
  #changes: Change[] = [];
  readonly #watches = new Map<ServerResponse, string | null>();
  #version = 100;
  /** Changes up to this one are forgotten. */
  #forgotten = 100;

  get watches(): number {
    return this.#watches.size;
  }

  /** A pod is there, or is now so. */
  put(name: string, fields: PodFields = {}): void {
    this.#change(this.#pods.has(name) ? "MODIFIED" : "ADDED", name, fields);
  }

  remove(name: string): void {
    const { pod } = this.#change("DELETED", name, {});
    this.#pods.delete(pod.metadata.name);
  }

  /** Tells watchers what has been, without a change. */
  bookmark(): void {
    const metadata = { resourceVersion: String(++this.#version) };
    this.send(`${JSON.stringify({ type: "BOOKMARK", object: { kind: "Pod", metadata } })}\n`);
  }

  /** Forgets what has changed until now. */
  compact(): void {
    this.#forgotten = this.#version;
    this.#changes = [];
  }

  /** Sends all watchers a text. */
  send(text: string): void {
    for (const watch of this.#watches.keys()) watch.write(text);
  }

  /** Ends all watches, as the cluster does from time to time. */
  end(): void {
    for (const watch of this.#watches.keys()) watch.end();
    this.#watches.clear();
  }

  /** Breaks all watches off. */
  breakOff(): void {
    for (const watch of this.#watches.keys()) watch.destroy();
    this.#watches.clear();
  }

  answer(request: IncomingMessage, response: ServerResponse): void {
    const { pathname: path, searchParams: query } = new URL(request.url!, "http://cluster");
    const token = /^Bearer (.*)$/.exec(request.headers.authorization ?? "")?.[1];
    const kind = query.get("watch") === "true" ? "watch" : "list";
    const asked: Asked = { kind, path, query, token };
    this.asked.push(asked);
    const fault = this.faults.shift();
    if (fault !== undefined) fault(response, asked);
    else if (this.token !== undefined && token !== this.token) refuse(response, 401);
    else if (kind === "watch") this.#watch(query, response);
    else this.#list(query, response);
  }

  #list(query: URLSearchParams, response: ServerResponse): void {
    const pods = [...this.#pods.values()].filter((pod) => isSelected(pod, query));
    const [from = 0, at = this.#version] = (query.get("continue") ?? "").split(",").map(Number);
    if (at < this.#forgotten && query.has("continue")) {
      refuse(response, 410);
      return;
    }
    const until = from + Number(query.get("limit"));
    const more = until < pods.length ? { continue: `${until},${this.#version}` } : {};
    const metadata = { resourceVersion: String(this.#version), ...more };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ kind: "PodList", metadata, items: pods.slice(from, until) }));
  }

  #watch(query: URLSearchParams, response: ServerResponse): void {
    const from = Number(query.get("resourceVersion"));
    if (from < this.#forgotten) {
      const object = { kind: "Status", code: 410, reason: "Expired", message: "too old" };
      response.end(`${JSON.stringify({ type: "ERROR", object })}\n`);
      return;
    }
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    this.#watches.set(response, query.get("labelSelector"));
    response.once("close", () => this.#watches.delete(response));
    for (const change of this.#changes) {
      if (change.version > from && isSelected(change.pod, query)) response.write(lineOf(change));
    }
  }

  #change(type: string, name: string, fields: PodFields): Change {
    const uid = fields.uid ?? `uid-of-${name}`;
    const pod = podOf(name, { ...fields, uid }, ++this.#version);
    this.#pods.set(name, pod);
    const change = { type, version: this.#version, pod };
    this.#changes.push(change);
    for (const [watch, labelSelector] of this.#watches) {
      const query = new URLSearchParams(labelSelector === null ? {} : { labelSelector });
      if (isSelected(pod, query)) watch.write(lineOf(change));
    }
    return change;
  }
}

/**
 * @param tls Serves by https.
 * @param host Where it listens.
 */
export async function fakeCluster(tls?: ServerOptions, host = "127.0.0.1"): Promise<FakeCluster> {
  const cluster = new FakeCluster();
  const answer = (request: IncomingMessage, response: ServerResponse) =>
    cluster.answer(request, response);
  const server = tls === undefined ? createServer(answer) : createSecureServer(tls, answer);
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const { port } = server.address() as AddressInfo;
  cluster.url = `${tls === undefined ? "http" : "https"}://${host}:${port}`;
  closeAfterwards(
    () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  return cluster;
}

function podOf(name: string, fields: PodFields & { readonly uid: string }, version: number) {
  const { ip = "127.0.0.1", labels = { app: "wisp" }, annotations = {}, uid } = fields;
  const { isReady = true, phase = "Running", isLeaving = false } = fields;
  return {
    metadata: {
      ...{ name, namespace: "default", uid, labels, annotations },
      resourceVersion: String(version),
      ...(isLeaving && { deletionTimestamp: "2026-01-01T00:00:00Z" }),
    },
    status: {
      ...{ phase, podIP: ip },
      conditions: [
        { type: "Initialized", status: "True" },
        { type: "Ready", status: isReady ? "True" : "False" },
      ],
    },
  };
}

function isSelected({ metadata: { labels } }: Pod, query: URLSearchParams): boolean {
  const wanted = (query.get("labelSelector") ?? "").split(",").filter((word) => word !== "");
  return wanted.every((word) => labels[word.split("=")[0]!] === word.split("=")[1]);
}

const lineOf = ({ type, pod }: Change) => `${JSON.stringify({ type, object: pod })}\n`;

/** Answers like the cluster where it does not do what is asked. */
export function refuse(response: ServerResponse, code: number): void {
  response.writeHead(code, { "content-type": "application/json" });
  response.end(JSON.stringify({ kind: "Status", code, message: `status ${code}` }));
}
