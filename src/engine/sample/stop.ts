/**
 * Stop strings in a growing text: nothing that might still become part of one is let out.
 *
 * @module
 */

export class StopStrings {
  readonly #stops: readonly string[];
  readonly #keep: boolean;
  /** Text that is not out yet: a suffix that begins some stop string. */
  #held = "";
  /** The stop string that was found. */
  matched: string | undefined;

  /** @param keep Leaves the stop string itself in the text. */
  constructor(stops: readonly string[], keep = false) {
    this.#stops = stops;
    this.#keep = keep;
  }

  /**
   * Adds text and returns what is safe to show. Once a stop string is complete, `matched` is set
   * and the text from its first character on (or behind it, where it is kept) is dropped. The one complete first wins, whatever the
   * pieces the text comes in; of two that end together, the one listed first.
   */
  push(text: string): string {
    if (this.#stops.length === 0 || this.matched !== undefined) return text;
    const whole = this.#held + text;
    let end = Number.POSITIVE_INFINITY;
    for (const stop of this.#stops) {
      const at = whole.indexOf(stop);
      if (at < 0 || at + stop.length >= end) continue;
      end = at + stop.length;
      this.matched = stop;
    }
    if (this.matched !== undefined) {
      this.#held = "";
      return whole.slice(0, this.#keep ? end : end - this.matched.length);
    }
    const safe = whole.length - this.#heldLength(whole);
    this.#held = whole.slice(safe);
    return whole.slice(0, safe);
  }

  /** What was held back, when no more text comes. */
  flush(): string {
    const held = this.#held;
    this.#held = "";
    return held;
  }

  /** Length of the longest suffix that is a proper prefix of a stop string. */
  #heldLength(text: string): number {
    let longest = 0;
    for (const stop of this.#stops) {
      for (let length = Math.min(stop.length - 1, text.length); length > longest; length--) {
        if (text.endsWith(stop.slice(0, length))) longest = length;
      }
    }
    return longest;
  }
}
