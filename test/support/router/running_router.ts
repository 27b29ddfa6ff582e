/**
 * A router on a socket, with short times, and what it told.
 *
 * @module
 */
import { httpUpstream } from "../../../src/node/route/http_upstream.ts";
import { nodeSockets } from "../../../src/node/route/node_sockets.ts";
import { serve } from "../../../src/node/serve/http.ts";
import type { SocketLimits } from "../../../src/node/serve/socket_limits.ts";
import { createRouter, type Router, type RouterOptions } from "../../../src/router/app.ts";
import type { RouterEvent, RouterObserver } from "../../../src/router/observer.ts";
import { roundRobinPolicy } from "../../../src/router/policy/policy.ts";
import { closeAfterwards } from "./worker_servers.ts";

/** Times in milliseconds. */
const OPTIONS = {
  retries: { attempts: 5, initialBackoff: 1, maxBackoff: 10, multiplier: 1.5, jitter: 0.2 },
  admission: { maxConcurrentRequests: 256, queueSize: 100, queueTimeout: 60_000 },
  breaker: { failureThreshold: 10, successThreshold: 3, openTime: 60_000, window: 120_000 },
  health: {
    endpoint: "/health",
    interval: 60_000,
    timeout: 5000,
    failureThreshold: 3,
    successThreshold: 2,
    startupTimeout: 10_000,
    startupInterval: 10,
  },
  maxBodyBytes: 2 ** 26,
  requestMemory: 2 ** 28,
  requestTimeout: 1_800_000,
  requestIdHeaders: ["x-request-id", "x-correlation-id"],
} as const satisfies Partial<RouterOptions>;

export interface RunningRouter extends Router {
  readonly url: string;
  readonly events: readonly RouterEvent[];
  /** The names of what the observer was told, with the arguments. */
  readonly told: readonly (readonly [string, ...unknown[]])[];
  /** Errors that are the router's own. */
  readonly errors: readonly unknown[];
}

export type RouterSettings = Partial<RouterOptions> & {
  readonly limits?: Partial<SocketLimits>;
};

/** Routes to these workers, all healthy; closed after the test. */
export async function routerTo(
  urls: readonly string[],
  settings: RouterSettings = {},
): Promise<RunningRouter> {
  const events: RouterEvent[] = [];
  const told: [string, ...unknown[]][] = [];
  const errors: unknown[] = [];
  const upstream = httpUpstream();
  const router = createRouter({
    ...OPTIONS,
    policy: roundRobinPolicy(),
    upstream: upstream.send,
    observer: observerOf(events, told),
    reportError: (error) => errors.push(error),
    ...settings,
  });
  const server = await serve(router.app, {
    host: "127.0.0.1",
    port: 0,
    limits: settings.limits,
    upgrade: router.nodes && nodeSockets(router.app, router.nodes),
  });
  closeAfterwards(async () => {
    router.stop();
    upstream.close();
    await server.close(0);
  });
  for (const url of urls) await router.checks.admit(router.workers.add(url));
  return { ...router, url: server.url, events, told, errors };
}

function observerOf(events: RouterEvent[], told: [string, ...unknown[]][]): RouterObserver {
  const note =
    (name: string) =>
    (...args: unknown[]) =>
      void told.push([name, ...args]);
  return {
    event: (event) => events.push(event),
    request: note("request"),
    retry: note("retry"),
    exhausted: note("exhausted"),
    decision: note("decision"),
    prefix: note("prefix"),
    outcome: note("outcome"),
    breaker: note("breaker"),
    brokenStream: note("brokenStream"),
    discovery: note("discovery"),
    removed: note("removed"),
  };
}

/** Posts a body, as JSON unless it is a text or bytes. */
export function postTo(
  url: string,
  path: string,
  body: unknown,
  init: RequestInit = {},
): Promise<Response> {
  const isRaw = typeof body === "string" || body instanceof Uint8Array;
  const headers = { "content-type": "application/json", ...init.headers };
  const sent = isRaw ? (body as BodyInit) : JSON.stringify(body);
  return fetch(url + path, { method: "POST", body: sent, ...init, headers });
}
