/**
 * Endpoints of servers of this kind that this one knows and does not have, each with what is
 * missing for it. They are refused by name; any other path is not found.
 *
 * @module
 */

const EMBEDDINGS = "no model that makes embeddings can be served";
const SCORES = "prompts are not scored against each other; /generate has log-probabilities";
const NO_RESPONSES = "answers are not stored; /v1/chat/completions answers conversations";
const OTHER_INTERFACE = "it is another interface; /v1/chat/completions answers conversations";
const WEIGHTS = "weights stay as they were loaded";
const ADAPTERS = "no adapters can be loaded";
const MEMORY = "memory is held until the server ends";
const SESSIONS = "there are no sessions; prompts that begin alike share the cache";
const EXPERTS = "where experts are asked for is not recorded";
const PAUSE = "generation cannot be paused; /abort_request ends requests";

/** Path -> why it cannot be used. */
export const UNSUPPORTED_ENDPOINTS: ReadonlyMap<string, string> = new Map([
  ["/encode", EMBEDDINGS],
  ["/classify", EMBEDDINGS],
  ["/v1/embeddings", EMBEDDINGS],
  ["/v1/classify", EMBEDDINGS],
  ["/v1/score", SCORES],
  ["/v1/rerank", SCORES],
  ["/rerank", SCORES],
  ["/ping", "/health tells how the server is"],
  ["/v1/loads", "/get_load tells how much there is to do"],
  ["/v1/responses", NO_RESPONSES],
  ["/v1/responses/:id", NO_RESPONSES],
  ["/v1/responses/:id/cancel", NO_RESPONSES],
  ["/v1/messages", OTHER_INTERFACE],
  ["/api/chat", OTHER_INTERFACE],
  ["/api/generate", OTHER_INTERFACE],
  ["/invocations", OTHER_INTERFACE],
  ["/vertex_generate", OTHER_INTERFACE],
  ["/update_weights_from_disk", WEIGHTS],
  ["/update_weights_from_tensor", WEIGHTS],
  ["/update_weights_from_distributed", WEIGHTS],
  ["/init_weights_update_group", WEIGHTS],
  ["/get_weights_by_name", WEIGHTS],
  ["/update_weight_version", WEIGHTS],
  ["/load_lora_adapter", ADAPTERS],
  ["/unload_lora_adapter", ADAPTERS],
  ["/release_memory_occupation", MEMORY],
  ["/resume_memory_occupation", MEMORY],
  ["/open_session", SESSIONS],
  ["/close_session", SESSIONS],
  ["/start_expert_distribution_record", EXPERTS],
  ["/stop_expert_distribution_record", EXPERTS],
  ["/dump_expert_distribution_record", EXPERTS],
  ["/pause_generation", PAUSE],
  ["/continue_generation", PAUSE],
  ["/configure_logging", "how the server logs is chosen by its options"],
  ["/set_internal_state", "the server's state is chosen by its options"],
  ["/freeze_gc", "there is no garbage collector of that kind"],
  ["/slow_down", "the server is not slowed down on purpose"],
]);
