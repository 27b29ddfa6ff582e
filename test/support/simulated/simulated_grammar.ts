/**
 * Grammars that are played: which tokens may come follows from those before by a number, as at once
 * or only later, and sometimes none may. Tells whether every session that was opened is closed.
 *
 * @module
 */
import type {
  GrammarService,
  GrammarSession,
  NextTokens,
} from "../../../src/engine/grammar/grammar_service.ts";
import { onlyToken } from "../../../src/engine/grammar/mask_bits.ts";
import type { SequenceGrammar } from "../../../src/engine/grammar/sequence_grammar.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { chainParents } from "../../../src/speculation/draft_nodes.ts";
import { EOS } from "../engines/sequences.ts";
import { require } from "./require.ts";

/** Of so many states one is a dead end, one lets the text end only, and a few have one token. */
const KINDS = 64;
const FORCED = 8;
/** Up to here the text may end. */
const MAY_END = 12;

const bit = (token: number) =>
  Uint32Array.of(token < 32 ? 1 << token : 0, token < 32 ? 0 : 1 << (token - 32));
const has = (mask: Uint32Array, token: number) => ((mask[token >>> 5]! >>> (token & 31)) & 1) === 1;
const scattered = (number: number) => Math.imul(number ^ (number >>> 15), 0x2c1b3c6d) >>> 0;

/** One language: its states are numbers. */
export class PlayedRules {
  readonly start: number;

  constructor(seed: number) {
    this.start = scattered(seed + 1);
  }

  after(state: number, token: number): number {
    return scattered(Math.imul(state ^ (token + 1), 16777619) >>> 0);
  }

  /** The tokens that may come, of those from 1 to 63; none at a dead end. */
  maskAt(state: number): Uint32Array {
    const kind = (state >>> 8) % KINDS;
    if (kind === 0) return new Uint32Array(2);
    if (kind === 1) return bit(EOS);
    const some = scattered(state + 7);
    if (kind < FORCED) return bit(2 + (some % 62));
    const end = kind < MAY_END ? 1 << EOS : 0;
    return Uint32Array.of((some & ~3) | end, scattered(some) | 1);
  }

  mustEndAt(state: number): boolean {
    return onlyToken(this.maskAt(state)) === EOS;
  }
}

/** All sessions. */
export class PlayedGrammars {
  readonly #waiting: (() => void)[] = [];
  /** Those that are open. */
  readonly sessions = new Set<GrammarSession>();
  opened = 0;

  /** Opens a sequence's session; it may leave before that is done. */
  begin(grammar: SequenceGrammar, rules: PlayedRules): Promise<void> {
    const service: GrammarService = {
      open: async (_constraint, signal) => {
        await this.#later();
        signal?.throwIfAborted();
        const session = new PlayedSession(rules, {
          later: () => this.#later(),
          onClose: (one) => require(this.sessions.delete(one), "a session is closed twice"),
        });
        this.sessions.add(session);
        this.opened += 1;
        return session;
      },
      close: () => {},
    };
    return grammar.open(service, { kind: "regex", source: ".*" });
  }

  /** Lets the oldest of those go on who wait. */
  answer(): void {
    this.#waiting.shift()?.();
  }

  answerAll(): void {
    while (this.#waiting.length > 0) this.answer();
  }

  #later(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

class PlayedSession implements GrammarSession {
  readonly compilation = { isCached: false, seconds: 0 };
  readonly #rules: PlayedRules;
  readonly #later: () => Promise<void>;
  readonly #onClose: (session: GrammarSession) => void;
  #state: number;

  constructor(
    rules: PlayedRules,
    given: {
      readonly later: () => Promise<void>;
      readonly onClose: (session: GrammarSession) => void;
    },
  ) {
    this.#rules = rules;
    this.#later = given.later;
    this.#onClose = given.onClose;
    this.#state = rules.start;
  }

  advance(
    tokens: readonly number[],
    drafts: readonly number[] = [],
    parents: readonly number[] = chainParents(drafts.length),
  ): NextTokens | Promise<NextTokens> {
    const rules = this.#rules;
    for (const token of tokens) {
      const isAllowed = has(rules.maskAt(this.#state), token);
      if (!isAllowed) throw new GrammarError(`Cannot go on: token ${token} is not allowed`);
      this.#state = rules.after(this.#state, token);
    }
    const state = this.#state;
    const next = nextTokens(rules, state, { drafts, parents });
    return state % 3 === 0 ? this.#later().then(() => next) : next;
  }

  close(): void {
    this.#onClose(this);
  }
}

function nextTokens(
  rules: PlayedRules,
  state: number,
  { drafts, parents }: { readonly drafts: readonly number[]; readonly parents: readonly number[] },
): NextTokens {
  const forcedTokens: number[] = [];
  let at = state;
  for (;;) {
    const only = onlyToken(rules.maskAt(at));
    if (only === undefined || only === EOS) break;
    forcedTokens.push(only);
    at = rules.after(at, only);
  }
  const states: (number | undefined)[] = [state];
  const allowedDrafts: number[] = [];
  const draftMasks: Uint32Array[] = [];
  for (const [draft, token] of drafts.entries()) {
    const above = states[parents[draft]!];
    const isAllowed = above !== undefined && token !== EOS && has(rules.maskAt(above), token);
    const behind = isAllowed ? rules.after(above, token) : undefined;
    // Some take too much work.
    const isKnown = behind !== undefined && behind % 11 !== 0;
    states.push(isKnown ? behind : undefined);
    if (!isKnown) continue;
    allowedDrafts.push(draft);
    draftMasks.push(rules.maskAt(behind));
  }
  const mask = rules.maskAt(state);
  const mustEnd = rules.mustEndAt(state);
  return { mask, mustEnd, forcedText: "", forcedTokens, allowedDrafts, draftMasks };
}
