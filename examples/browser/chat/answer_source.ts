/**
 * What answers the chat: an engine of this page, or a server.
 *
 * @module
 */
import type { ChatMessage, MessageEvent, ModelDescription } from "wisp-llm";
import type { Explanation } from "../model/explain_error.ts";
import type { Settings } from "./settings.ts";
import type { Tool } from "./tools.ts";

export type AnsweringModel = Pick<
  ModelDescription,
  "path" | "defaults" | "thinkingVariables" | "readsImages"
>;

export interface RoundRequest {
  readonly messages: readonly ChatMessage[];
  /** Data URLs of PNG files, for the places of images in `messages`, in order. */
  readonly images: readonly string[];
  readonly settings: Settings;
  /** None for answers without tools. */
  readonly tools: readonly Tool[];
  readonly signal: AbortSignal;
}

/** How far a round has come. */
export interface RoundProgress {
  readonly requestId: string;
  readonly promptTokens: number;
  /** Undefined where the source does not tell. */
  readonly cachedTokens: number | undefined;
  /** So far. */
  readonly completionTokens: number;
}

export interface RoundPiece extends RoundProgress {
  readonly events: readonly MessageEvent[];
  /** Of the last piece: why the round has ended. */
  readonly finish: "stop" | "length" | "abort" | null;
}

export interface AnswerSource {
  readonly model: AnsweringModel;
  /** The model's next message, as it comes; it may call tools. */
  round(request: RoundRequest): AsyncIterable<RoundPiece>;
  /** What the visitor can do about an error of a round. */
  explain(error: unknown): Explanation;
}
