/**
 * The paths of `createApp`, for those who decide what reaches it before there is an engine.
 *
 * @module
 */
import { UNSUPPORTED_ENDPOINTS } from "./unsupported_endpoints.ts";

/** All but `/metrics`, which only some servers have; `:name` stands for one part of a path. */
export const ENDPOINT_PATHS: readonly string[] = [
  "/generate",
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/responses",
  "/v1/responses/:id",
  "/v1/messages",
  "/v1/messages/count_tokens",
  "/api/chat",
  "/api/generate",
  "/api/show",
  "/api/tags",
  "/api/ps",
  "/api/version",
  "/v1/models",
  "/v1/models/:id{.+}",
  "/tokenize",
  "/v1/tokenize",
  "/detokenize",
  "/v1/detokenize",
  "/parse_function_call",
  "/separate_reasoning",
  "/health",
  "/health_generate",
  "/get_model_info",
  "/model_info",
  "/get_server_info",
  "/server_info",
  "/get_load",
  "/flush_cache",
  "/abort_request",
  "/start_profile",
  "/start_expert_distribution_record",
  "/stop_expert_distribution_record",
  "/dump_expert_distribution_record",
  "/stop_profile",
  ...UNSUPPORTED_ENDPOINTS.keys(),
];

const PATTERNS = ENDPOINT_PATHS.map((path) => {
  const pattern = path.replace(/:\w+\{(.+?)\}/g, "$1").replace(/:\w+/g, "[^/]+");
  return new RegExp(`^${pattern}$`);
});

/** Whether `createApp` has an answer of its own for a path, be it that it is not supported. */
export function isEndpointPath(path: string): boolean {
  return PATTERNS.some((pattern) => pattern.test(path));
}
