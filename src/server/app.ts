/**
 * The HTTP interface as a function of `Request`: no socket, no platform, any `GenerationEngine`.
 *
 * @module
 */
import { Hono } from "hono";
import { UnsupportedError } from "../errors.ts";
import type { GenerationEngine } from "../generation.ts";
import { BodyMemory } from "../http/body_memory.ts";
import { errorResponse, errorStatus, HttpError } from "../http/error_response.ts";
import { present } from "../http/fields.ts";
import { requireJsonContentType } from "../http/read_body.ts";
import { requireOneKind } from "../text/message_parser.ts";
import type { ReasoningParserName } from "../text/reasoning/formats.ts";
import type { ToolCallParserName } from "../text/tool_calls/formats.ts";
import { ByteBudget } from "./byte_budget.ts";
import { ENDPOINTS, type Endpoint, MESSAGES_PATHS } from "./endpoints.ts";
import { type RequestDefaults, withDefaults } from "./fields/request_defaults.ts";
import type { AuthOptions } from "./guard/auth.ts";
import { guardEndpoints } from "./guard/guard_endpoints.ts";
import { type HostOptions, requireKnownHost } from "./guard/hosts.ts";
import type { Lifecycle } from "./guard/lifecycle.ts";
import { allowOrigins } from "./guard/origins.ts";
import { answerIdOf, identifyAnswers } from "./guard/request_ids.ts";
import { LiveRequests } from "./live_requests.ts";
import { type MediaAccess, NO_MEDIA } from "./media.ts";
import { answerMessagesErrors } from "./messages/messages_errors.ts";
import { modelNamesOf } from "./model_name.ts";
import type { ExpertRecordControl } from "./observe/expert_record_control.ts";
import { GenerationRate } from "./observe/generation_rate.ts";
import { HealthProbe } from "./observe/health_probe.ts";
import type { MetricsPage } from "./observe/metrics_page.ts";
import { type EngineObserver, observe } from "./observe/observe.ts";
import type { ProfileControl } from "./observe/profile_control.ts";
import { ResponseStore } from "./responses/response_store.ts";
import { UNSUPPORTED_ENDPOINTS } from "./routes/unsupported_endpoints.ts";
import { serveWebPage, type WebPage } from "./routes/web_page.ts";
import type { EngineRole, MessageForms, ServerContext } from "./server_context.ts";

/** Bytes of log-probabilities that all answers may hold together. */
export const LOGPROB_BYTES = 2 ** 28;

export interface AppOptions extends AuthOptions, HostOptions {
  /**
   * Ids of the model at `/v1/models`, at least one, of which the first is its name in answers to requests
   * that name none. Default: its id on a hub, else the name of its folder.
   */
  readonly servedModelName?: string | readonly string[];
  /** Size of a request body at most. Default 64 MiB. */
  readonly maxBodyBytes?: number;
  /**
   * Bytes of memory that the bodies of all requests take at most together: while they are read, and
   * what they hold until they are answered. Default 512 MiB.
   */
  readonly requestMemory?: number;
  /** What the server opens for its clients, of images that they name. Default: no file, no URL. */
  readonly media?: MediaAccess | undefined;
  /** Form of the model's tool calls. Default: they stay content. */
  readonly toolCallParser?: ToolCallParserName | undefined;
  /** Form of the model's reasoning. Default: it stays content. */
  readonly reasoningParser?: ReasoningParserName | undefined;
  /**
   * Pages that may use the server from a browser, by their origins; `*` is every origin. Default:
   * pages that came by the server's own address.
   */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** How the server was started, for `/get_server_info`, without its secrets. Default: nothing. */
  readonly description?: Readonly<Record<string, unknown>>;
  /** Whether `usage` tells how much of a prompt was in the prefix cache. Default false. */
  readonly cacheReport?: boolean;
  /**
   * Is told of every error that is not the client's, with the `x-request-id` of the answer to it; it
   * must not throw. Default `console.error`.
   */
  readonly reportError?: (error: unknown, requestId: string) => void;
  /**
   * Is told the name of a field that requests bring and that changes no answer, the first time that
   * one brings it. Default: none.
   */
  readonly onIdleField?: (name: string) => void;
  /** What requests that do not say are given. Default: nothing but the documented defaults. */
  readonly requestDefaults?: RequestDefaults;
  /** Are told of every request that reaches the engine, but health checks. Default: none. */
  readonly observers?: readonly EngineObserver[];
  /** Whether the server starts or stops, which health checks tell. Default: it is ready. */
  readonly lifecycle?: () => Lifecycle;
  /** Seconds without a finished step after which the engine counts as stuck. Default 300. */
  readonly watchdogTimeout?: number;
  /** Seconds within which `/health_generate` must see a token. Default 20. */
  readonly healthCheckTimeout?: number;
  /** What takes profiles; without it `/start_profile` and `/stop_profile` are refused. */
  readonly profiles?: ProfileControl | undefined;
  /** What records choices of experts; without it their endpoints are refused. */
  readonly expertRecords?: ExpertRecordControl | undefined;
  /** What `/metrics` shows; without it there is no such endpoint. */
  readonly metrics?: MetricsPage | undefined;
  /** What it does of requests that it shares with another server. Default: they are its own. */
  readonly role?: EngineRole | undefined;
  /** The page at `/` and its files, which ask for no key. Default: there is none. */
  readonly webPage?: WebPage | undefined;
}

