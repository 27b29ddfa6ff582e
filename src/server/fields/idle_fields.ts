/**
 * Fields that clients send and this server does nothing with, each with the values that change no
 * answer. Those are taken and the log names the field once; the server refuses any other value and
 * names the field.
 *
 * @module
 */
import { type IdleFields, type IdleValues, isObject } from "../../http/fields.ts";

/** What the field says changes no answer, whatever it is. */
const ANYTHING: IdleValues = () => true;
const NOTHING: IdleValues = [];
const OFF: IdleValues = [false];
const ON: IdleValues = [true];
/** An empty string counts as unset. */
const UNSET: IdleValues = [""];

const isEmpty = (value: unknown): boolean =>
  Array.isArray(value) ? value.length === 0 : isObject(value) && Object.keys(value).length === 0;

/** A list of nothing but such words. */
function words(allowed: readonly unknown[]): IdleValues {
  return (value) => Array.isArray(value) && value.every((word) => allowed.includes(word));
}

/** The value itself or, for a batch, a list of it. */
function each(idle: boolean | number | string): IdleValues {
  return (value) =>
    value === idle ||
    (Array.isArray(value) && value.every((item) => item === idle || item === null));
}

/** What servers with accounts, caches and queues of their own are told about a caller. */
const CALLER_FIELDS: IdleFields = {
  cache_prompt: ANYTHING,
  conversation_id: ANYTHING,
  extra_body: isEmpty,
  label: ANYTHING,
  metadata: ANYTHING,
  prompt_cache_key: ANYTHING,
  prompt_cache_retention: ANYTHING,
  routing_key: ANYTHING,
  safety_identifier: ANYTHING,
  service_tier: ANYTHING,
  store: ANYTHING,
  user: ANYTHING,
};

/** Those of them that `/v1/responses` acts on. */
const RESPONSES_OWN: ReadonlySet<string> = new Set(["metadata", "store"]);

/** Of the samplers of other servers those of Ollama. */
const OLLAMA_SAMPLERS: ReadonlySet<string> = new Set([
  ...["mirostat", "mirostat_eta", "mirostat_tau", "repeat_last_n", "typical_p"],
]);

/** What may be asked for beside an answer and is never in one; thoughts are there unencrypted. */
const NOT_IN_ANSWERS: readonly string[] = [
  "reasoning.encrypted_content",
  "file_search_call.results",
  "web_search_call.results",
  "web_search_call.action.sources",
  "computer_call_output.output.image_url",
  "code_interpreter_call.outputs",
  "message.input_image.image_url",
];

/** Fields of prefill/decode disaggregation, of adapters and of sessions. */
const DEPLOYMENT_FIELDS: IdleFields = {
  bootstrap_host: NOTHING,
  bootstrap_pair_key: NOTHING,
  bootstrap_port: NOTHING,
  bootstrap_room: NOTHING,
  custom_logit_processor: NOTHING,
  lora_path: each(""),
  return_hidden_states: each(false),
  return_routed_experts: each(false),
  session_params: isEmpty,
};

/** The same on all endpoints that generate. */
const REQUEST_FIELDS: IdleFields = { ...CALLER_FIELDS, ...DEPLOYMENT_FIELDS };

export const IDLE_GENERATE_FIELDS: IdleFields = {
  ...REQUEST_FIELDS,
  audio_data: isEmpty,
  background: OFF,
  max_thinking_tokens: NOTHING,
  modalities: isEmpty,
  model: ANYTHING,
  no_logs: OFF,
  return_bytes: OFF,
  return_prompt_token_ids: OFF,
  return_sampling_mask: OFF,
  session_id: NOTHING,
  video_data: isEmpty,
};

/** Sampling fields with the same spelling in `sampling_params` and in requests under `/v1`. */
const SHARED_SAMPLING_FIELDS: IdleFields = {
  custom_params: isEmpty,
  stop_regex: (value) => value === "" || (Array.isArray(value) && value.length === 0),
};

export const IDLE_SAMPLING_FIELDS: IdleFields = SHARED_SAMPLING_FIELDS;

