/**
 * Endpoints of servers of this kind that this one knows and does not have, each with what is
 * missing for it. The server names what it lacks when it refuses them; any other path is not found.
 *
 * @module
 */

const EMBEDDINGS = "no model that makes embeddings can be served";
const SCORES = "prompts are not scored against each other; /generate has log-probabilities";
const OTHER_INTERFACE = "it is another interface; /v1/chat/completions answers conversations";
const WEIGHTS = "weights stay as they were loaded";
const ADAPTERS = "no adapters can be loaded";
const MEMORY = "memory is held until the server ends";
const REMOTE_WEIGHTS = "weights are read from files, and sent to no other server";
const FILES = "files are not taken; /generate has input_embeds in its body";
const ONE_CACHE =
  "the cache has no further storage but --prefix-cache-dir; /flush_cache empties it";
const SESSIONS = "there are no sessions; prompts that begin alike share the cache";
const PAUSE = "generation cannot be paused; /abort_request ends requests";

/** Path -> why it cannot be used. */
export const UNSUPPORTED_ENDPOINTS: ReadonlyMap<string, string> = new Map([
  ["/generate_from_file", FILES],
  ["/encode", EMBEDDINGS],
  ["/classify", EMBEDDINGS],
  ["/v1/embeddings", EMBEDDINGS],
  ["/v1/classify", EMBEDDINGS],
  ["/v1/score", SCORES],
  ["/v1/rerank", SCORES],
  ["/rerank", SCORES],
  ["/ping", "/health tells how the server is"],
  ["/v1/loads", "/get_load tells how much there is to do"],
  ["/v1/responses/:id/cancel", "no response is made in the background"],
  ["/v1/responses/:id/input_items", "a response is kept without its input"],
  ["/invocations", OTHER_INTERFACE],
  ["/vertex_generate", OTHER_INTERFACE],
  ["/update_weights_from_disk", WEIGHTS],
  ["/update_weights_from_tensor", WEIGHTS],
  ["/update_weights_from_distributed", WEIGHTS],
  ["/init_weights_update_group", WEIGHTS],
  ["/get_weights_by_name", WEIGHTS],
  ["/update_weight_version", WEIGHTS],
  ["/get_weight_version", "/get_model_info tells it"],
  ["/update_weights_from_ipc", WEIGHTS],
  ["/destroy_weights_update_group", WEIGHTS],
  ["/init_weights_send_group_for_remote_instance", REMOTE_WEIGHTS],
  ["/send_weights_to_remote_instance", REMOTE_WEIGHTS],
  ["/load_lora_adapter", ADAPTERS],
  ["/unload_lora_adapter", ADAPTERS],
  ["/clear_hicache_storage_backend", ONE_CACHE],
  ["/release_memory_occupation", MEMORY],
  ["/resume_memory_occupation", MEMORY],
  ["/open_session", SESSIONS],
  ["/close_session", SESSIONS],
  ["/pause_generation", PAUSE],
  ["/continue_generation", PAUSE],
  ["/configure_logging", "how the server logs is chosen by its options"],
  ["/set_internal_state", "the server's state is chosen by its options"],
  ["/freeze_gc", "there is no garbage collector of that kind"],
  ["/slow_down", "the server is not slowed down on purpose"],
]);
