/**
 * What a client of a server knows of it, asks it, and is answered.
 *
 * @module
 */
import type { ChatMessage } from "../chat_message.ts";
import type { FamilyParsers } from "../text/family_parsers.ts";
import type { MessageEvent } from "../text/message_parser.ts";

/** What is known of a server before it is asked anything. */
export interface ServedModel {
  /** As the server calls it. */
  readonly name: string;
  /** Tokens of prompt and completion together; undefined where the server does not say. */
  readonly contextLength: number | undefined;
  /** Whether the server is one of this kind, which tells more and takes more than others. */
  readonly isOurs: boolean;
  /** What it samples by where a request does not say, by the names of the wire. */
  readonly defaults: Readonly<Record<string, number>>;
  /** Variables of the chat template by which a request says how much to think. */
  readonly thinkingVariables: readonly string[];
  /** Whether it reads images; undefined where the server does not say. */
  readonly readsImages?: boolean | undefined;
  /** Forms that the server leaves in the content, for the client to read. */
  readonly unread: FamilyParsers;
}

export interface ChatRequest {
  readonly messages: readonly ChatMessage[];
  /** Addresses, such as data URLs, for the places of images in `messages`, in order. Default none. */
  readonly images?: readonly string[];
  /** Function tools in OpenAI's form. Default none. */
  readonly tools?: readonly object[];
  /** Further fields of the body, such as `temperature`. */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** Whether the model is told to think; undefined leaves it to the model. */
  readonly thinking?: boolean | undefined;
  readonly signal?: AbortSignal;
}

export interface ChatUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Prompt tokens that the server's cache had; undefined where it does not tell. */
  readonly cachedTokens: number | undefined;
}

/** What one event of a stream adds to the answer. */
export interface ChatPiece {
  readonly requestId: string;
  readonly events: readonly MessageEvent[];
  /** Up to here; undefined where the event does not tell. */
  readonly usage: ChatUsage | undefined;
  /** Of the piece that ends the answer: "stop", "length", "tool_calls" or "abort". */
  readonly finish: string | null;
}
