/**
 * The endpoints of the router, a row each: those of its workers that it passes on, and its own.
 *
 * @module
 */

import { UnsupportedError } from "../errors.ts";
import { errorResponse, generateErrorResponse } from "../http/error_response.ts";
import { isObject } from "../http/fields.ts";
import type { GuardedEndpoint } from "../server/guard/guard_endpoints.ts";
import { messagesErrorBody } from "../server/messages/messages_errors.ts";
import { ollamaErrorResponse } from "../server/ollama/ollama_errors.ts";
import { forward, type Route } from "./forward/forward.ts";
import type { RouterContext } from "./router_context.ts";
import { abortRequests, flushCaches } from "./routes/broadcast.ts";
import { addWorker, listWorkers, removeWorker } from "./routes/manage.ts";
import { decodeNode, giveNodeToken, NODE_PATH } from "./routes/nodes.ts";
import { health, liveness, loads, readiness, totalLoad } from "./routes/status.ts";

export interface RouterEndpoint extends GuardedEndpoint {
  readonly methods: readonly ("GET" | "POST" | "PUT")[];
  readonly handle: (context: RouterContext, request: Request) => Response | Promise<Response>;
  /** Default: `errorResponse`. */
  readonly errorResponse?: (error: unknown) => Response;
}

/** The worker that the policy chooses answers. */
const chosen = (
  name: string,
  hasPrompt = false,
  more: Pick<Route, "check" | "isNamed" | "takesReplica"> = {},
): RouterEndpoint["handle"] => {
  const route: Route = { name, to: "chosen", hasPrompt, ...more };
  return (context, request) => forward(context, request, route);
};

/** The first worker that is available answers. */
const first = (name: string, more: Pick<Route, "role"> = {}): RouterEndpoint["handle"] => {
  const route: Route = { name, to: "first", ...more };
  return (context, request) => forward(context, request, route);
};

const KEPT_BY_WORKER = "the worker that made a response keeps it; ask the worker itself";

/** Another worker than the one that has the conversation would be as likely. */
function refusePrevious(body: unknown): void {
  const field = "previous_response_id";
  if (!isObject(body) || body[field] === undefined || body[field] === null) return;
  throw new UnsupportedError(field, KEPT_BY_WORKER, { field });
}

function messagesErrorResponse(error: unknown): Response {
  return new Response(JSON.stringify(messagesErrorBody(error)), errorResponse(error));
}

export const ROUTER_ENDPOINTS: readonly RouterEndpoint[] = [
  {
    methods: ["POST", "PUT"],
    paths: ["/generate"],
    handle: chosen("/generate", true, { takesReplica: true }),
    errorResponse: generateErrorResponse,
  },
  {
    methods: ["POST"],
    paths: ["/v1/chat/completions"],
    handle: chosen("/v1/chat/completions", true, { takesReplica: true }),
  },
  {
    methods: ["POST"],
    paths: ["/v1/completions"],
    handle: chosen("/v1/completions", true, { takesReplica: true }),
  },
  {
    methods: ["POST"],
    paths: ["/v1/responses"],
    handle: chosen("/v1/responses", true, { check: refusePrevious, isNamed: true }),
  },
  {
    methods: ["POST"],
    paths: ["/v1/messages"],
    handle: chosen("/v1/messages", true, { isNamed: true }),
    errorResponse: messagesErrorResponse,
  },
  {
    methods: ["POST"],
    paths: ["/v1/messages/count_tokens"],
    handle: chosen("/v1/messages/count_tokens"),
    errorResponse: messagesErrorResponse,
  },
  {
    methods: ["POST"],
    paths: ["/api/chat"],
    handle: chosen("/api/chat", true),
    errorResponse: ollamaErrorResponse,
  },
  {
    methods: ["POST"],
    paths: ["/api/generate"],
    handle: chosen("/api/generate", true),
    errorResponse: ollamaErrorResponse,
  },
  {
    methods: ["POST"],
    paths: ["/api/show"],
    handle: chosen("/api/show"),
    errorResponse: ollamaErrorResponse,
  },
  ...["/api/tags", "/api/ps", "/api/version"].map((path) => ({
    methods: ["GET"] as const,
    paths: [path],
    handle: first(path),
    errorResponse: ollamaErrorResponse,
  })),
  { methods: ["POST"], paths: ["/tokenize", "/v1/tokenize"], handle: chosen("/tokenize") },
  { methods: ["POST"], paths: ["/detokenize", "/v1/detokenize"], handle: chosen("/detokenize") },
  { methods: ["POST"], paths: ["/parse_function_call"], handle: chosen("/parse_function_call") },
  { methods: ["POST"], paths: ["/separate_reasoning"], handle: chosen("/separate_reasoning") },
  { methods: ["GET"], paths: ["/v1/models", "/v1/models/:id{.+}"], handle: first("/v1/models") },
  { methods: ["GET"], paths: ["/get_model_info", "/model_info"], handle: first("/get_model_info") },
  {
    methods: ["GET"],
    paths: ["/get_server_info", "/server_info"],
    handle: first("/get_server_info", { role: "decode" }),
  },
  {
    methods: ["GET"],
    paths: ["/health_generate"],
    handle: first("/health_generate"),
    key: "none",
    draining: "refuses by status",
    errorResponse: () => new Response(null, { status: 503 }),
  },
  { methods: ["GET", "POST"], paths: ["/flush_cache"], handle: flushCaches, key: "admin" },
  {
    methods: ["POST"],
    paths: ["/abort_request"],
    handle: abortRequests,
    key: "admin",
    draining: "serves",
  },
  { methods: ["GET"], paths: ["/get_load"], handle: totalLoad },
  { methods: ["GET"], paths: ["/get_loads"], handle: loads },
  { methods: ["GET"], paths: ["/liveness"], handle: liveness, key: "none", draining: "serves" },
  {
    methods: ["GET"],
    paths: ["/readiness"],
    handle: readiness,
    key: "none",
    draining: "refuses by status",
  },
  {
    methods: ["GET"],
    paths: ["/health"],
    handle: health,
    key: "none",
    draining: "refuses by status",
  },
  { methods: ["POST"], paths: ["/add_worker"], handle: addWorker, key: "admin" },
  { methods: ["POST"], paths: ["/remove_worker"], handle: removeWorker, key: "admin" },
  { methods: ["GET"], paths: ["/list_workers"], handle: listWorkers },
  { methods: ["POST"], paths: ["/decode_node_token"], handle: giveNodeToken, key: "admin" },
  { methods: ["GET"], paths: [NODE_PATH], handle: decodeNode, key: "none" },
];

const OF_ONE_RECORD = "choices of experts are recorded by one worker; ask the worker itself";
const OF_ONE_WORKER = "a profile is taken of one worker; ask the worker itself";

/** Endpoints of workers that the router does not pass on -> why. */
export const NOT_ROUTED: ReadonlyMap<string, string> = new Map([
  ["/start_profile", OF_ONE_WORKER],
  ["/stop_profile", OF_ONE_WORKER],
  ["/start_expert_distribution_record", OF_ONE_RECORD],
  ["/stop_expert_distribution_record", OF_ONE_RECORD],
  ["/dump_expert_distribution_record", OF_ONE_RECORD],
  ["/v1/responses/:id", KEPT_BY_WORKER],
]);
