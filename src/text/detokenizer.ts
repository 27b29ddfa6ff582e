/**
 * Token ids of one growing sequence -> text, as it grows.
 *
 * Text comes out in whole characters: bytes that may still become one wait for the next token, and
 * U+FFFD appears only for bytes that no continuation could save.
 *
 * @module
 */

import type { Vocabulary } from "./vocabulary.ts";

export interface DetokenizerOptions {
  /** Default false. */
  readonly skipSpecialTokens?: boolean;
  /** Special tokens that are shown all the same. Default none. */
  readonly shownSpecialTokens?: readonly string[];
  /** Drops one space at the very start: for whole texts, not for completions. Default false. */
  readonly stripLeadingSpace?: boolean;
}

/** State of one sequence. Sequences must not share one: their partial characters would mix. */
export class Detokenizer {
  readonly #vocabulary: Vocabulary;
  readonly #skipSpecialTokens: boolean;
  readonly #shown: ReadonlySet<number | undefined>;
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #stripLeadingSpace: boolean;

  constructor(vocabulary: Vocabulary, options: DetokenizerOptions = {}) {
    this.#vocabulary = vocabulary;
    this.#skipSpecialTokens = options.skipSpecialTokens ?? false;
    this.#shown = new Set(options.shownSpecialTokens?.map((content) => vocabulary.id(content)));
    this.#stripLeadingSpace = options.stripLeadingSpace ?? false;
  }

  /**
   * Takes further tokens; a special token ends an unfinished character before it, shown or not.
   *
   * @returns The text that has become certain, often empty.
   */
  push(ids: Iterable<number>): string {
    let text = "";
    for (const id of ids) {
      if (this.#vocabulary.isSpecial(id)) {
        text += this.#decoder.decode();
        if (this.#skipSpecialTokens && !this.#shown.has(id)) continue;
      }
      text += this.#decoder.decode(this.#vocabulary.bytes(id), { stream: true });
    }
    return this.#strip(text);
  }

  /** Ends the sequence: an unfinished character becomes U+FFFD. */
  flush(): string {
    return this.#strip(this.#decoder.decode());
  }

  #strip(text: string): string {
    if (!this.#stripLeadingSpace || text === "") return text;
    this.#stripLeadingSpace = false;
    return text.startsWith(" ") ? text.slice(1) : text;
  }
}
