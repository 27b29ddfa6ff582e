/**
 * Grammars followed in the engine's own thread, in short slices of time.
 *
 * @module
 */
import type { GrammarCompilation } from "../../constraint.ts";
import { frontEnds } from "../../grammar/constraints/backends.ts";
import { type CompiledGrammar, type Constraint, GrammarCompiler } from "../../grammar/grammar.ts";
import { GrammarError } from "../../grammar/grammar_error.ts";
import { GrammarVocabulary } from "../../grammar/masks/grammar_vocabulary.ts";
import type { GrammarMatcher } from "../../grammar/matcher.ts";
import { chainParents, type DraftNodes, keepNodes, pathTo } from "../../speculation/draft_nodes.ts";
import { GrammarMemory, MAX_HELD_BYTES } from "./grammar_memory.ts";
import type {
  GrammarModel,
  GrammarService,
  GrammarSession,
  NextTokens,
  SessionOptions,
} from "./grammar_service.ts";
import { Lookout } from "./lookout.ts";
import { onlyToken } from "./mask_bits.ts";

/** Milliseconds of work before other work of the thread gets a turn. */
export const SLICE_MS = 2;

export interface LocalGrammarOptions {
  /**
   * Resolves when other work of this thread had a turn. Default: timers, sockets and the GPU's
   * answers.
   */
  readonly othersTurn?: (() => Promise<void>) | undefined;
  /** Bytes of the grammars that sessions hold together. Default 512 MiB. */
  readonly maxHeldBytes?: number | undefined;
  /** Whether masks are made before they are asked for. Default: not, as the thread has other work. */
  readonly foresees?: boolean | undefined;
}

const timersTurn = () => new Promise<void>((resolve) => setTimeout(resolve));

export class LocalGrammarService implements GrammarService {
  readonly #createCompiler: () => GrammarCompiler;
  readonly #othersTurn: () => Promise<void>;
  readonly #memory: GrammarMemory;
  #compiler: GrammarCompiler | undefined;
  /** Grammars that there is a session of, or was. */
  readonly #known = new WeakSet<CompiledGrammar>();
  readonly #lookout: Lookout | undefined;

  /** @param createCompiler Called for the first constraint: preparing a vocabulary takes a while. */
  constructor(
    createCompiler: () => GrammarCompiler,
    {
      othersTurn = timersTurn,
      maxHeldBytes = MAX_HELD_BYTES,
      foresees = false,
    }: LocalGrammarOptions = {},
  ) {
    this.#lookout = foresees ? new Lookout(othersTurn) : undefined;
    this.#createCompiler = createCompiler;
    this.#othersTurn = othersTurn;
    this.#memory = new GrammarMemory(maxHeldBytes);
  }

  async open(
    constraint: Constraint,
    _signal?: AbortSignal,
    { looksAhead = true }: SessionOptions = {},
  ): Promise<GrammarSession> {
    const startedAt = performance.now();
    this.#compiler ??= this.#createCompiler();
    const grammar = this.#compiler.compile(constraint);
    const matcher = grammar.createMatcher();
    this.#memory.hold(grammar);
    const isCached = this.#known.has(grammar);
    this.#known.add(grammar);
    return new LocalGrammarSession(matcher, {
      leave: () => this.#memory.leave(grammar),
      checkMemory: () => this.#memory.check(),
      compilation: {
        isCached,
        seconds: (performance.now() - startedAt) / 1000,
        ...(grammar.warnings.length > 0 && { warnings: grammar.warnings }),
      },
      words: this.#compiler.words,
      othersTurn: this.#othersTurn,
      lookout: this.#lookout,
      looksAhead,
    });
  }

  close(): void {
    this.#compiler = undefined;
    this.#lookout?.close();
  }
}

interface LocalSessionOptions {
  /** Gives the grammar back. */
  readonly leave: () => void;
  /** Throws when grammars have grown beyond their memory. */
  readonly checkMemory: () => void;
  readonly othersTurn: () => Promise<void>;
  readonly compilation: GrammarCompilation;
  /** 32-bit words of a mask. */
  readonly words: number;
  readonly lookout: Lookout | undefined;
  readonly looksAhead: boolean;
}

class LocalGrammarSession implements GrammarSession {
  readonly compilation: GrammarCompilation;
  readonly #matcher: GrammarMatcher;
  readonly #options: LocalSessionOptions;
  #isClosed = false;

  constructor(matcher: GrammarMatcher, options: LocalSessionOptions) {
    this.#matcher = matcher;
    this.#options = options;
    this.compilation = options.compilation;
  }

