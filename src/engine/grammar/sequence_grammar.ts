/**
 * The grammar that a sequence's text must match: which tokens may come next, as soon as that is
 * known.
 *
 * What must follow is not left to the model. A token that is the only one that may come is taken
 * without a step: the model could draw no other one. Where a caller wants more (`retokenize`), so is
 * text that must follow, in the tokens that the tokenizer writes it with, if it writes what is there
 * already as it stands; the model might have spelled it by others.
 *
 * @module
 */

import type { GrammarCompilation, JsonJump } from "../../constraint.ts";
import type { Constraint } from "../../grammar/grammar.ts";
import { GrammarError } from "../../grammar/grammar_error.ts";
import { chainParents, keepNodes } from "../../speculation/draft_nodes.ts";
import type { GrammarService, GrammarSession, NextTokens } from "./grammar_service.ts";
import { isEmpty, onlyToken } from "./mask_bits.ts";

/** Completion tokens that forced text is spelled together with. */
export const SPELLED_TOGETHER = 8;

export interface Spelling {
  /** At once where it takes no other thread. */
  encode(text: string): readonly number[] | Promise<readonly number[]>;
  decode(tokens: readonly number[]): string;
  /** Whether a token is a mark for the model, not text. */
  isSpecial(token: number): boolean;
}

export interface SequenceGrammarOptions {
  /** Tokens whose bits a mask has; a service may know of more. */
  readonly vocabularySize: number;
  /** What is taken without a step. Default nothing. */
  readonly jump?: JsonJump | undefined;
  /** Spells text as tokens, and back, for "retokenize". */
  readonly spelling?: Spelling | undefined;
  /** Called when more is known, unless `advance` has returned it. */
  readonly onKnown: () => void;
}

/** What follows from the tokens that a grammar was told. */
export interface GrammarState {
  /** Tokens that come next without a step. */
  readonly forced: readonly number[];
  /** Nothing but an end token may follow. */
  readonly mustEnd: boolean;
  /** The only end token that may, where it may be taken without a step. */
  readonly endToken?: number | undefined;
  /** The numbers of drafts that the grammar allows, and behind which it knows what may come. */
  readonly drafts: readonly number[];
}

export interface Advance {
  /** Tokens that may follow, to be verified in one step, and the nodes that they follow. */
  readonly drafts: readonly number[];
  /** Default: they follow each other. */
  readonly parents?: readonly number[] | undefined;
  /** All completion tokens so far, or the last of them. */
  readonly completion: readonly number[];
  /** Called at once, or later and then before `onKnown`. */
  readonly take: (state: GrammarState) => void;
  /** Called instead of it with what went wrong. */
  readonly fail: (error: unknown) => void;
}

export class SequenceGrammar {
  readonly #options: SequenceGrammarOptions;
  #session: GrammarSession | undefined;
  #compilation: GrammarCompilation | undefined;
  /** Which tokens may come next, and behind each draft. Empty while that is not known. */
  #masks: readonly Uint32Array[] = [];
  readonly #leaving = new AbortController();

  constructor(options: SequenceGrammarOptions) {
    this.#options = options;
  }

  /** Which tokens may come next; undefined while that is not known. */
  get mask(): Uint32Array | undefined {
    return this.#masks[0];
  }

  /** Which tokens may come behind a node of the drafts that are kept. */
  maskBehind(node: number): Uint32Array | undefined {
    return this.#masks[node];
  }

