/**
 * Documented fields that this server knows and does not act on yet, each with the values that ask
 * for nothing. Those are accepted, any other value is refused by name.
 *
 * @module
 */
import { type Fields, isObject, type NeutralValues } from "../http/fields.ts";

type FieldTable = Readonly<Record<string, NeutralValues>>;

const NOTHING: NeutralValues = [];
const OFF: NeutralValues = [false];
/** An empty string counts as unset where a grammar is expected. */
const UNSET: NeutralValues = [""];

const isEmpty = (value: unknown): boolean =>
  Array.isArray(value) ? value.length === 0 : isObject(value) && Object.keys(value).length === 0;

/** The value itself or, for a batch, a list of it. */
function each(neutral: boolean | number): NeutralValues {
  return (value) =>
    value === neutral ||
    (Array.isArray(value) && value.every((item) => item === neutral || item === null));
}

/** Fields of prefill/decode disaggregation, of adapters and of sessions: the same on all endpoints. */
const DEPLOYMENT_FIELDS: FieldTable = {
  bootstrap_host: NOTHING,
  bootstrap_pair_key: NOTHING,
  bootstrap_port: NOTHING,
  bootstrap_room: NOTHING,
  custom_logit_processor: NOTHING,
  data_parallel_rank: NOTHING,
  lora_path: NOTHING,
  return_hidden_states: each(false),
  session_params: isEmpty,
};

export const UNSUPPORTED_GENERATE_FIELDS: FieldTable = {
  ...DEPLOYMENT_FIELDS,
  audio_data: isEmpty,
  background: OFF,
  conversation_id: NOTHING,
  image_data: isEmpty,
  label: NOTHING,
  log_metrics: [true],
  max_thinking_tokens: NOTHING,
  modalities: isEmpty,
  return_bytes: OFF,
  return_prompt_token_ids: OFF,
  return_sampling_mask: OFF,
  routed_dp_rank: NOTHING,
  routing_key: NOTHING,
  session_id: NOTHING,
  video_data: isEmpty,
};

/** Sampling fields with the same spelling in `sampling_params` and in chat requests. */
const SHARED_SAMPLING_FIELDS: FieldTable = {
  stop_regex: (value) => value === "" || (Array.isArray(value) && value.length === 0),
};

export const UNSUPPORTED_SAMPLING_FIELDS: FieldTable = {
  ...SHARED_SAMPLING_FIELDS,
  custom_params: isEmpty,
};

/** Fields that only a service with accounts has a use for. */
const SERVICE_FIELDS: FieldTable = {
  service_tier: ["auto"],
  store: OFF,
};

export const UNSUPPORTED_CHAT_FIELDS: FieldTable = {
  ...DEPLOYMENT_FIELDS,
  ...SERVICE_FIELDS,
  ...SHARED_SAMPLING_FIELDS,
  audio: NOTHING,
  modalities: (value) => isEmpty(value) || (Array.isArray(value) && String(value) === "text"),
};

export const UNSUPPORTED_COMPLETION_FIELDS: FieldTable = {
  ...DEPLOYMENT_FIELDS,
  ...SERVICE_FIELDS,
  ...SHARED_SAMPLING_FIELDS,
  suffix: UNSET,
};

/** Fields of the endpoints under `/v1` that describe the caller and change nothing. */
export function acceptCaller(fields: Fields): void {
  fields.string("user");
  fields.object("metadata");
}

export const UNSUPPORTED_STREAM_OPTIONS: FieldTable = {
  include_obfuscation: OFF,
};

/** Fields with which an answer of this server, or of one like it, may come back as history. */
export const UNSUPPORTED_MESSAGE_FIELDS: FieldTable = {
  annotations: isEmpty,
  audio: NOTHING,
  function_call: NOTHING,
  refusal: NOTHING,
};
