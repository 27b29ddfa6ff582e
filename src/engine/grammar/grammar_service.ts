/**
 * Where grammars are compiled and followed: tokens in, what may come next out.
 *
 * A port, so that the work can be done in another thread. What is known already comes at once,
 * anything else as a promise; the engine goes on with other requests until then.
 *
 * @module
 */
import type { GrammarCompilation } from "../../constraint.ts";
import type { Constraint } from "../../grammar/grammar.ts";
import type { TokenSource } from "../../grammar/masks/grammar_vocabulary.ts";
import type { JsonSchemaOptions } from "../../grammar/schema/json_schema.ts";

/** What may follow the tokens so far. */
export interface NextTokens {
  /** Bit `t % 32` of word `t / 32` says whether token t may come. Not to be changed. */
  readonly mask: Uint32Array;
  /** Whether the text is complete and nothing but an end token may follow. */
  readonly mustEnd: boolean;
  /** Text that must follow, in whole characters; often empty, as where a session looks at nothing ahead. */
  readonly forcedText: string;
  /** Tokens that come next as each is the only one that may; no end token. Default none. */
  readonly forcedTokens?: readonly number[];
  /**
   * Masks behind those of the drafts that were asked about that are allowed, and whose masks are found
   * without much work. Default none.
   */
  readonly draftMasks?: readonly Uint32Array[];
  /** The numbers of these drafts, ascending. */
  readonly allowedDrafts?: readonly number[];
}

/** One sequence on its way through a grammar. */
export interface GrammarSession {
  /** How its grammar was come by. */
  readonly compilation: GrammarCompilation;
  /**
   * Takes the next tokens; at the beginning none. Not to be called before the last call's promise
   * has settled.
   *
   * @param drafts Tokens that may follow, which are not taken. Default none.
   * @param parents Of each draft the node that it follows (`DraftNodes` of src/speculation). Default:
   * they follow each other.
   * @throws {GrammarError} when one is not allowed, or following them is beyond a limit; so does the
   * promise reject.
   * @throws {CapacityError} when the grammars of all sessions take too much memory.
   */
  advance(
    tokens: readonly number[],
    drafts?: readonly number[],
    parents?: readonly number[],
  ): NextTokens | Promise<NextTokens>;
  /** Forgets the sequence; nothing may be asked any more. What is still unknown is given up. */
  close(): void;
}

export interface SessionOptions {
  /** Whether what must follow is looked for, text and tokens. Default true. */
  readonly looksAhead?: boolean | undefined;
}

export interface GrammarService {
  /**
   * A session at the beginning of a text.
   *
   * @param signal Gives the session up that is not open yet; the promise then rejects.
   * @throws {GrammarError} (as a rejection) when the constraint is malformed, not supported, or
   * cannot be enforced exactly.
   * @throws {CapacityError} (as a rejection) when the grammars of all sessions take too much memory.
   */
  open(
    constraint: Constraint,
    signal?: AbortSignal,
    options?: SessionOptions,
  ): Promise<GrammarSession>;
  /** Frees what the service holds; nothing may be asked any more. */
  close(): void;
}

/** What a service has to know of a model. */
export interface GrammarModel {
  readonly tokens: TokenSource;
  /** Tokens that may come exactly where a text may end. */
  readonly endTokens: readonly number[];
  /** Tokens that the model gives logits for. */
  readonly vocabularySize: number;
  /** How JSON is spelled and schemas are read. */
  readonly json?: JsonSchemaOptions | undefined;
}

export type CreateGrammarService = (model: GrammarModel) => GrammarService;
