/**
 * A detokenizer whose work shows in profiles.
 *
 * @module
 */
import { Detokenizer, type DetokenizerOptions } from "../../text/detokenizer.ts";
import type { Vocabulary } from "../../text/vocabulary.ts";
import type { Profiler } from "./profiler.ts";

export class ProfiledDetokenizer extends Detokenizer {
  readonly #profiler: Profiler;

  constructor(vocabulary: Vocabulary, options: DetokenizerOptions, profiler: Profiler) {
    super(vocabulary, options);
    this.#profiler = profiler;
  }

  override push(ids: Iterable<number>): string {
    return this.#profiler.span("detokenize", () => super.push(ids));
  }
}
