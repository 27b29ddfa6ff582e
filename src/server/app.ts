/**
 * The HTTP interface as a function of `Request`: no socket, no platform, any `GenerationEngine`.
 *
 * @module
 */
import { Hono } from "hono";
import { cors } from "hono/cors";
import type { GenerationEngine } from "../generation.ts";
import {
  errorStatus,
  flatErrorResponse,
  generateErrorResponse,
  HttpError,
} from "../http/error_response.ts";
import { present } from "../http/fields.ts";
import { requireOneKind } from "../text/message_parser.ts";
import type { ReasoningParserName } from "../text/reasoning/formats.ts";
import type { ToolCallParserName } from "../text/tool_calls/formats.ts";
import { handleChatCompletions } from "./chat_completions.ts";
import { handleCompletions } from "./completions.ts";
import { handleFlushCache } from "./flush_cache.ts";
import { handleGenerate } from "./generate.ts";
import { handleHealth, type Lifecycle, refuseWhileDraining } from "./lifecycle.ts";
import { LiveRequests } from "./live_requests.ts";
import { handleMetrics, type MetricsPage } from "./metrics.ts";
import { listModels, retrieveModel } from "./models.ts";
import { handleParseFunctionCall, handleSeparateReasoning } from "./parse_text.ts";
import type { MessageForms, ServerContext } from "./server_context.ts";

export interface AppOptions {
  /** Id of the model at `/v1/models`. Default: the path it was loaded from. */
  readonly servedModelName?: string;
  /** Size of a request body at most. Default 64 MiB. */
  readonly maxBodyBytes?: number;
  /** Form of the model's tool calls. Default: they stay content. */
  readonly toolCallParser?: ToolCallParserName | undefined;
  /** Form of the model's reasoning. Default: it stays content. */
  readonly reasoningParser?: ReasoningParserName | undefined;
  /** Whether `usage` tells how much of a prompt was in the prefix cache. Default false. */
  readonly cacheReport?: boolean;
  /** Is told of every error that is not the client's; it must not throw. Default `console.error`. */
  readonly reportError?: (error: unknown) => void;
  /** Whether the server starts or stops, which health checks tell. Default: it is ready. */
  readonly lifecycle?: () => Lifecycle;
  /** Seconds without a finished step after which the engine counts as stuck. Default 300. */
  readonly watchdogTimeout?: number;
  /** What `/metrics` shows; without it there is no such endpoint. */
  readonly metrics?: MetricsPage | undefined;
}

type Handler = (request: Request) => Response | Promise<Response>;

/**
 * The documented endpoints over `engine`. Serve it with `app.fetch`, test it with `app.request`.
 *
 * @throws {InvalidRequestError} when the forms of tool calls and of reasoning exclude each other.
 */
export function createApp(engine: GenerationEngine, options: AppOptions = {}): Hono {
  const context = createContext(engine, options);
  const app = new Hono();
  const flat = (error: unknown) => flatErrorResponse(error);

  // An origin is repeated and not "*", which browsers refuse together with credentials.
  app.use(cors({ origin: (origin) => origin || "*", credentials: true }));
  const { lifecycle = () => "ready", watchdogTimeout = 300, metrics } = options;
  app.use(refuseWhileDraining(lifecycle));

  const route = (
    methods: readonly string[],
    path: string,
    handler: Handler,
    errorResponse: (error: unknown) => Response = flat,
  ): void => {
    app.on([...methods], path, async ({ req }) => {
      try {
        return await handler(req.raw);
      } catch (error) {
        context.reportError(error);
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
  route(["GET"], "/health", () => handleHealth(engine, { lifecycle, watchdogTimeout }));
  if (metrics !== undefined) route(["GET"], "/metrics", () => handleMetrics(metrics));
  route(["GET"], "/v1/models", () => listModels(context));
  app.get("/v1/models/:id{.+}", ({ req }) => retrieveModel(context, req.param("id")));
  app.all("/v1/models/:id{.+}", ({ req }) => wrongMethod(req.method, req.path, ["GET"]));

  app.notFound(({ req }) =>
    flatErrorResponse(
      new HttpError("not_found", `Cannot ${req.method} ${req.path}: no such endpoint`),
    ),
  );
  app.onError((error) => {
    context.reportError(error);
    return flatErrorResponse(error);
  });
  return app;
}

function createContext(engine: GenerationEngine, options: AppOptions): ServerContext {
  const { servedModelName = engine.model.path, maxBodyBytes = 64 * 1024 * 1024 } = options;
  const { cacheReport = false } = options;
  const forms = present<MessageForms>({
    toolCalls: options.toolCallParser,
    reasoning: options.reasoningParser,
  });
  requireOneKind(forms);
  const report = options.reportError ?? ((error) => console.error(error));
  return {
    engine,
    live: new LiveRequests(),
    cacheReport,
    forms,
    servedModelName,
    maxBodyBytes,
    startedAt: Math.floor(Date.now() / 1000),
    reportError: (error) => {
      if (errorStatus(error) === 500) report(error);
    },
  };
}

function wrongMethod(method: string, path: string, allowed: readonly string[]): Response {
  const names = allowed.join(", ");
  return flatErrorResponse(
    new HttpError("method_not_allowed", `Cannot ${method} ${path}: it takes ${names}`),
    { allow: names },
  );
}