/**
 * Sampling fields of vLLM's and llama.cpp's servers. Those that shape a sampler which is refused
 * unless it is off may say what they like.
 */
const FOREIGN_SAMPLING_FIELDS: IdleFields = {
  allowed_token_ids: NOTHING,
  bad_words: isEmpty,
  dry_allowed_length: ANYTHING,
  dry_base: ANYTHING,
  dry_multiplier: [0],
  dry_penalty_last_n: ANYTHING,
  dry_sequence_breakers: ANYTHING,
  dynatemp_exponent: ANYTHING,
  dynatemp_range: [0],
  guided_decoding_backend: ANYTHING,
  guided_whitespace_pattern: NOTHING,
  id_slot: ANYTHING,
  include_stop_str_in_output: OFF,
  length_penalty: [1],
  logits_processors: isEmpty,
  mirostat: [0],
  mirostat_eta: ANYTHING,
  mirostat_tau: ANYTHING,
  n_probs: [0],
  prompt_logprobs: NOTHING,
  // The penalty here is over all of prompt and answer, which is what -1 asks for there.
  repeat_last_n: [-1],
  return_token_ids: OFF,
  return_tokens_as_token_ids: OFF,
  timings_per_token: OFF,
  truncate_prompt_tokens: NOTHING,
  typical_p: [1],
  use_beam_search: OFF,
  xtc_probability: [0],
  xtc_threshold: ANYTHING,
};

const OPENAI_FIELDS: IdleFields = {
  ...REQUEST_FIELDS,
  ...SHARED_SAMPLING_FIELDS,
  ...FOREIGN_SAMPLING_FIELDS,
};

export const IDLE_CHAT_FIELDS: IdleFields = {
  ...OPENAI_FIELDS,
  add_generation_prompt: ON,
  add_special_tokens: OFF,
  audio: NOTHING,
  best_of: [1],
  documents: isEmpty,
  echo: OFF,
  function_call: ["auto", "none"],
  functions: isEmpty,
  include_reasoning: ON,
  mm_processor_kwargs: isEmpty,
  modalities: words(["text"]),
  // A guess at the answer that makes some servers faster.
  prediction: ANYTHING,
  // How much models that were trained for it write; no chat template here knows it.
  verbosity: ANYTHING,
  web_search_options: NOTHING,
};

export const IDLE_COMPLETION_FIELDS: IdleFields = {
  ...OPENAI_FIELDS,
  add_special_tokens: ON,
  suffix: UNSET,
};

export const IDLE_TOKENIZE_FIELDS: IdleFields = { add_generation_prompt: ON };

export const IDLE_STREAM_OPTIONS: IdleFields = { include_obfuscation: OFF };

export const IDLE_STRUCTURED_OUTPUTS: IdleFields = {
  disable_additional_properties: OFF,
  disable_any_whitespace: OFF,
  disable_fallback: ANYTHING,
  whitespace_pattern: NOTHING,
};

/** What clients note down in messages and in their parts that is not for the model. */
const NOTES: IdleFields = {
  cache_control: ANYTHING,
  provider_specific_fields: ANYTHING,
};

/** Fields with which an answer of this server, or of one like it, may come back as history. */
export const IDLE_MESSAGE_FIELDS: IdleFields = {
  ...NOTES,
  annotations: isEmpty,
  audio: NOTHING,
  function_call: NOTHING,
  // What the `openai` client reads from `content`.
  parsed: ANYTHING,
  prefix: OFF,
  refusal: NOTHING,
};

export const IDLE_PART_FIELDS: IdleFields = NOTES;

export const IDLE_TOOL_FIELDS: IdleFields = NOTES;

export const IDLE_TOOL_CALL_FIELDS: IdleFields = NOTES;

/** `parsed_arguments` is what the `openai` client reads from `arguments`. */
export const IDLE_CALLED_FUNCTION_FIELDS: IdleFields = { ...NOTES, parsed_arguments: ANYTHING };