  get #isClosed(): boolean {
    return this.#leaving.signal.aborted;
  }

  /** How the constraint was compiled, once it is. */
  get compilation(): GrammarCompilation | undefined {
    return this.#compilation;
  }

  /**
   * Compiles the constraint.
   *
   * @throws {GrammarError | CapacityError} as a rejection.
   */
  async open(service: GrammarService, constraint: Constraint): Promise<void> {
    const options = { looksAhead: this.#jumps };
    const opening = service.open(constraint, this.#leaving.signal, options);
    const session = await opening.catch((error: unknown) => {
      if (this.#isClosed) return undefined;
      throw error;
    });
    if (session === undefined) return;
    this.#compilation = session.compilation;
    if (this.#isClosed) session.close();
    else this.#session = session;
  }

  /** Tells the grammar the sequence's next tokens; at the beginning none. */
  advance(tokens: readonly number[], { drafts, parents, completion, take, fail }: Advance): void {
    this.#masks = [];
    const words = Math.ceil(this.#options.vocabularySize / 32);
    const accept = (next: NextTokens, forced: readonly number[]) => {
      if (this.#isClosed) return;
      const { draftMasks = [], allowedDrafts = [] } = next;
      const mask = next.mask.subarray(0, words);
      if (!next.mustEnd && isEmpty(mask)) {
        fail(new GrammarError("Cannot go on: no token of the vocabulary spells what must follow"));
        return;
      }
      const known = new Map(allowedDrafts.map((draft, i) => [draft, draftMasks[i]!]));
      // Where no token may follow a draft, the sequence ends with it or fails; no row samples that.
      const nodes = { tokens: drafts, parents: parents ?? chainParents(drafts.length) };
      const { kept } = keepNodes(nodes, (draft) => {
        const own = known.get(draft)?.subarray(0, words);
        return own !== undefined && !isEmpty(own);
      });
      this.#masks = [mask, ...kept.map((draft) => known.get(draft)!.subarray(0, words))];
      const endToken = next.mustEnd && this.#jumps ? onlyToken(mask) : undefined;
      take({ forced, mustEnd: next.mustEnd, endToken, drafts: kept });
    };
    const spell = (next: NextTokens): Promise<void> | undefined => {
      const forced = this.#spell(completion, next);
      if (forced instanceof Promise) return forced.then((spelled) => accept(next, spelled));
      accept(next, forced);
      return undefined;
    };
    try {
      const next = this.#session!.advance(tokens, drafts, parents);
      const accepted = next instanceof Promise ? next.then(spell) : spell(next);
      if (!(accepted instanceof Promise)) return;
      accepted
        .catch((error: unknown) => this.#isClosed || fail(error))
        .finally(this.#options.onKnown);
    } catch (error) {
      fail(error);
    }
  }

  get #jumps(): boolean {
    const { jump = "off" } = this.#options;
    return jump !== "off";
  }

  close(): void {
    this.#leaving.abort();
    this.#masks = [];
    this.#session?.close();
    this.#session = undefined;
  }

  /** Tokens that are taken without a step. */
  #spell(
    completion: readonly number[],
    { forcedText, forcedTokens = [] }: NextTokens,
  ): readonly number[] | Promise<readonly number[]> {
    const { jump, spelling, vocabularySize } = this.#options;
    if (this.#isClosed || !this.#jumps) return [];
    // A service may know of tokens that the model has no logits for.
    const unknown = forcedTokens.findIndex((token) => token >= vocabularySize);
    const forced = unknown < 0 ? forcedTokens : forcedTokens.slice(0, unknown);
    if (jump !== "retokenize" || spelling === undefined || forcedText === "") return forced;
    const spelled = respell(completion.slice(-SPELLED_TOGETHER), forcedText, spelling);
    const longer = (tokens: readonly number[]) => (tokens.length > 0 ? tokens : forced);
    return spelled instanceof Promise ? spelled.then(longer) : longer(spelled);
  }
}

/** Tokens of the forced text but its last one, which may be joined with what comes behind it. */
function respell(
  before: readonly number[],
  forcedText: string,
  spelling: Spelling,
): readonly number[] | Promise<readonly number[]> {
  const behind = (tokens: readonly number[]): readonly number[] => {
    if (before.some((token, i) => tokens[i] !== token)) return [];
    const forced = tokens.slice(before.length, -1);
    return forced.some((token) => spelling.isSpecial(token)) ? [] : forced;
  };
  const tokens = spelling.encode(spelling.decode(before) + forcedText);
  return tokens instanceof Promise ? tokens.then(behind) : behind(tokens);
}
