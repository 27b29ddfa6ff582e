/**
 * Stop strings in a growing text: nothing that might still become part of one is let out.
 *
 * @module
 */
import { type StopAutomaton, stopAutomaton } from "./stop_automaton.ts";

export class StopStrings {
  readonly #automaton: StopAutomaton | undefined;
  readonly #keep: boolean;
  /** Where the text so far leads. */
  #state = 0;
  /** Text that is not out yet: a suffix that begins some stop string. */
  #held = "";
  /** The stop string that was found. */
  matched: string | undefined;

  /**
   * @param stops None is empty.
   * @param keep Leaves the stop string itself in the text.
   */
  constructor(stops: readonly string[], keep = false) {
    this.#automaton = stops.length === 0 ? undefined : stopAutomaton(stops);
    this.#keep = keep;
  }

  /**
   * Adds text and returns what is safe to show. Once a stop string is complete, `matched` is set
   * and the text from its first character on (or behind it, where it is kept) is dropped. The one complete first wins, whatever the
   * pieces the text comes in; of two that end together, the one listed first.
   */
  push(text: string): string {
    const automaton = this.#automaton;
    if (automaton === undefined || this.matched !== undefined) return text;
    const whole = this.#held + text;
    for (let i = 0; i < text.length; i++) {
      this.#state = automaton.step(this.#state, text.charCodeAt(i));
      this.matched = automaton.found(this.#state);
      if (this.matched === undefined) continue;
      const end = this.#held.length + i + 1;
      this.#held = "";
      return whole.slice(0, this.#keep ? end : end - this.matched.length);
    }
    const safe = whole.length - automaton.depth(this.#state);
    this.#held = whole.slice(safe);
    return whole.slice(0, safe);
  }

  /** What was held back, when no more text comes. */
  flush(): string {
    const held = this.#held;
    this.#held = "";
    this.#state = 0;
    return held;
  }
}
