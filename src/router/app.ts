/**
 * The router as a function of `Request`: no socket and no platform; the platform sends to workers.
 *
 * @module
 */
import { Hono } from "hono";
import { InvalidRequestError, UnsupportedError } from "../errors.ts";
import { BodyMemory } from "../http/body_memory.ts";
import { errorResponse, errorStatus, HttpError } from "../http/error_response.ts";
import { givenRequestId } from "../http/request_id.ts";
import type { AuthOptions } from "../server/guard/auth.ts";
import { guardEndpoints } from "../server/guard/guard_endpoints.ts";
import { type HostOptions, requireKnownHost } from "../server/guard/hosts.ts";
import type { Lifecycle } from "../server/guard/lifecycle.ts";
import { allowOrigins } from "../server/guard/origins.ts";
import { answerIdOf, identifyBy } from "../server/guard/request_ids.ts";
import { UNSUPPORTED_ENDPOINTS } from "../server/routes/unsupported_endpoints.ts";
import { Admission, type AdmissionOptions } from "./admission.ts";
import { NOT_ROUTED, ROUTER_ENDPOINTS, type RouterEndpoint } from "./endpoints.ts";
import { DecodeNodes } from "./nodes/decode_nodes.ts";
import type { RouterObserver } from "./observer.ts";
import type { Policy } from "./policy/policy.ts";
import type { PairSetting, RetryOptions, RouterContext } from "./router_context.ts";
import type { BreakerOptions } from "./worker/breaker.ts";
import { type HealthCheckOptions, HealthChecks } from "./worker/health_checks.ts";
import { PairWarmth } from "./worker/pair_warmth.ts";
import { SilentWorkers } from "./worker/silent_workers.ts";
import type { Upstream } from "./worker/upstream.ts";
import { Workers } from "./worker/workers.ts";

export interface RouterOptions extends AuthOptions, HostOptions {
  readonly upstream: Upstream;
  readonly policy: Policy;
  /** How workers of either role are chosen, where two share each request. Default: none do. */
  readonly pairPolicies?: PairSetting["policies"] | undefined;
  /** Whether replicas behind a worker's port are chosen one by one. Default: the worker chooses. */
  readonly knowsReplicas?: boolean;
  /** The group's key, by which pages of browsers may fetch pages of caches. Default: none may join. */
  readonly nodesKey?: string | undefined;
  readonly health: HealthCheckOptions;
  readonly breaker: BreakerOptions;
  readonly retries: RetryOptions;
  readonly admission: AdmissionOptions;
  readonly observer: RouterObserver;
  /** Size of a request body at most. */
  readonly maxBodyBytes: number;
  /** Bytes of memory that the bodies of all requests take at most together. */
  readonly requestMemory: number;
  /** Milliseconds of a whole request, streams too. */
  readonly requestTimeout: number;
  /** Headers of requests that may bring an id; the first that does counts. */
  readonly requestIdHeaders: readonly string[];
  /** Pages that may use the router from a browser. Default: those that came by its own address. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** Default: it is ready. */
  readonly lifecycle?: () => Lifecycle;
  /** Is told of every error that is not the client's or a worker's. */
  readonly reportError: (error: unknown, requestId: string) => void;
}

export interface Router {
  readonly app: Hono;
  readonly workers: Workers;
  readonly admission: Admission;
  readonly checks: HealthChecks;
  /** Pages of browsers that decode, where they may. */
  readonly nodes: DecodeNodes | undefined;
  /** Ends what it does by itself. */
  stop(): void;
}

/**
 * The endpoints of a router without workers: `workers.add` and `checks.admit` add them.
 *
 * @throws {InvalidRequestError} for a key that no request could show, and for what is no origin or no
 * name of a host.
 */