  advance(
    tokens: readonly number[],
    drafts: readonly number[] = [],
    parents: readonly number[] = chainParents(drafts.length),
  ): NextTokens | Promise<NextTokens> {
    this.#options.checkMemory();
    this.#options.lookout?.leave(this);
    for (const token of tokens) {
      if (this.#matcher.accept(token)) continue;
      throw new GrammarError(`Cannot go on: the grammar does not allow token ${token} here`);
    }
    const isReady = this.#matcher.prepareMask(performance.now() + SLICE_MS);
    const nodes = { tokens: drafts, parents };
    return isReady ? this.#next(nodes) : this.#prepare(nodes);
  }

  async #prepare(drafts: DraftNodes): Promise<NextTokens> {
    do {
      await this.#options.othersTurn();
      if (this.#isClosed) throw new Error("Cannot go on: the sequence has left");
    } while (!this.#matcher.prepareMask(performance.now() + SLICE_MS));
    return this.#next(drafts);
  }

  #next(drafts: DraftNodes): NextTokens {
    const mask = this.#mask();
    const { mustEnd } = this.#matcher;
    const next = { mask, mustEnd, ...this.#forced(mask) };
    if (!mustEnd) this.#options.lookout?.watch(this, this.#matcher, this.#options.words);
    return drafts.tokens.length === 0 ? next : { ...next, ...this.#draftMasks(drafts) };
  }

  #forced(mask: Uint32Array): Pick<NextTokens, "forcedText" | "forcedTokens"> {
    if (!this.#options.looksAhead) return { forcedText: "" };
    const forcedText = this.#ahead(() => this.#matcher.forcedText()) ?? "";
    const forcedTokens: number[] = [];
    this.#ahead(() => this.#addForced(mask, forcedTokens));
    return { forcedText, ...(forcedTokens.length > 0 && { forcedTokens }) };
  }

  /** In one slice, from where the mask is known: what takes longer is asked again from further on. */
  #addForced(mask: Uint32Array, forced: number[]): void {
    const until = performance.now() + SLICE_MS;
    let here = mask;
    for (;;) {
      const token = onlyToken(here);
      if (token === undefined || forced.length === FORCED_AT_ONCE) return;
      if (!this.#matcher.accept(token) || this.#matcher.isFinished) return;
      forced.push(token);
      if (!this.#matcher.prepareMask(until)) return;
      here = this.#mask();
    }
  }

  /** Looks at what may come: what leads beyond a limit is not the text yet, which may end before it. */
  #ahead<T>(look: () => T): T | undefined {
    const { length } = this.#matcher;
    try {
      return look();
    } catch (error) {
      if (!(error instanceof GrammarError)) throw error;
      return undefined;
    } finally {
      this.#matcher.rollback(this.#matcher.length - length);
    }
  }

  #mask(): Uint32Array {
    const mask = new Uint32Array(this.#options.words);
    this.#matcher.mask(mask);
    return mask;
  }

  /** In one slice: masks that take longer are not worth waiting for. */
  #draftMasks(drafts: DraftNodes): Required<Pick<NextTokens, "draftMasks" | "allowedDrafts">> {
    const until = performance.now() + SLICE_MS;
    const { length } = this.#matcher;
    const draftMasks: Uint32Array[] = [];
    /** Nodes whose tokens the matcher has accepted, from node 0 on. */
    let path = [0];
    try {
      const { kept } = keepNodes(drafts, (draft) => {
        const parent = drafts.parents[draft]!;
        const common = path.indexOf(parent);
        const own = common < 0 ? pathTo(drafts.parents, parent) : path.slice(0, common + 1);
        this.#follow(drafts, path, own);
        path = own;
        if (!this.#tries(drafts.tokens[draft]!)) return false;
        path = [...own, draft + 1];
        if (!this.#isReady(until)) return false;
        draftMasks.push(this.#mask());
        return true;
      });
      return { draftMasks, allowedDrafts: kept };
    } finally {
      this.#matcher.rollback(this.#matcher.length - length);
    }
  }

  /** Leads the matcher from one path of drafts, all of which it has accepted, to another. */
  #follow(drafts: DraftNodes, from: readonly number[], to: readonly number[]): void {
    let common = 0;
    while (common < from.length && from[common] === to[common]) common += 1;
    this.#matcher.rollback(from.length - common);
    for (const node of to.slice(common)) this.#matcher.accept(drafts.tokens[node - 1]!);
  }

  /** Whether the grammar takes a draft: one that leads beyond a limit is not the text yet. */
  #tries(token: number): boolean {
    const { length } = this.#matcher;
    try {
      return this.#matcher.accept(token);
    } catch (error) {
      if (!(error instanceof GrammarError)) throw error;
      this.#matcher.rollback(this.#matcher.length - length);
      return false;
    }
  }

  /** Whether the mask behind a draft is known in time: one that is beyond a limit never is. */
  #isReady(until: number): boolean {
    try {
      return this.#matcher.prepareMask(until);
    } catch (error) {
      if (!(error instanceof GrammarError)) throw error;
      return false;
    }
  }

  close(): void {
    if (!this.#isClosed) this.#options.leave();
    this.#options.lookout?.leave(this);
    this.#isClosed = true;
  }
}

/** Tokens that are looked ahead for; more are found from there on. */
const FORCED_AT_ONCE = 64;

/** The service of a model. */
export function localGrammarService(
  { tokens, endTokens, vocabularySize, json }: GrammarModel,
  options?: LocalGrammarOptions,
): GrammarService {
  return new LocalGrammarService(() => {
    const vocabulary = new GrammarVocabulary(tokens, { endTokens, size: vocabularySize });
    return new GrammarCompiler({ vocabulary, frontEnds: frontEnds(json) });
  }, options);
}
