/**
 * What a grammar service in another thread is asked, and what it answers: plain data.
 *
 * @module
 */
import type { GrammarCompilation } from "../../constraint.ts";
import type { Constraint } from "../../grammar/grammar.ts";
import type { FlatTokens } from "../../grammar/masks/flat_tokens.ts";
import type { ErrorData } from "../remote/error_data.ts";
import type { GrammarModel, NextTokens, SessionOptions } from "./grammar_service.ts";

/** `GrammarModel` in flat arrays. */
export interface FlatGrammarModel extends Omit<GrammarModel, "tokens"> {
  readonly tokens: FlatTokens;
}

export interface OpenQuestion {
  readonly type: "open";
  /** Names the session from now on. */
  readonly session: number;
  readonly constraint: Constraint;
  readonly options?: SessionOptions | undefined;
}

export interface AdvanceQuestion {
  readonly type: "advance";
  readonly session: number;
  readonly tokens: readonly number[];
  readonly drafts?: readonly number[] | undefined;
  readonly parents?: readonly number[] | undefined;
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
