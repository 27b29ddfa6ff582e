/**
 * Reads a pattern or a grammar from left to right.
 *
 * @module
 */

import { GrammarError } from "./grammar_error.ts";

/** UTF-16 units of a pattern or a grammar. */
export const MAX_LENGTH = 2 ** 18;
/** Largest bound of a repetition that a client can ask for. */
export const MAX_REPETITIONS = 1_000_000;

/** A place in a text. */
export class TextScanner {
  readonly source: string;
  /** UTF-16 units before the place. */
  position = 0;

  /** @throws {GrammarError} when it is too long. */
  constructor(source: string) {
    if (source.length > MAX_LENGTH) {
      throw new GrammarError(`Cannot read the pattern or grammar: it is longer than ${MAX_LENGTH}`);
    }
    this.source = source;
  }

  get atEnd(): boolean {
    return this.position >= this.source.length;
  }

  /** The character here, "" at the end. */
  peek(): string {
    const point = this.source.codePointAt(this.position);
    return point === undefined ? "" : String.fromCodePoint(point);
  }

  /** The character here, and goes on behind it. */
  next(): string {
    const character = this.peek();
    this.position += character.length;
    return character;
  }

  /** Whether the text stands here. */
  sees(text: string): boolean {
    return this.source.startsWith(text, this.position);
  }

  /** Goes on behind the text if it stands here. */
  skip(text: string): boolean {
    const found = this.sees(text);
    if (found) this.position += text.length;
    return found;
  }

  /** Goes on behind what a sticky expression matches here. */
  match(sticky: RegExp): RegExpExecArray | undefined {
    sticky.lastIndex = this.position;
    const match = sticky.exec(this.source);
    if (match === null) return undefined;
    this.position += match[0].length;
    return match;
  }

  /** What was read from a place on. */
  since(position: number): string {
    return this.source.slice(position, this.position);
  }
}
