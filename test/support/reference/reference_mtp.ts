/**
 * The layer of a DeepSeek checkpoint that predicts the token after the next (multi-token prediction), in
 * plain loops and f64, to compare the engine with.
 *
 * Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 2.2.
 *
 * @module
 */
import type { ReferenceDeepseek } from "./reference_deepseek.ts";
import { draftsInTurn, type ReferenceDraft } from "./reference_eagle.ts";
import type { Row } from "./reference_math.ts";

export class ReferenceMtp {
  readonly #target: ReferenceDeepseek;
  readonly #name: string;

  /** @param target The model, of a checkpoint that has such a layer. */
  constructor(target: ReferenceDeepseek) {
    this.#target = target;
    this.#name = `model.layers.${target.draftLayer}`;
  }

  /** Drafts behind tokens, of which the last is the newest, that the target has not computed. */
  drafts(tokens: readonly number[], count: number): ReferenceDraft[] {
    return draftsInTurn(this, tokens, count);
  }

  /**
   * Logits behind drafts that follow each other.
   *
   * @param path Drafts behind the tokens.
   */
  behind(tokens: readonly number[], path: readonly number[]): Row {
    const { final } = this.#target.states(tokens.slice(0, -1));
    const rows = final.map((hidden, i) => this.#row(tokens[i + 1]!, hidden));
    for (const token of path) rows.push(this.#row(token, this.#last(rows)));
    return this.#target.head(this.#last(rows));
  }

  /** It knows all tokens. */
  targetId(id: number): number {
    return id;
  }

  /** What enters the layer: the embedding of the next token beside the state that led to it. */
  #row(next: number, hidden: Row): Row {
    const embedding = this.#target.norm(this.#target.embedding(next), `${this.#name}.enorm`);
    const state = this.#target.norm(hidden, `${this.#name}.hnorm`);
    return this.#target.linear(
      Float64Array.from([...embedding, ...state]),
      `${this.#name}.eh_proj`,
    );
  }

  #last(rows: readonly Row[]): Row {
    const hidden = rows.map((row) => row.slice());
    this.#target.pass(hidden, this.#target.draftLayer);
    return this.#target.norm(hidden.at(-1)!, `${this.#name}.shared_head.norm`);
  }
}
