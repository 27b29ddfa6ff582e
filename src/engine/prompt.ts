/**
 * From a request to its prompt.
 *
 * @module
 */
import type { ContentIds } from "../cache/content_id.ts";
import { ContextLengthError, InvalidRequestError } from "../errors.ts";
import type { ChatMessage, GenerationRequest, TokenizeRequest } from "../generation.ts";
import type { ChatRenderer } from "../text/chat_template_choice.ts";
import type { Tokenizer } from "../text/tokenizer.ts";
import { PromptEmbeddings } from "./prompt_embeddings.ts";

export interface PromptOptions {
  readonly tokenizer: Tokenizer;
  readonly chat: ChatRenderer;
  readonly vocabularySize: number;
  readonly hiddenSize: number;
  readonly contextLength: number;
  /** Bytes of the vocabulary's longest token. */
  readonly longestToken: number;
  readonly contentIds: ContentIds;
  /** Cuts what is too long, instead of refusing it. Default false. */
  readonly allowAutoTruncate?: boolean | undefined;
}

export interface Prompt {
  /** Ids, at least one and fewer than the context holds; those of embeddings are no token's. */
  readonly tokens: readonly number[];
  /** Absent when the prompt is tokens. */
  readonly embeddings?: PromptEmbeddings;
}

/** @throws {InvalidRequestError} naming the field. */
export function readPrompt(request: GenerationRequest, options: PromptOptions): Prompt {
  const { prompt, messages, tokens, inputEmbeds } = request;
  const given = [prompt, messages, tokens, inputEmbeds].filter((form) => form !== undefined);
  if (given.length !== 1) {
    throw new InvalidRequestError(
      `Cannot read the request: it needs exactly one of prompt, messages, tokens and inputEmbeds, got ${given.length}`,
    );
  }
  refuseWithoutMessages(request);
  if (inputEmbeds !== undefined) {
    const rows = inputEmbeds.slice(0, fittingLength(inputEmbeds, options));
    const embeddings = new PromptEmbeddings(rows, options);
    return { tokens: embeddings.ids, embeddings };
  }
  const ids = tokens ?? encode(request, options);
  const length = fittingLength(ids, options);
  requireTokens(ids, options);
  return { tokens: ids.slice(0, length) };
}

/** Tokens at its beginning that a prompt may keep; one of the context is left for the completion. */
function fittingLength(
  { length }: ArrayLike<unknown>,
  { contextLength, allowAutoTruncate }: PromptOptions,
): number {
  if (length === 0) throw new InvalidRequestError("Cannot use the prompt: it is empty", "prompt");
  if (length < contextLength) return length;
  if (allowAutoTruncate) return contextLength - 1;
  throw tooLong(length, contextLength);
}

/** @throws {InvalidRequestError} when an id is not in the vocabulary. */
export function requireTokens(
  ids: readonly number[],
  { vocabularySize }: Pick<PromptOptions, "vocabularySize">,
): void {
  const wrong = ids.find((id) => !(Number.isSafeInteger(id) && id >= 0 && id < vocabularySize));
  if (wrong !== undefined) {
    throw new InvalidRequestError(
      `Cannot use token id ${wrong}: it is not in the vocabulary of ${vocabularySize}`,
      "tokens",
    );
  }
}

function refuseWithoutMessages(request: TokenizeRequest): void {
  if (request.messages !== undefined) return;
  for (const field of ["tools", "templateVariables", "continueFinalMessage"] as const) {
    if (request[field] === undefined) continue;
    throw new InvalidRequestError(`Cannot use ${field}: the request has no messages`, field);
  }
}

/** More than tokens of most texts have: such a part of a text that is too long shows it. */
const CHARACTERS_PER_TOKEN = 8;

