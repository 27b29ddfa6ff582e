/**
 * Keeps one growing sequence inside a grammar.
 *
 * @module
 */

import type { Configuration } from "./automaton/configurations.ts";
import { MARK_BYTE } from "./constraints/marks.ts";
import type { DistinctMasks } from "./distinct/distinct_masks.ts";
import type { Position, Positions } from "./distinct/positions.ts";
import type { GrammarVocabulary } from "./masks/grammar_vocabulary.ts";
import type { TokenMasks } from "./masks/token_masks.ts";

/** Bytes that `forcedText` looks ahead. */
const MAX_FORCED = 4096;

export interface MatcherParts {
  readonly positions: Positions;
  readonly masks: TokenMasks;
  readonly distinct: DistinctMasks;
  readonly vocabulary: GrammarVocabulary;
}

/** State of one sequence. Its work is shared with all other sequences of the same grammar. */
export class GrammarMatcher {
  readonly #parts: MatcherParts;
  /** Where the text stood before each token, and where it stands now. */
  readonly #path: Position[];
  /** Whether the last token was an end token. */
  #finished = false;
  /** A mask in the making, for `prepareMask`. */
  #making: Generator<void, Uint32Array, void> | undefined;
  /** The mask where items must differ: it is this text's alone. */
  #own: Uint32Array | undefined;

  /** @param path For `fork`. */
  constructor(parts: MatcherParts, path?: readonly Position[]) {
    this.#parts = parts;
    this.#path = path === undefined ? [parts.positions.start] : [...path];
  }

  /** Whether the text so far is complete; more may still be allowed to follow. */
  get isAccepting(): boolean {
    return this.#here.accepting;
  }

  /** Whether an end token was accepted. Nothing may follow. */
  get isFinished(): boolean {
    return this.#finished;
  }

  /** Whether the text is complete and nothing but an end token may follow. */
  get mustEnd(): boolean {
    return this.isAccepting && this.#here.threads.length === 0;
  }

  /** Tokens accepted and not rolled back. */
  get length(): number {
    return this.#path.length - 1 + (this.#finished ? 1 : 0);
  }

  /**
   * Takes the next token of the sequence.
   *
   * @returns false when the grammar does not allow it; then nothing has changed.
   * @throws {GrammarError} when following it is beyond a limit; then nothing has changed either.
   */
  accept(token: number): boolean {
    if (this.#finished) return false;
    const { positions, vocabulary } = this.#parts;
    if (vocabulary.isEnd(token)) {
      this.#finished = this.isAccepting;
      return this.#finished;
    }
    const bytes = vocabulary.bytes(token);
    if (bytes === undefined) return false;
    positions.configurations.begin();
    const next = positions.follow(this.#position, bytes);
    if (next === null || !positions.canDiffer(next)) return false;
    this.#path.push({ ...next, memory: next.memory?.settled() });
    this.#move();
    return true;
  }

  /**
   * Writes which tokens may come next: bit `t % 32` of word `t / 32`. Behind an end token there is
   * none.
   *
   * @param words As many as the vocabulary says; all are written.
   * @throws {GrammarError} when finding out is beyond a limit.
   */
  mask(words: Uint32Array): void {
    this.prepareMask();
    if (this.#finished) words.fill(0);
    else words.set(this.#known()!);
  }

  /**
   * Works on the mask for a while.
   *
   * @param until When to stop, in milliseconds of `performance.now()`. Default never.
   * @returns Whether `mask` has nothing left to do but to copy.
   */
  prepareMask(until = Number.POSITIVE_INFINITY): boolean {
    if (this.#finished || this.#known() !== undefined) return true;
    let making = this.#making;
    // Left out while it runs, so that one that throws is not gone on with.
    this.#making = undefined;
    if (making === undefined) {
      this.#parts.positions.configurations.begin();
      making = this.#make();
    }
    while (making.next().done !== true) {
      if (performance.now() < until) continue;
      this.#making = making;
      return false;
    }
    return true;
  }

  /**
   * Takes back the last tokens.
   *
   * @param count At most `length`.
   */
  rollback(count: number): void {
    if (!Number.isInteger(count) || count < 0 || count > this.length) {
      throw new RangeError(`Cannot take back ${count} tokens: ${this.length} were accepted`);
    }
    if (count === 0) return;
    const steps = this.#finished ? count - 1 : count;
    this.#finished = false;
    this.#path.length -= steps;
    this.#move();
  }

  /** A second sequence that stands where this one does. */
  fork(): GrammarMatcher {
    const copy = new GrammarMatcher(this.#parts, this.#path);
    copy.#finished = this.#finished;
    return copy;
  }

  /** A sequence that begins where this one stands, and so cannot take back what came before. */
  branch(): GrammarMatcher {
    return new GrammarMatcher(this.#parts, [this.#position]);
  }

  /** The same object for all sequences of the grammar that stand in one place of it. */
  get place(): object {
    return this.#here;
  }

  /**
   * The text that must follow, up to the first choice, in whole characters. It may be spelled by
   * other tokens than the model would choose.
   */
  forcedText(): string {
    const { positions } = this.#parts;
    const { configurations } = positions;
    const bytes: number[] = [];
    if (this.#finished) return "";
    configurations.begin();
    let at = this.#position;
    // Where items must differ, what a grammar alone forces may be what the list has already.
    while (!at.configuration.accepting && at.memory === undefined && bytes.length < MAX_FORCED) {
      const byte = configurations.onlyByte(at.configuration);
      const next = byte === undefined || byte === MARK_BYTE ? null : positions.step(at, byte);
      if (next === null) break;
      bytes.push(byte!);
      at = next;
    }
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes), {
      stream: true,
    });
  }

  get #position(): Position {
    return this.#path.at(-1)!;
  }

  get #here(): Configuration {
    return this.#position.configuration;
  }

  #move(): void {
    this.#making = undefined;
    this.#own = undefined;
  }

  #known(): Uint32Array | undefined {
    return this.#parts.positions.hasLists ? this.#own : this.#parts.masks.known(this.#here);
  }

  *#make(): Generator<void, Uint32Array, void> {
    const { positions, masks, distinct } = this.#parts;
    const shared = masks.known(this.#here) ?? (yield* masks.make(this.#here));
    if (!positions.hasLists) return shared;
    const own = shared.slice();
    yield* distinct.refine(this.#position, own);
    this.#own = own;
    return own;
  }
}
