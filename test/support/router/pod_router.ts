/**
 * Routers that follow the pods of a cluster, and what serves in those pods.
 *
 * @module
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "vitest";
import { clusterAt } from "../../../src/node/route/kubernetes.ts";
import { DiscoveredWorkers } from "../../../src/router/discovery/discovered_workers.ts";
import type { PodRule } from "../../../src/router/discovery/pod.ts";
import { PodWatch } from "../../../src/router/discovery/pod_watch.ts";
import { roundRobinPolicy } from "../../../src/router/policy/policy.ts";
import { until } from "../until.ts";
import type { FakeCluster } from "./fake_cluster.ts";
import { type RunningRouter, routerTo } from "./running_router.ts";
import { closeAfterwards } from "./worker_servers.ts";

const PLAIN: readonly PodRule[] = [{ role: "plain", labels: { app: "wisp" } }];
export const TIMES = { backoff: 5, longestBackoff: 20, watch: 60_000 };

export interface PodServers {
  readonly port: number;
  /** Requests that are not health checks wait for this. */
  release: () => void;
}

/** Serves at every address of this machine, so that each pod has one of its own. */
export async function podServers(): Promise<PodServers> {
  let release = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const server = createServer((request, response) => {
    if (request.url === "/health") return void response.end();
    if (request.url === "/get_load") return void response.writeHead(404).end();
    void gate.then(() => response.end(`{"at":"${request.headers.host}"}`));
  });
  await new Promise<void>((resolve) => server.listen(0, "0.0.0.0", resolve));
  closeAfterwards(async () => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, release };
}

interface Following {
  readonly router: RunningRouter;
  readonly told: readonly string[];
}

interface Settings {
  readonly rules?: readonly PodRule[];
  readonly namespace?: string;
  readonly times?: typeof TIMES;
  readonly folder?: string;
}

/** A router that follows the pods of a cluster, which serve at a port. */
export async function follow(
  { url }: { readonly url: string },
  { port }: { readonly port: number },
  { rules = PLAIN, namespace, times = TIMES, folder }: Settings = {},
): Promise<Following> {
  const policies = { prefill: roundRobinPolicy(), decode: roundRobinPolicy() };
  const router = await routerTo([], rules === PLAIN ? {} : { pairPolicies: policies });
  const told: string[] = [];
  const discovered = new DiscoveredWorkers({
    ...router,
    observer: {
      event: ({ text }: { readonly text: string }) => told.push(text),
      discovery: () => {},
    } as never,
  });
  const ending = new AbortController();
  const watch = new PodWatch({
    ...{ rules, port, namespace, times },
    cluster: clusterAt(url, folder),
    onPods: (pods) => discovered.update(pods),
    tell: (_level, text) => told.push(text),
  });
  const running = watch.run(ending.signal);
  closeAfterwards(() => {
    ending.abort();
    return running;
  });
  return { router, told };
}

/** Waits until these addresses are the workers, and may all be chosen. */
export function workersAre(
  router: RunningRouter,
  port: number,
  ips: readonly string[],
): Promise<void> {
  const urls = ips.map((ip) => `http://${ip}:${port}`);
  return until(() => {
    const available = router.workers.available.map(({ url }) => url);
    expect(router.workers.all.map(({ url }) => url).sort()).toEqual([...urls].sort());
    expect(available.sort()).toEqual([...urls].sort());
  });
}

export const watching = (cluster: FakeCluster) => until(() => expect(cluster.watches).toBe(1));

export const kinds = (cluster: FakeCluster) => cluster.asked.map(({ kind }) => kind);
