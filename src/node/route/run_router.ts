/**
 * What `wisp launch_router` runs once its options are read: a router on a socket, until a signal comes.
 *
 * @module
 */
import { EngineError } from "../../errors.ts";
import { createRouter, type Router, type RouterOptions } from "../../router/app.ts";
import { CacheAwarePolicy } from "../../router/policy/cache_aware.ts";
import {
  type Policy,
  powerOfTwoPolicy,
  randomPolicy,
  roundRobinPolicy,
} from "../../router/policy/policy.ts";
import { workerUrl } from "../../router/worker/workers.ts";
import type { Lifecycle } from "../../server/guard/lifecycle.ts";
import type { CommandContext } from "../commands/command_context.ts";
import { Logger } from "../observe/logger.ts";
import { describeAccess, requireUsableAccess } from "../options/access_options.ts";
import { OptionError } from "../options/option_parser.ts";
import { type App, requireFreeAddress, serve } from "../serve/http.ts";
import { drainOnSignal } from "../serve/shutdown.ts";
import { socketLimits } from "../serve/socket_limits.ts";
import { httpUpstream } from "./http_upstream.ts";
import { RouterMetrics } from "./router_metrics.ts";
import type { RouterLaunchOptions } from "./router_options.ts";

const REQUEST_ID_HEADERS = ["x-request-id", "x-correlation-id", "x-trace-id", "request-id"];

/** What a name of a header may have. */
const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]{1,100}$/;