/**
 * The documented endpoints over `engine`. Serve it with `app.fetch`, test it with `app.request`.
 *
 * @throws {InvalidRequestError} when the forms of tool calls and of reasoning exclude each other, for a
 * key that no request could show, and for what is no origin or no name of a host.
 */
export function createApp(engine: GenerationEngine, options: AppOptions = {}): Hono {
  const context = createContext(engine, options);
  const app = new Hono();
  addGuards(app, context, options);
  for (const endpoint of ENDPOINTS) {
    if (endpoint.isOffered?.(context) === false) continue;
    for (const path of endpoint.paths) addRoute(app, path, endpoint, context);
  }
  for (const [path, reason] of UNSUPPORTED_ENDPOINTS) {
    app.all(path, ({ req }) => errorResponse(new UnsupportedError(req.path, reason)));
  }
  app.notFound(({ req }) =>
    errorResponse(new HttpError("not_found", `Cannot ${req.method} ${req.path}: no such endpoint`)),
  );
  app.onError((error, { req }) => {
    context.reportError(error, req.raw);
    return errorResponse(error);
  });
  return app;
}

/** What every request goes through before its endpoint, in this order. */
function addGuards(app: Hono, { lifecycle }: ServerContext, options: AppOptions): void {
  app.use(identifyAnswers);
  for (const path of MESSAGES_PATHS) app.use(path, answerMessagesErrors);
  for (const handler of requireKnownHost(options)) app.use(handler);
  for (const handler of allowOrigins(options.allowedOrigins)) app.use(handler);
  // It asks the visitor for the key itself, and its files say nothing of the server.
  if (options.webPage !== undefined) app.use(serveWebPage(options.webPage));
  guardEndpoints(app, ENDPOINTS, { ...options, lifecycle });
}

function addRoute(app: Hono, path: string, endpoint: Endpoint, context: ServerContext): void {
  const { methods, handle, errorResponse: answerError = errorResponse } = endpoint;
  app.on([...methods], path, async ({ req }) => {
    try {
      // OpenAI's endpoints want the header, the others only no other one.
      if (req.method === "POST" && path.startsWith("/v1/")) requireJsonContentType(req.raw);
      return await handle(context, req.raw, req.param("id") ?? "");
    } catch (error) {
      context.reportError(error, req.raw);
      return answerError(error);
    } finally {
      context.bodies.answered(req.raw);
    }
  });
  app.all(path, ({ req }) => wrongMethod(req.method, req.path, methods));
}

function createContext(engine: GenerationEngine, options: AppOptions): ServerContext {
  const { maxBodyBytes = 64 * 1024 * 1024 } = options;
  const modelNames = modelNamesOf(engine.model.path, options.servedModelName);
  const { cacheReport = false, lifecycle = () => "ready", description = {} } = options;
  const { watchdogTimeout = 300, healthCheckTimeout = 20 } = options;
  const forms = present<MessageForms>({
    toolCalls: options.toolCallParser,
    reasoning: options.reasoningParser,
  });
  requireOneKind(forms);
  const report = options.reportError ?? ((error, id) => console.error(`Request ${id}:`, error));
  const rate = new GenerationRate();
  const probe = new HealthProbe({ engine, timeout: healthCheckTimeout });
  const observers = [rate.observer, probe.observer, ...(options.observers ?? [])];
  const { role } = options;
  const observed = observe(role?.over(engine) ?? engine, observers);
  return {
    role,
    bootstraps: new WeakMap(),
    engine: withDefaults(observed, options.requestDefaults ?? {}),
    rate,
    responses: new ResponseStore(),
    live: new LiveRequests(),
    logprobMemory: new ByteBudget("memory for log-probabilities", LOGPROB_BYTES),
    lifecycle,
    health: { engine, watchdogTimeout, probe },
    metrics: options.metrics,
    profiles: options.profiles,
    expertRecords: options.expertRecords,
    description,
    cacheReport,
    forms,
    servedModelName: modelNames[0],
    modelNames,
    maxBodyBytes,
    media: options.media ?? NO_MEDIA,
    bodies: new BodyMemory(options.requestMemory ?? 512 * 1024 * 1024),
    onIdle: onceAName(options.onIdleField),
    startedAt: Math.floor(Date.now() / 1000),
    reportError: (error, request) => {
      if (errorStatus(error) === 500) report(error, answerIdOf(request));
    },
  };
}

/** The names are those of tables, and so there are not many to remember. */
function onceAName(tell: AppOptions["onIdleField"]): (name: string) => void {
  const told = new Set<string>();
  return (name) => {
    if (!told.has(name)) tell?.(name);
    told.add(name);
  };
}

function wrongMethod(method: string, path: string, allowed: readonly string[]): Response {
  const names = allowed.join(", ");
  return errorResponse(
    new HttpError("method_not_allowed", `Cannot ${method} ${path}: it takes ${names}`),
    { allow: names },
  );
}
