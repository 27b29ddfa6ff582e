/**
 * What a grammar service in another thread is asked, and what it answers: plain data.
 *
 * @module
 */
import type { GrammarCompilation } from "../generation.ts";
import type { FlatTokens } from "../grammar/flat_tokens.ts";
import type { Constraint } from "../grammar/grammar.ts";
import { GrammarError } from "../grammar/grammar_error.ts";
import type { GrammarModel, NextTokens } from "./grammar_service.ts";

/** `GrammarModel` in flat arrays. */
export interface FlatGrammarModel extends Omit<GrammarModel, "tokens"> {
  readonly tokens: FlatTokens;
}

export interface OpenQuestion {
  readonly type: "open";
  /** Names the session from now on. */
  readonly session: number;
  readonly constraint: Constraint;
}

export interface AdvanceQuestion {
  readonly type: "advance";
  readonly session: number;
  readonly tokens: readonly number[];
}

/** A session has at most one that is not answered. */
export type GrammarQuestion = OpenQuestion | AdvanceQuestion;

/** The model comes first, once. Only questions are answered. */
export type GrammarCall =
  | { readonly type: "model"; readonly model: FlatGrammarModel }
  | GrammarQuestion
  | { readonly type: "close"; readonly session: number };

export type GrammarAnswer =
  | {
      readonly type: "opened";
      readonly session: number;
      readonly compilation: GrammarCompilation;
    }
  | { readonly type: "next"; readonly session: number; readonly next: NextTokens }
  | { readonly type: "failed"; readonly session: number; readonly error: ErrorData };

/** An error, whose class would not survive the way. */
export interface ErrorData {
  readonly isGrammarError: boolean;
  readonly message: string;
  readonly position: number | undefined;
  readonly path: string | undefined;
  readonly stack: string | undefined;
}

export function errorData(error: unknown): ErrorData {
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  const isGrammarError = error instanceof GrammarError;
  const { position, path } = isGrammarError ? error : {};
  return { isGrammarError, message, position, path, stack };
}

/** The error again. One that nobody meant to be thrown keeps the stack of where it was. */
export function errorOf({ isGrammarError, message, position, path, stack }: ErrorData): Error {
  // The place is in the message already.
  if (isGrammarError) return Object.assign(new GrammarError(message), { position, path });
  const error = new Error(message);
  if (stack !== undefined) error.stack = stack;
  return error;
}