export function createRouter(options: RouterOptions): Router {
  const { upstream, policy, observer, apiKey } = options;
  const { pairPolicies } = options;
  const policies = [policy, ...Object.values(pairPolicies ?? {})];
  const workers = new Workers({
    breaker: options.breaker,
    onBreaker: ({ url }, from, to) => {
      observer.breaker(url, from, to);
      const text = `Circuit breaker state transition: ${from} -> ${to} (${url})`;
      const level = to === "open" ? "warning" : "info";
      observer.event({ level, text, fields: { message: text, worker: url, from, to } });
    },
    onRemove: (worker) => {
      for (const one of policies) one.forget(worker);
      for (const { name } of new Set([worker, ...worker.targets])) observer.removed(name);
    },
    onSplit: (worker) => {
      for (const one of policies) one.forget(worker);
    },
  });
  const { knowsReplicas = false } = options;
  const around = { workers, upstream, observer, apiKey, knowsReplicas };
  const warmth = pairPolicies && new PairWarmth(around);
  const checks = new HealthChecks(options.health, {
    ...around,
    onHealthy: () => warmth?.meet(),
    onStop: () => warmth?.stop(),
  });
  const silent = new SilentWorkers({
    workers,
    upstream,
    health: options.health,
    onSilence: (worker) => checks.lose(worker),
  });
  const admission = new Admission(options.admission);
  const { retries, maxBodyBytes, requestTimeout } = options;
  const bodies = new BodyMemory(options.requestMemory);
  const limits = { maxBodyBytes, requestTimeout, bodies };
  const pairs = warmth && { policies: pairPolicies!, warmth };
  const nodes = nodesOf(options);
  const setting = { policy, pairs, knowsReplicas };
  const watched = { upstream: silent.upstream, checks };
  const parts = { workers, nodes, ...setting, ...watched, admission, observer };
  const app = createApp({ ...parts, ...limits, retries, apiKey }, options);
  const stop = () => {
    nodes?.close();
    checks.stop();
    silent.stop();
  };
  return { app, workers, admission, checks, nodes, stop };
}

/** @throws {InvalidRequestError} where no two servers share requests, or strangers could write tickets. */
function nodesOf({ nodesKey: key, pairPolicies, observer }: RouterOptions) {
  if (key === undefined) return undefined;
  if (key === "" || pairPolicies === undefined) {
    const state = "decode nodes need prefill servers, and a key of their group";
    throw new InvalidRequestError(`Cannot use nodesKey: ${state}`, "nodesKey");
  }
  return new DecodeNodes({ key, onEvent: (event) => observer.event(event) });
}

function createApp(context: RouterContext, options: RouterOptions): Hono {
  const app = new Hono();
  addGuards(app, options);
  const report = (error: unknown, request: Request) => {
    if (errorStatus(error) === 500) options.reportError(error, answerIdOf(request));
  };
  for (const endpoint of ROUTER_ENDPOINTS) {
    for (const path of endpoint.paths) addRoute(app, path, endpoint, context, report);
  }
  for (const [path, reason] of [...NOT_ROUTED, ...UNSUPPORTED_ENDPOINTS]) {
    app.all(path, ({ req }) => errorResponse(new UnsupportedError(req.path, reason)));
  }
  app.notFound(({ req }) =>
    errorResponse(new HttpError("not_found", `Cannot ${req.method} ${req.path}: no such endpoint`)),
  );
  app.onError((error, { req }) => {
    report(error, req.raw);
    return errorResponse(error);
  });
  return app;
}

/** What every request goes through before its endpoint, in this order. */
function addGuards(app: Hono, options: RouterOptions): void {
  const { requestIdHeaders, lifecycle = () => "ready" } = options;
  app.use(identifyBy((request) => routedId(request, requestIdHeaders)));
  for (const handler of requireKnownHost(options)) app.use(handler);
  for (const handler of allowOrigins(options.allowedOrigins)) app.use(handler);
  guardEndpoints(app, ROUTER_ENDPOINTS, { ...options, lifecycle });
}

type Report = (error: unknown, request: Request) => void;

function addRoute(
  app: Hono,
  path: string,
  { methods, handle, errorResponse: answerError = errorResponse }: RouterEndpoint,
  context: RouterContext,
  report: Report,
): void {
  app.on([...methods], path, async ({ req }) => {
    try {
      return await handle(context, req.raw);
    } catch (error) {
      report(error, req.raw);
      return answerError(error);
    } finally {
      context.bodies.answered(req.raw);
    }
  });
  app.all(path, ({ req }) => {
    const names = methods.join(", ");
    const message = `Cannot ${req.method} ${req.path}: it takes ${names}`;
    return errorResponse(new HttpError("method_not_allowed", message), { allow: names });
  });
}

/** What ids of requests begin with that bring none. */
const ID_PREFIXES: Readonly<Record<string, string>> = {
  "/v1/chat/completions": "chatcmpl-",
  "/v1/completions": "cmpl-",
  "/generate": "gnt-",
};
const ID_LENGTH = 24;
const ID_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/** The request's own id, else a new one that says which endpoint was asked. */
function routedId(request: Request, names: readonly string[]): string {
  const given = givenRequestId(request.headers, names);
  if (given !== undefined) return given;
  const prefix = ID_PREFIXES[new URL(request.url).pathname] ?? "req-";
  const random = crypto.getRandomValues(new Uint8Array(ID_LENGTH));
  return prefix + Array.from(random, (byte) => ID_LETTERS[byte % ID_LETTERS.length]).join("");
}