/** Fields of `/v1/messages` and of its blocks and tools. */
export const IDLE_MESSAGES_FIELDS: IdleFields = {
  cache_control: ANYTHING,
  container: NOTHING,
  context_management: keepsContext,
  diagnostics: ANYTHING,
  inference_geo: ANYTHING,
  mcp_servers: isEmpty,
  metadata: ANYTHING,
  service_tier: ANYTHING,
  speed: ANYTHING,
  user_profile_id: ANYTHING,
  workspace_id: ANYTHING,
};

/** Agents say that thoughts stay in the conversation, which they do. */
function keepsContext(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { edits = [], ...others } = value;
  if (!isEmpty(others) || !Array.isArray(edits)) return false;
  return edits.every(
    (edit) => isObject(edit) && edit.type === "clear_thinking_20251015" && edit.keep === "all",
  );
}

export const IDLE_BLOCK_FIELDS: IdleFields = { ...NOTES, citations: isOff, toolset_name: NOTHING };

/** What documents and texts would be quoted by, none or turned off. */
function isOff(value: unknown): boolean {
  return isEmpty(value) || (isObject(value) && value.enabled === false);
}

export const IDLE_TOOL_USE_FIELDS: IdleFields = {
  ...NOTES,
  caller: (value) => isObject(value) && value.type === "direct",
  toolset_name: NOTHING,
};

export const IDLE_FLAT_TOOL_FIELDS: IdleFields = {
  ...NOTES,
  allowed_callers: words(["direct"]),
  defer_loading: OFF,
  eager_input_streaming: ANYTHING,
  input_examples: isEmpty,
};

/** Fields of `/v1/responses` and of its items. */
export const IDLE_RESPONSES_FIELDS: IdleFields = {
  ...Object.fromEntries(Object.entries(CALLER_FIELDS).filter(([name]) => !RESPONSES_OWN.has(name))),
  background: OFF,
  client_metadata: ANYTHING,
  context_management: isEmpty,
  conversation: NOTHING,
  include: words(NOT_IN_ANSWERS),
  // Of tools of the server's own, of which there are none.
  max_tool_calls: ANYTHING,
  moderation: NOTHING,
  prompt: NOTHING,
  prompt_cache_options: ANYTHING,
  stream_options: ANYTHING,
  top_logprobs: [0],
  truncation: ["disabled"],
};

export const IDLE_ITEM_FIELDS: IdleFields = {
  caller: (value) => isObject(value) && value.type === "direct",
  id: ANYTHING,
  namespace: NOTHING,
  phase: ANYTHING,
  status: ANYTHING,
};

export const IDLE_ITEM_PART_FIELDS: IdleFields = { annotations: ANYTHING, logprobs: ANYTHING };

/** Fields of Ollama's `/api/chat` and `/api/generate`, and of their `options`. */
export const IDLE_OLLAMA_FIELDS: IdleFields = {
  keep_alive: ANYTHING,
  logprobs: OFF,
  shift: ANYTHING,
  top_logprobs: [0],
  truncate: OFF,
};

export const IDLE_OLLAMA_GENERATE_FIELDS: IdleFields = {
  context: isEmpty,
  suffix: UNSET,
  template: UNSET,
};

/** How a model is loaded there, which is loaded here already, and samplers that are turned off. */
export const IDLE_OLLAMA_OPTIONS: IdleFields = {
  ...Object.fromEntries(
    Object.entries(FOREIGN_SAMPLING_FIELDS).filter(([name]) => OLLAMA_SAMPLERS.has(name)),
  ),
  draft_num_predict: ANYTHING,
  main_gpu: ANYTHING,
  num_batch: ANYTHING,
  num_ctx: ANYTHING,
  num_gpu: ANYTHING,
  num_keep: ANYTHING,
  num_thread: ANYTHING,
  numa: ANYTHING,
  penalize_newline: [true],
  tfs_z: [1],
  use_mmap: ANYTHING,
};

/** How thoughts are told to a client, which here are told as they are. */
export const IDLE_REASONING_FIELDS: IdleFields = {
  context: ["auto"],
  generate_summary: ANYTHING,
  mode: ["standard"],
  summary: ANYTHING,
};