function encode(request: GenerationRequest, options: PromptOptions): number[] {
  const { tokenizer, chat, contextLength, longestToken, allowAutoTruncate } = options;
  const { prompt } = request;
  const text = prompt ?? renderChat(request, chat);
  // Encoding takes time, in which nothing else is done; a text that cannot fit is not worth it.
  const atLeast = Math.ceil(text.length / Math.max(longestToken, 1));
  if (atLeast >= contextLength && !allowAutoTruncate) {
    throw tooLong(`at least ${atLeast}`, contextLength);
  }
  const beginning = text.slice(0, CHARACTERS_PER_TOKEN * contextLength);
  if (beginning.length < text.length && !allowAutoTruncate) {
    // Where it is cut, one token of the whole may have become several.
    const counted = tokenizer.encode(beginning).length - longestToken;
    if (counted >= contextLength) throw tooLong(`at least ${counted}`, contextLength);
  }
  return prompt === undefined ? tokenizer.encode(text) : tokenizer.encodePrompt(text);
}

/**
 * The tokens of a text or a conversation, however many.
 *
 * @throws {InvalidRequestError} when there is not exactly one of the two.
 */
export function tokenize(
  request: TokenizeRequest,
  { tokenizer, chat }: Pick<PromptOptions, "tokenizer" | "chat">,
): number[] {
  const { prompt, messages, addSpecialTokens = true } = request;
  if ((prompt === undefined) === (messages === undefined)) {
    throw new InvalidRequestError(
      "Cannot tokenize: the request needs exactly one of prompt and messages",
    );
  }
  refuseWithoutMessages(request);
  if (prompt === undefined) return tokenizer.encode(renderChat(request, chat));
  return addSpecialTokens ? tokenizer.encodePrompt(prompt) : tokenizer.encode(prompt);
}

/** An answer to go on with stands where a new one would begin, as the model wrote it. */
function renderChat(request: TokenizeRequest, chat: ChatRenderer): string {
  const { messages = [], tools, templateVariables, continueFinalMessage } = request;
  const begun = continueFinalMessage === true ? finalText(messages) : "";
  const prompt = chat.render({
    messages: continueFinalMessage === true ? messages.slice(0, -1) : messages,
    ...(tools !== undefined && { tools }),
    addGenerationPrompt: true,
    ...(templateVariables !== undefined && { variables: templateVariables }),
  });
  return prompt + begun;
}

function finalText(messages: readonly ChatMessage[]): string {
  const last = messages.at(-1);
  const isText = last?.role === "assistant" && last.content !== null && !last.tool_calls?.length;
  if (isText && messages.length > 1) return last.content;
  throw new InvalidRequestError(
    "Cannot use continueFinalMessage: the last of several messages must be an assistant's text",
    "continueFinalMessage",
  );
}

/** In words by which clients tell this error from others, to shorten what they send. */
export function tooLong(tokens: number | string, contextLength: number): ContextLengthError {
  return new ContextLengthError(
    `The input (${tokens} tokens) is longer than the model's context length (${contextLength} ` +
      "tokens). Please reduce the length of the messages or prompt",
    "prompt",
  );
}

/**
 * Completion tokens a request gets.
 *
 * @param wanted `undefined` is the default, cut to what fits; `null` is all that fits.
 * @throws {InvalidRequestError} when the request asks for more than the context holds.
 */
export function completionLimit(
  promptLength: number,
  wanted: number | null | undefined,
  {
    contextLength,
    fallback,
    allowAutoTruncate = false,
  }: Pick<PromptOptions, "contextLength" | "allowAutoTruncate"> & { readonly fallback: number },
): number {
  const room = contextLength - promptLength;
  if (wanted === null) return room;
  if (wanted === undefined) return Math.min(fallback, room);
  if (wanted > room && allowAutoTruncate) return room;
  if (wanted > room) {
    throw new ContextLengthError(
      `Requested token count exceeds the model's maximum context length of ${contextLength} tokens. ` +
        `You requested a total of ${promptLength + wanted} tokens: ${promptLength} tokens from the ` +
        `input and ${wanted} tokens for the completion. This model's maximum context length is ` +
        `${contextLength} tokens. Please reduce the length of the messages or completion`,
      "maxNewTokens",
    );
  }
  return wanted;
}
