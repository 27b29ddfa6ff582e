/**
 * White space at the end of a growing text, held back until it is known what follows.
 *
 * @module
 */

export class TrailingSpace {
  #held = "";

  /** Takes more of the text and returns what of it ends in no white space. */
  push(text: string): string {
    const shown = text.trimEnd();
    if (shown === "") {
      this.#held += text;
      return "";
    }
    const certain = this.#held + shown;
    this.#held = text.slice(shown.length);
    return certain;
  }

  /** Gives what is held back, once. */
  take(): string {
    const held = this.#held;
    this.#held = "";
    return held;
  }
}
