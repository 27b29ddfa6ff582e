/**
 * The engine's complaints about a request, with the names that the client has for what it blames.
 *
 * @module
 */
import { ContextLengthError, InvalidRequestError } from "../../errors.ts";
import { GrammarError } from "../../grammar/grammar_error.ts";
import { isObject } from "../../http/fields.ts";

type Endpoint =
  | "generate"
  | "chat"
  | "completions"
  | "messages"
  | "ollama"
  | "responses"
  | "tokenize";

/** Paths of fields that one thing can come from; the last one where the client gave none of them. */
type Candidates = readonly string[];

/** What the engine calls fields that only it can check, also in its sentences. */
const FIELDS: Readonly<Record<Endpoint, Readonly<Record<string, Candidates>>>> = {
  generate: {
    "logprobs.promptStart": ["logprob_start_len"],
    "logprobs.tokenIds": ["token_ids_logprob"],
    inputEmbeds: ["input_embeds"],
    images: ["image_data"],
    minNewTokens: ["sampling_params.min_new_tokens"],
    maxNewTokens: ["sampling_params.max_new_tokens"],
  },
  chat: {
    minNewTokens: ["min_tokens"],
    maxNewTokens: ["max_completion_tokens", "n_predict", "max_tokens"],
    continueFinalMessage: ["continue_final_message"],
    templateVariables: ["chat_template_kwargs"],
  },
  completions: {
    minNewTokens: ["min_tokens"],
    maxNewTokens: ["n_predict", "max_tokens"],
  },
  messages: { maxNewTokens: ["max_tokens"], continueFinalMessage: ["messages"] },
  ollama: { maxNewTokens: ["options.num_predict"] },
  responses: { maxNewTokens: ["max_output_tokens"] },
  tokenize: {
    continueFinalMessage: ["continue_final_message"],
    templateVariables: ["chat_template_kwargs"],
  },
};

/** Where a prompt comes from, of any form. In sentences it stays a prompt. */
const PROMPTS: Readonly<Record<Endpoint, Candidates>> = {
  generate: ["input_embeds", "input_ids", "text"],
  chat: ["messages"],
  completions: ["prompt"],
  messages: ["messages"],
  ollama: ["prompt", "messages"],
  responses: ["input"],
  tokenize: ["messages", "prompt"],
};

const GRAMMARS = ["regex", "ebnf", "json_schema", "structural_tag"];
/** Other servers' names for them. */
const OTHER_GRAMMARS = [
  "guided_json",
  "guided_regex",
  "guided_grammar",
  "guided_choice",
  "structured_outputs",
];

/** Where a grammar comes from. */
const GRAMMAR_FIELDS: Readonly<Record<Endpoint, Candidates>> = {
  generate: GRAMMARS.map((name) => `sampling_params.${name}`),
  chat: [...GRAMMARS, ...OTHER_GRAMMARS, "response_format", "tools"],
  completions: [...GRAMMARS, ...OTHER_GRAMMARS, "response_format"],
  messages: ["output_config.format", "tools"],
  ollama: ["format", "tools"],
  responses: ["text.format", "tools"],
  tokenize: [],
};

export interface ClientRequest {
  readonly endpoint: Endpoint;
  /** As the client sent it. */
  readonly body: unknown;
}

/** The error for the client; errors that its request has not caused stay as they are. */
export function asClientWrote(error: unknown, { endpoint, body }: ClientRequest): unknown {
  if (!(error instanceof InvalidRequestError)) return error;
  const candidates = candidatesFor(error, endpoint);
  if (candidates.length === 0) return error;
  const path = given(candidates, body);
  const message = renamed(error, { endpoint, body });
  return error instanceof ContextLengthError
    ? new ContextLengthError(message, path, { cause: error })
    : new InvalidRequestError(message, path, { cause: error });
}

/** Sentences about other things than fields may quote what the client wrote. */
function renamed(
  { message, field }: InvalidRequestError,
  { endpoint, body }: ClientRequest,
): string {
  const fields = FIELDS[endpoint];
  if (field === undefined || !Object.hasOwn(fields, field)) return message;
  return Object.entries(fields).reduce(
    (text, [name, paths]) => text.replaceAll(name, given(paths, body)),
    message,
  );
}

function candidatesFor(error: InvalidRequestError, endpoint: Endpoint): Candidates {
  const { field } = error;
  if (error instanceof GrammarError) return GRAMMAR_FIELDS[endpoint];
  if (field === "prompt" || field === "tokens") return PROMPTS[endpoint];
  // Images of a chat are numbered through all of its messages.
  if (field === "images" && endpoint === "chat") return PROMPTS.chat;
  return (field !== undefined && FIELDS[endpoint][field]) || [];
}

function given(candidates: Candidates, body: unknown): string {
  return candidates.find((path) => has(body, path.split("."))) ?? candidates.at(-1)!;
}

/** Whether there is such a field that says something, in a batch of any of its items. */
function has(value: unknown, [name, ...rest]: readonly string[]): boolean {
  if (name === undefined) return value !== undefined && value !== null && value !== "";
  if (Array.isArray(value)) return value.some((item) => has(item, [name, ...rest]));
  return isObject(value) && Object.hasOwn(value, name) && has(value[name], rest);
}
