/**
 * What a text service does: plain data in, tokens or text out, wherever it runs.
 *
 * @module
 */
import { textOf } from "../../chat_message.ts";
import { ContextLengthError, InvalidRequestError } from "../../errors.ts";
import type { ChatMessage, TokenizeRequest } from "../../generation.ts";
import type { ChatRenderer } from "../../text/chat_template_choice.ts";
import type { Tokenizer } from "../../text/tokenizer.ts";
import { fillPlaces, type ImagePlaces, refuseSpelledPlaces } from "./image_places.ts";

/** The context that a prompt has to fit into. */
export interface PromptFit {
  readonly contextLength: number;
  /** Cuts what is too long, instead of refusing it. Default false. */
  readonly allowAutoTruncate?: boolean | undefined;
}

/** The tokens of a text or a conversation. */
export interface PromptJob {
  readonly type: "prompt";
  readonly request: TokenizeRequest;
  /** Default: however many they are. */
  readonly fit?: PromptFit | undefined;
  /** Of a model that reads images. */
  readonly images?: ImagePlaces | undefined;
  /** Whether what the tokenizer begins texts with stands in front of a conversation too. Default false. */
  readonly beginsChats?: boolean | undefined;
}

/** The tokens of a piece of text, nothing added. */
export interface EncodeJob {
  readonly type: "encode";
  readonly text: string;
}

/** The text of a whole list of tokens, each of which is in the vocabulary. */
export interface DecodeJob {
  readonly type: "decode";
  readonly tokens: readonly number[];
  readonly skipSpecialTokens: boolean;
}

export type TextJob = PromptJob | EncodeJob | DecodeJob;

export type TextResult<Job extends TextJob> = Job extends DecodeJob ? string : readonly number[];

/** What jobs are done with. */
export interface TextTools {
  readonly tokenizer: Tokenizer;
  readonly chat: ChatRenderer;
  /** Bytes of the vocabulary's longest token. */
  readonly longestToken: number;
}

/** @throws {InvalidRequestError} naming the field that is to blame. */
export function runTextJob<Job extends TextJob>(job: Job, tools: TextTools): TextResult<Job>;
export function runTextJob(job: TextJob, tools: TextTools): string | readonly number[] {
  try {
    return resultOf(job, tools);
  } catch (cause) {
    // A stack, a string or a list that cannot be any longer.
    if (!(cause instanceof RangeError)) throw cause;
    const problem = `it is too large (${cause.message})`;
    throw new InvalidRequestError(`Cannot read the text: ${problem}`, undefined, { cause });
  }
}

function resultOf(job: TextJob, tools: TextTools): string | readonly number[] {
  switch (job.type) {
    case "prompt":
      return promptTokens(job, tools);
    case "encode":
      return tools.tokenizer.encode(job.text);
    case "decode":
      return tools.tokenizer.decode(job.tokens, { skipSpecialTokens: job.skipSpecialTokens });
    default:
      return job satisfies never;
  }
}

/** More than tokens of most texts have: such a part of a text that is too long shows it. */
const CHARACTERS_PER_TOKEN = 8;
/**
 * Tokens' worth of text behind what the context holds that a text is cut after: how a text is spelled
 * in front of a cut does not depend on what is that far behind it.
 */
const MARGIN_TOKENS = 1024;

function promptTokens(job: PromptJob, tools: TextTools): readonly number[] {
  const { request, fit, images, beginsChats = false } = job;
  const { tokenizer, chat } = tools;
  const { prompt, addSpecialTokens = true } = request;
  if (images !== undefined) refuseSpelledPlaces(request.messages ?? [], images);
  const written = prompt ?? renderChat(request, chat);
  const given = images === undefined ? written : fillPlaces(written, images);
  const text = fit === undefined ? given : fittingText(given, fit, tools);
  const begins = prompt === undefined ? beginsChats : addSpecialTokens;
  const ids = begins ? tokenizer.encodePrompt(text) : tokenizer.encode(text);
  if (fit === undefined || ids.length < fit.contextLength) return ids;
  if (!fit.allowAutoTruncate) throw tooLong(ids.length, fit.contextLength);
  return ids.slice(0, fit.contextLength - 1);
}

/** @throws {ContextLengthError} when it shows before all of it is encoded that it is too long. */
function fittingText(
  given: string,
  fit: PromptFit,
  { tokenizer, longestToken }: TextTools,
): string {
  const text = boundedText(given, fit, longestToken);
  const { contextLength, allowAutoTruncate } = fit;
  const beginning = text.slice(0, CHARACTERS_PER_TOKEN * contextLength);
  if (allowAutoTruncate || beginning.length === text.length) return text;
  // Where it is cut, one token of the whole may have become several.
  const counted = tokenizer.encode(beginning).length - longestToken;
  if (counted >= contextLength) throw tooLong(`at least ${counted}`, contextLength);
  return text;
}

/**
 * The text, or as much of it as can matter where it may be cut.
 *
 * @throws {ContextLengthError} when it has more characters than tokens of the context can spell.
 */
export function boundedText(
  text: string,
  { contextLength, allowAutoTruncate }: PromptFit,
  longestToken: number,
): string {
  if (allowAutoTruncate) return text.slice(0, longestToken * (contextLength + MARGIN_TOKENS));
  const atLeast = Math.ceil(text.length / longestToken);
  if (atLeast >= contextLength) throw tooLong(`at least ${atLeast}`, contextLength);
  return text;
}

/** In words by which clients tell this error from others, to shorten what they send. */
export function tooLong(tokens: number | string, contextLength: number): ContextLengthError {
  return new ContextLengthError(
    `The input (${tokens} tokens) is longer than the model's context length (${contextLength} ` +
      "tokens). Please reduce the length of the messages or prompt",
    "prompt",
  );
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
  if (isText && messages.length > 1) return textOf(last.content);
  throw new InvalidRequestError(
    "Cannot use continueFinalMessage: the last of several messages must be an assistant's text",
    "continueFinalMessage",
  );
}