/** Routes until a signal comes, or until it is known that not all workers become healthy. */
export async function runRouter(
  options: RouterLaunchOptions,
  { stderr }: CommandContext,
): Promise<void> {
  const urls = requireUsable(options);
  await requireFreeAddress(options);
  const log = new Logger({ stderr, level: options.logLevel, format: options.logFormat });
  if (options.evictionIntervalSecs !== undefined) {
    const state = "what is too much of prompts is forgotten at once";
    log.line("info", `Option --eviction-interval-secs changes nothing: ${state}`);
  }
  const metrics = new RouterMetrics();
  const upstream = httpUpstream();
  const policy = policyOf(options);
  let lifecycle: Lifecycle = "ready";
  const router = createRouter({
    ...routerOptions(options),
    policy,
    upstream: upstream.send,
    observer: metrics.observer(({ level, text, fields }) => log.event(level, text, fields)),
    lifecycle: () => lifecycle,
    reportError: (error, requestId) => log.error(error, requestId),
  });
  metrics.watch(router, policy);
  const page = { host: options.prometheusHost, port: options.prometheusPort };
  const figures = await serve(metricsApp(metrics), page);
  const server = await serve(router.app, { ...options, limits: socketLimits(options) });
  const end = async () => {
    router.checks.stop();
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
  const failed = startWorkers(router, urls, options).then((problem) => {
    if (problem === undefined) {
      log.line("info", `Ready: ${policy.name} routes to ${urls.length} workers at ${server.url}`);
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

/** @returns What is wrong; undefined when all workers are healthy or the router stops. */
async function startWorkers(
  { workers, checks }: Router,
  urls: readonly string[],
  { workerStartupTimeoutSecs: seconds }: RouterLaunchOptions,
): Promise<string | undefined> {
  const added = urls.map((url) => workers.add(url));
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

/**
 * @returns The addresses of workers.
 * @throws {OptionError} for a value that the parser lets pass and that is of no use.
 */
function requireUsable(options: RouterLaunchOptions): readonly string[] {
  requireUsableAccess(options);
  const { healthCheckEndpoint, retryInitialBackoffMs, retryMaxBackoffMs } = options;
  const wrong = (option: string, state: string) =>
    new OptionError(`Cannot use option ${option}: ${state}`);
  if (retryMaxBackoffMs < retryInitialBackoffMs) {
    const least = `it must be at least --retry-initial-backoff-ms, ${retryInitialBackoffMs}`;
    throw wrong(`--retry-max-backoff-ms ${retryMaxBackoffMs}`, least);
  }
  if (!healthCheckEndpoint.startsWith("/")) {
    throw wrong(`--health-check-endpoint ${healthCheckEndpoint}`, "it must begin with /");
  }
  const header = options.requestIdHeaders?.find((name) => !HEADER_NAME.test(name));
  if (header !== undefined) throw wrong(`--request-id-headers ${header}`, "it is no header's name");
  const urls = (options.workerUrls ?? []).map((text) => {
    try {
      return workerUrl(text);
    } catch (cause) {
      if (!(cause instanceof EngineError)) throw cause;
      const rule = "it must be the http or https address of a worker";
      throw new OptionError(`Cannot use option --worker-urls ${text}: ${rule}`, { cause });
    }
  });
  const twice = urls.find((url, i) => urls.indexOf(url) !== i);
  if (twice !== undefined) throw wrong(`--worker-urls ${twice}`, "it is given twice");
  if (options.policy === "power_of_two" && urls.length === 1) {
    throw wrong("--policy power_of_two", "Power-of-two policy requires at least 2 workers");
  }
  return urls;
}

function policyOf(options: RouterLaunchOptions): Policy {
  switch (options.policy) {
    case "random":
      return randomPolicy();
    case "round_robin":
      return roundRobinPolicy();
    case "power_of_two":
      return powerOfTwoPolicy();
    case "cache_aware":
      return new CacheAwarePolicy(options);
    default:
      return options.policy satisfies never;
  }
}

type OfOptions = Omit<
  RouterOptions,
  "policy" | "upstream" | "observer" | "lifecycle" | "reportError"
>;

function routerOptions(options: RouterLaunchOptions): OfOptions {
  return {
    apiKey: options.apiKey,
    adminApiKey: options.adminApiKey,
    allowedOrigins: options.allowedOrigins,
    allowedHosts: options.allowedHosts,
    listensOn: options.host,
    maxBodyBytes: options.maxPayloadSize,
    requestMemory: options.requestMemory,
    requestTimeout: 1000 * options.requestTimeoutSecs,
    requestIdHeaders: (options.requestIdHeaders ?? REQUEST_ID_HEADERS).map((name) =>
      name.toLowerCase(),
    ),
    admission: {
      maxConcurrentRequests: options.maxConcurrentRequests,
      queueSize: options.queueSize,
      queueTimeout: 1000 * options.queueTimeoutSecs,
      requestsPerSecond: options.rateLimitTokensPerSecond,
    },
    retries: {
      attempts: options.disableRetries ? 1 : options.retryMaxRetries,
      initialBackoff: options.retryInitialBackoffMs,
      maxBackoff: options.retryMaxBackoffMs,
      multiplier: options.retryBackoffMultiplier,
      jitter: options.retryJitterFactor,
    },
    breaker: breakerOf(options),
    health: healthOf(options),
  };
}

function breakerOf(options: RouterLaunchOptions): RouterOptions["breaker"] {
  const isOff = options.disableCircuitBreaker;
  return {
    failureThreshold: isOff ? Number.POSITIVE_INFINITY : options.cbFailureThreshold,
    successThreshold: options.cbSuccessThreshold,
    openTime: 1000 * options.cbTimeoutDurationSecs,
    window: 1000 * options.cbWindowDurationSecs,
  };
}

function healthOf(options: RouterLaunchOptions): RouterOptions["health"] {
  return {
    endpoint: options.healthCheckEndpoint,
    interval: 1000 * options.healthCheckIntervalSecs,
    timeout: 1000 * options.healthCheckTimeoutSecs,
    failureThreshold: options.healthFailureThreshold,
    successThreshold: options.healthSuccessThreshold,
    startupTimeout: 1000 * options.workerStartupTimeoutSecs,
    startupInterval: 1000 * options.workerStartupCheckInterval,
  };
}
