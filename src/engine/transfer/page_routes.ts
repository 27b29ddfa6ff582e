/**
 * What an engine says to those who carry pages of a prompt to another engine, or from one.
 *
 * @module
 */
import type { Contents } from "../../cache/prefix_block.ts";
import type { PromptEmbeddings } from "../prompt_embeddings.ts";

/** A prompt of which pages travel. */
export interface TravellingPrompt {
  /** As every process knows them: a placeholder's where the row of an image stands. */
  readonly tokens: readonly number[];
  /** What stands in place of tokens. Default nothing. */
  readonly contents?: Contents | undefined;
  /** Tokens that a page holds. */
  readonly pageSize: number;
  /** Pages of all tokens but the last, which is computed where the answer is. */
  readonly pageCount: number;
}

/** Neighbouring pages of a prompt. */
export interface PageRun {
  /** Which page of the prompt the first one is. */
  readonly first: number;
  readonly count: number;
  /** As the page codec has them. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Takes the pages of a prompt as they are computed. */
export interface PageTaker {
  /** Nothing more is taken. */
  readonly signal: AbortSignal;
  /**
   * Tells the prompt, before anything of it is computed.
   *
   * @returns Which page is the first that is wanted; one behind the last where none is.
   * @throws when no engine takes them: the request ends with that.
   */
  begin(prompt: TravellingPrompt): Promise<number>;
  /** Resolves once more are taken. @throws when no more are: the request ends with that. */
  take(pages: PageRun): Promise<void>;
  /** All are taken. `cachedTokens` are those that were in the cache. */
  end(cachedTokens: number): void;
  /** What is left of them never comes. */
  fail(error: unknown): void;
}

/** Gives the pages of a prompt that another engine computes. */
export interface PageSource {
  /** Tells the prompt, before there is a place for it. */
  announce(prompt: TravellingPrompt): void;
  /** Pages from `first` on, in order; the next is asked for when the last one is in place. */
  pages(first: number): AsyncIterable<PageRun>;
  /** Nothing more is asked for, whether all pages came or not: what is waited for ends. */
  leave(): void;
}

/** Pages that the tokens before the last one of a prompt are on. */
export function travellingPrompt(
  {
    tokens: own,
    embeddings,
  }: { readonly tokens: readonly number[]; readonly embeddings?: PromptEmbeddings | undefined },
  pageSize: number,
): TravellingPrompt {
  const { tokens, contents } = embeddings?.travelling ?? { tokens: own, contents: undefined };
  return { tokens, contents, pageSize, pageCount: Math.ceil((tokens.length - 1) / pageSize) };
}

/** Where the pages of a request's prompt go, or come from. */
export interface PageRoutes {
  /** Takes them; the request then ends with its first token. Default: they stay. */
  readonly pageTaker?: PageTaker | undefined;
  /** Gives them. Default: they are computed here. */
  readonly pageSource?: PageSource | undefined;
}
