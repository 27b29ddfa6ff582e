/**
 * The endpoints of the server, a row each: who may use it, by which methods and paths, and the handler
 * of `routes` that answers.
 *
 * @module
 */

import { generateErrorResponse } from "../http/error_response.ts";
import type { GuardedEndpoint } from "./guard/guard_endpoints.ts";
import { ollamaErrorResponse } from "./ollama/ollama_errors.ts";
import {
  handleOllamaPs,
  handleOllamaShow,
  handleOllamaTags,
  handleOllamaVersion,
} from "./ollama/ollama_models.ts";
import { handleAbortRequest } from "./routes/abort_request.ts";
import { handleChatCompletions } from "./routes/chat_completions.ts";
import { handleCompletions } from "./routes/completions.ts";
import {
  handleDumpExpertRecord,
  handleStartExpertRecord,
  handleStopExpertRecord,
} from "./routes/expert_record.ts";
import { handleFlushCache } from "./routes/flush_cache.ts";
import { handleGenerate } from "./routes/generate.ts";
import { handleHealth } from "./routes/health.ts";
import { handleHealthGenerate } from "./routes/health_generate.ts";
import { handleCountTokens, handleMessages } from "./routes/messages.ts";
import { handleMetrics } from "./routes/metrics.ts";
import { listModels, retrieveModel } from "./routes/models.ts";
import { handleOllamaChat, handleOllamaGenerate } from "./routes/ollama.ts";
import { handleParseFunctionCall, handleSeparateReasoning } from "./routes/parse_text.ts";
import { handleStartProfile, handleStopProfile } from "./routes/profile.ts";
import { handleResponse, handleResponses } from "./routes/responses.ts";
import { loadInfo, modelInfo, serverInfo } from "./routes/server_info.ts";
import { handleDetokenize, handleTokenize } from "./routes/tokenize.ts";
import type { ServerContext } from "./server_context.ts";

export interface Endpoint extends GuardedEndpoint {
  readonly methods: readonly ("DELETE" | "GET" | "POST" | "PUT")[];
  /** @param id What stands for `:id` in the path; empty where it has none. */
  readonly handle: (
    context: ServerContext,
    request: Request,
    id: string,
  ) => Response | Promise<Response>;
  /** Default: `errorResponse`. */
  readonly errorResponse?: (error: unknown) => Response;
  /** Whether this server has it. Default: every server has. */
  readonly isOffered?: (context: ServerContext) => boolean;
}

export const ENDPOINTS: readonly Endpoint[] = [
  {
    methods: ["POST", "PUT"],
    paths: ["/generate"],
    handle: handleGenerate,
    errorResponse: generateErrorResponse,
  },
  { methods: ["POST"], paths: ["/v1/chat/completions"], handle: handleChatCompletions },
  { methods: ["POST"], paths: ["/v1/completions"], handle: handleCompletions },
  { methods: ["POST"], paths: ["/v1/responses"], handle: handleResponses },
  { methods: ["GET", "DELETE"], paths: ["/v1/responses/:id"], handle: handleResponse },
  { methods: ["POST"], paths: ["/v1/messages"], handle: handleMessages },
  { methods: ["POST"], paths: ["/v1/messages/count_tokens"], handle: handleCountTokens },
  {
    methods: ["POST"],
    paths: ["/api/chat"],
    handle: handleOllamaChat,
    errorResponse: ollamaErrorResponse,
  },
  {
    methods: ["POST"],
    paths: ["/api/generate"],
    handle: handleOllamaGenerate,
    errorResponse: ollamaErrorResponse,
  },
  {
    methods: ["POST"],
    paths: ["/api/show"],
    handle: handleOllamaShow,
    errorResponse: ollamaErrorResponse,
  },
  { methods: ["GET"], paths: ["/api/tags"], handle: handleOllamaTags },
  { methods: ["GET"], paths: ["/api/ps"], handle: handleOllamaPs },
  { methods: ["GET"], paths: ["/api/version"], handle: handleOllamaVersion },
  { methods: ["GET"], paths: ["/v1/models"], handle: listModels },
  {
    methods: ["GET"],
    paths: ["/v1/models/:id{.+}"],
    handle: (context, _, id) => retrieveModel(context, id),
  },
  { methods: ["POST"], paths: ["/tokenize", "/v1/tokenize"], handle: handleTokenize },
  { methods: ["POST"], paths: ["/detokenize", "/v1/detokenize"], handle: handleDetokenize },
  { methods: ["POST"], paths: ["/parse_function_call"], handle: handleParseFunctionCall },
  { methods: ["POST"], paths: ["/separate_reasoning"], handle: handleSeparateReasoning },
  { methods: ["GET"], paths: ["/get_model_info", "/model_info"], handle: modelInfo },
  { methods: ["GET"], paths: ["/get_server_info", "/server_info"], handle: serverInfo },
  { methods: ["GET"], paths: ["/get_load"], handle: loadInfo },
  {
    methods: ["GET"],
    paths: ["/health"],
    handle: handleHealth,
    key: "none",
    draining: "refuses by status",
  },
  {
    methods: ["GET"],
    paths: ["/health_generate"],
    handle: handleHealthGenerate,
    key: "none",
    draining: "refuses by status",
    errorResponse: () => new Response(null, { status: 503 }),
  },
  {
    methods: ["GET"],
    paths: ["/metrics"],
    handle: handleMetrics,
    key: "none",
    draining: "serves",
    isOffered: ({ metrics }) => metrics !== undefined,
  },
  { methods: ["GET", "POST"], paths: ["/flush_cache"], handle: handleFlushCache, key: "admin" },
  {
    methods: ["POST"],
    paths: ["/abort_request"],
    handle: handleAbortRequest,
    key: "admin",
    draining: "serves",
  },
  { methods: ["GET", "POST"], paths: ["/start_profile"], handle: handleStartProfile, key: "admin" },
  { methods: ["GET", "POST"], paths: ["/stop_profile"], handle: handleStopProfile, key: "admin" },
  {
    methods: ["GET", "POST"],
    paths: ["/start_expert_distribution_record"],
    handle: handleStartExpertRecord,
    key: "admin",
  },
  {
    methods: ["GET", "POST"],
    paths: ["/stop_expert_distribution_record"],
    handle: handleStopExpertRecord,
    key: "admin",
  },
  {
    methods: ["GET", "POST"],
    paths: ["/dump_expert_distribution_record"],
    handle: handleDumpExpertRecord,
    key: "admin",
  },
];

/** Those whose errors are in Anthropic's shape. */
export const MESSAGES_PATHS = ["/v1/messages", "/v1/messages/count_tokens"];
