/**
 * What `wisp launch_router` runs once its options are read: a router on a socket, until a signal comes.
 *
 * @module
 */
import { createRouter, type Router } from "../../router/app.ts";
import type { Lifecycle } from "../../server/guard/lifecycle.ts";
import type { CommandContext } from "../commands/command_context.ts";
import { Logger } from "../observe/logger.ts";
import { describeAccess } from "../options/access_options.ts";
import { type App, type RunningServer, requireFreeAddress, serve } from "../serve/http.ts";
import { drainOnSignal } from "../serve/shutdown.ts";
import { socketLimits } from "../serve/socket_limits.ts";
import { podFollower } from "./follow_pods.ts";
import { httpUpstream } from "./http_upstream.ts";
import { pairPoliciesOf, policyOf, requireUsable, routerOptions } from "./map_router_options.ts";
import { nodeSockets } from "./node_sockets.ts";
import type { GivenWorker } from "./pair_options.ts";
import { RouterMetrics } from "./router_metrics.ts";
import type { RouterLaunchOptions } from "./router_options.ts";

/** Routes until a signal comes, or until it is known that not all workers become healthy. */
export async function runRouter(
  options: RouterLaunchOptions,
  { stderr }: CommandContext,
): Promise<void> {
  const given = requireUsable(options);
  const followPods = podFollower(options);
  await requireFreeAddress(options);
  const page = { host: options.prometheusHost, port: options.prometheusPort };
  await requireFreeAddress(page);
  const log = new Logger({ stderr, level: options.logLevel, format: options.logFormat });
  if (options.evictionIntervalSecs !== undefined) {
    const state = "what is too much of prompts is forgotten at once";
    log.line("info", `Option --eviction-interval-secs changes nothing: ${state}`);
  }
  const metrics = new RouterMetrics();
  const upstream = httpUpstream();
  const policy = policyOf(options);
  const observer = metrics.observer(({ level, text, fields }) => log.event(level, text, fields));
  const following = new AbortController();
  let lifecycle: Lifecycle = "ready";
  const router = createRouter({
    ...routerOptions(options),
    policy,
    pairPolicies: pairPoliciesOf(options),
    upstream: upstream.send,
    observer,
    lifecycle: () => lifecycle,
    reportError: (error, requestId) => log.error(error, requestId),
  });
  metrics.watch(router, policy);
  const figures = await serve(metricsApp(metrics), page);
  const server = await serveRouter(router, options);
  const end = async () => {
    following.abort();
    router.stop();
    upstream.close();
    await figures.close(0);
  };
  const stopped = drainOnSignal(
    server,
    { close: end },
    {
      drainTimeout: options.drainTimeout,
      log,
      onDrain: () => {
        lifecycle = "draining";
      },
    },
  );
  log.line("info", `Listening on ${server.url}`);
  log.line("info", `Metrics at ${figures.url}/metrics`);
  const access = describeAccess(options, options.host);
  log.line(access.isOpen ? "warning" : "info", (access.isOpen ? "Warning: " : "") + access.text);
  followPods?.(router, observer, following.signal);
  const failed = startWorkers(router, given, options).then((problem) => {
    if (problem === undefined) {
      if (lifecycle === "draining") return stopped;
      log.line("info", `Ready: ${policy.name} routes to ${toWorkers(given)} at ${server.url}`);
      return stopped;
    }
    return Promise.reject(new Error(problem));
  });
  try {
    await Promise.race([stopped, failed]);
  } catch (error) {
    await end();
    await server.close(0);
    throw error;
  }
}

/** A cluster's come later, as do those that are added. */
const toWorkers = ({ length }: readonly GivenWorker[]) =>
  length === 0 ? "workers as they come" : `${length} workers`;

function serveRouter({ app, nodes }: Router, options: RouterLaunchOptions): Promise<RunningServer> {
  const upgrade = nodes && nodeSockets(app, nodes);
  return serve(app, { ...options, limits: socketLimits(options), upgrade });
}

/** @returns What is wrong; undefined when all workers are healthy or the router stops. */
async function startWorkers(
  { workers, checks }: Router,
  given: readonly GivenWorker[],
  { workerStartupTimeoutSecs: seconds }: RouterLaunchOptions,
): Promise<string | undefined> {
  const added = given.map(({ url, ...place }) => workers.add(url, place));
  // Stopping ends the waits.
  const admitted = await Promise.all(added.map((worker) => checks.admit(worker).catch(() => true)));
  const missing = added.filter((worker, i) => !admitted[i] && workers.has(worker));
  if (missing.length === 0) return undefined;
  const names = missing.map(({ url }) => JSON.stringify(url)).join(", ");
  const timeout = `Timeout ${seconds}s waiting for workers [${names}] to become healthy`;
  return `Cannot route requests: ${timeout}`;
}

function metricsApp(metrics: RouterMetrics): App {
  return {
    fetch: async (request) => {
      if (new URL(request.url).pathname !== "/metrics") return new Response(null, { status: 404 });
      const headers = { "content-type": metrics.contentType };
      return new Response(await metrics.text(), { headers });
    },
  };
}
