/**
 * The HTTP interface as a function of `Request`: no socket, no platform, any `GenerationEngine`.
 *
 * @module
 */
import { Hono } from "hono";
import { UnsupportedError } from "../errors.ts";
import type { GenerationEngine } from "../generation.ts";
import {
  errorResponse,
  errorStatus,
  generateErrorResponse,
  HttpError,
} from "../http/error_response.ts";
import { present } from "../http/fields.ts";
import { requireJsonContentType } from "../http/read_body.ts";
import { requireOneKind } from "../text/message_parser.ts";
import type { ReasoningParserName } from "../text/reasoning/formats.ts";
import type { ToolCallParserName } from "../text/tool_calls/formats.ts";
import { handleAbortRequest } from "./abort_request.ts";
import { type AuthOptions, requireKey } from "./auth.ts";
import { handleChatCompletions } from "./chat_completions.ts";
import { handleCompletions } from "./completions.ts";
import { handleFlushCache } from "./flush_cache.ts";
import { handleGenerate } from "./generate.ts";
import { GenerationRate } from "./generation_rate.ts";
import { handleHealthGenerate } from "./health_generate.ts";
import { handleHealth, type Lifecycle, refuseWhileDraining } from "./lifecycle.ts";
import { LiveRequests } from "./live_requests.ts";
import { handleMetrics, type MetricsPage } from "./metrics.ts";
import { modelNameOf } from "./model_name.ts";
import { listModels, retrieveModel } from "./models.ts";
import { type EngineObserver, observe } from "./observe.ts";
import { allowOrigins } from "./origins.ts";
import { handleParseFunctionCall, handleSeparateReasoning } from "./parse_text.ts";
import { handleStartProfile, handleStopProfile, type ProfileControl } from "./profile.ts";
import { type RequestDefaults, withDefaults } from "./request_defaults.ts";
import { answerIdOf, identifyAnswers } from "./request_ids.ts";
import type { MessageForms, ServerContext } from "./server_context.ts";
import { loadInfo, modelInfo, serverInfo } from "./server_info.ts";
import { handleDetokenize, handleTokenize } from "./tokenize.ts";
import { UNSUPPORTED_ENDPOINTS } from "./unsupported_endpoints.ts";

export interface AppOptions extends AuthOptions {
  /**
   * Id of the model at `/v1/models`, and its name in answers to requests that name none. Default: its
   * id on a hub, else the name of its folder.
   */
  readonly servedModelName?: string;
  /** Size of a request body at most. Default 64 MiB. */
  readonly maxBodyBytes?: number;
  /** Form of the model's tool calls. Default: they stay content. */
  readonly toolCallParser?: ToolCallParserName | undefined;
  /** Form of the model's reasoning. Default: it stays content. */
  readonly reasoningParser?: ReasoningParserName | undefined;
  /** Pages that may use the server from a browser, by their origins. Default: all. */
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
   * one brings it. Default: nobody.
   */
  readonly onIdleField?: (name: string) => void;
  /** What requests that do not say are given. Default: nothing but the documented defaults. */
  readonly requestDefaults?: RequestDefaults;
  /** Are told of every request that reaches the engine, but health checks. Default: nobody. */
  readonly observers?: readonly EngineObserver[];
  /** Whether the server starts or stops, which health checks tell. Default: it is ready. */
  readonly lifecycle?: () => Lifecycle;
  /** Seconds without a finished step after which the engine counts as stuck. Default 300. */
  readonly watchdogTimeout?: number;
  /** Seconds within which `/health_generate` must see a token. Default 20. */
  readonly healthCheckTimeout?: number;
  /** What takes profiles; without it `/start_profile` and `/stop_profile` are refused. */
  readonly profiles?: ProfileControl | undefined;
  /** What `/metrics` shows; without it there is no such endpoint. */
  readonly metrics?: MetricsPage | undefined;
}

type Handler = (request: Request) => Response | Promise<Response>;

/**
 * The documented endpoints over `engine`. Serve it with `app.fetch`, test it with `app.request`.
 *
 * @throws {InvalidRequestError} when the forms of tool calls and of reasoning exclude each other, and
 * for a key that no request could show.
 */
export function createApp(engine: GenerationEngine, options: AppOptions = {}): Hono {
  const context = createContext(engine, options);
  const app = new Hono();
  const flat = (error: unknown) => errorResponse(error);

  const { lifecycle } = context;
  const { watchdogTimeout = 300, healthCheckTimeout = 20, metrics } = options;
  app.use(identifyAnswers);
  for (const handler of allowOrigins(options.allowedOrigins)) app.use(handler);
  app.use(requireKey(options));
  app.use(refuseWhileDraining(lifecycle));

  const route = (
    methods: readonly string[],
    path: string,
    handler: Handler,
    errorResponse: (error: unknown) => Response = flat,
  ): void => {
    app.on([...methods], path, async ({ req }) => {
      try {
        // OpenAI's endpoints want the header, the others only no other one.
        if (req.method === "POST" && path.startsWith("/v1/")) requireJsonContentType(req.raw);
        return await handler(req.raw);
      } catch (error) {
        context.reportError(error, req.raw);
        return errorResponse(error);
      }
    });
    app.all(path, ({ req }) => wrongMethod(req.method, req.path, methods));
  };

  const generate: Handler = (request) => handleGenerate(context, request);
  route(["POST", "PUT"], "/generate", generate, generateErrorResponse);
  route(["POST"], "/v1/chat/completions", (request) => handleChatCompletions(context, request));
  route(["POST"], "/v1/completions", (request) => handleCompletions(context, request));
  const parseCalls: Handler = (request) => handleParseFunctionCall(context, request);
  route(["POST"], "/parse_function_call", parseCalls);
  route(["POST"], "/separate_reasoning", (request) => handleSeparateReasoning(context, request));
  route(["GET", "POST"], "/flush_cache", (request) => handleFlushCache(context, request));
  route(["POST"], "/abort_request", (request) => handleAbortRequest(context, request));
  route(["GET", "POST"], "/start_profile", (request) => handleStartProfile(context, request));
  route(["GET", "POST"], "/stop_profile", (request) => handleStopProfile(context, request));
  for (const prefix of ["", "/v1"]) {
    route(["POST"], `${prefix}/tokenize`, (request) => handleTokenize(context, request));
    route(["POST"], `${prefix}/detokenize`, (request) => handleDetokenize(context, request));
  }
  const health = () => handleHealth(engine, { lifecycle, watchdogTimeout });
  const healthGenerate: Handler = ({ signal }) => {
    const now = health();
    return now.ok ? handleHealthGenerate(engine, { seconds: healthCheckTimeout, signal }) : now;
  };
  route(["GET"], "/health", health);
  route(["GET"], "/health_generate", healthGenerate, () => new Response(null, { status: 503 }));
  for (const path of ["/get_model_info", "/model_info"]) {
    route(["GET"], path, () => modelInfo(context));
  }
  for (const path of ["/get_server_info", "/server_info"]) {
    route(["GET"], path, () => serverInfo(context));
  }
  route(["GET"], "/get_load", () => loadInfo(context));
  if (metrics !== undefined) route(["GET"], "/metrics", () => handleMetrics(metrics));
  route(["GET"], "/v1/models", () => listModels(context));
  app.get("/v1/models/:id{.+}", ({ req }) => retrieveModel(context, req.param("id")));
  app.all("/v1/models/:id{.+}", ({ req }) => wrongMethod(req.method, req.path, ["GET"]));

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

function createContext(engine: GenerationEngine, options: AppOptions): ServerContext {
  const { servedModelName = modelNameOf(engine.model.path), maxBodyBytes = 64 * 1024 * 1024 } =
    options;
  const { cacheReport = false, lifecycle = () => "ready", description = {} } = options;
  const forms = present<MessageForms>({
    toolCalls: options.toolCallParser,
    reasoning: options.reasoningParser,
  });
  requireOneKind(forms);
  const report = options.reportError ?? ((error, id) => console.error(`Request ${id}:`, error));
  const rate = new GenerationRate();
  const observed = observe(engine, [rate.observer, ...(options.observers ?? [])]);
  return {
    engine: withDefaults(observed, options.requestDefaults ?? {}),
    rate,
    live: new LiveRequests(),
    lifecycle,
    profiles: options.profiles,
    description,
    cacheReport,
    forms,
    servedModelName,
    maxBodyBytes,
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
