/**
 * A prompt of embeddings: their rows, and the ids that stand where other prompts have tokens.
 *
 * An id tells a row by its content. The prefix cache so finds the prompts of equal embeddings, and
 * never takes one for tokens; whatever looks for logits of such an id finds none.
 *
 * @module
 */
import type { ContentIds } from "../cache/content_id.ts";
import { InvalidRequestError } from "../errors.ts";
import type { GenerationRequest } from "../generation.ts";

export class PromptEmbeddings {
  /** One for each row, none of them a token's. */
  readonly ids: readonly number[];
  readonly #hiddenSize: number;
  #rows: Float32Array<ArrayBuffer>;

  /**
   * Copies the rows.
   *
   * @throws {InvalidRequestError} naming the row that has another width or a number that is not
   * finite in f32.
   */
  constructor(
    given: NonNullable<GenerationRequest["inputEmbeds"]>,
    { hiddenSize, contentIds }: { readonly hiddenSize: number; readonly contentIds: ContentIds },
  ) {
    this.#hiddenSize = hiddenSize;
    this.#rows = new Float32Array(given.length * hiddenSize);
    const words = new Uint32Array(this.#rows.buffer);
    this.ids = Array.from(given, (row, r) => {
      const first = r * hiddenSize;
      requireRow(row, r, hiddenSize);
      this.#rows.set(row, first);
      return contentIds.of(words.subarray(first, first + hiddenSize));
    });
  }

  /** `[count, hiddenSize]` from row `first` on. */
  slice(first: number, count: number): Float32Array<ArrayBuffer> {
    return this.#rows.subarray(first * this.#hiddenSize, (first + count) * this.#hiddenSize);
  }

  /** Gives the rows' memory back: nobody asks for them any more. */
  release(): void {
    this.#rows = new Float32Array(0);
  }
}

function requireRow(row: readonly number[] | Float32Array, r: number, hiddenSize: number): void {
  const refuse = (problem: string) =>
    new InvalidRequestError(`inputEmbeds[${r}]${problem}`, "inputEmbeds");
  if (row.length !== hiddenSize) {
    throw refuse(` must have ${hiddenSize} numbers, the model's hidden size, got ${row.length}`);
  }
  for (let i = 0; i < row.length; i++) {
    const value = row[i];
    if (typeof value === "number" && Number.isFinite(Math.fround(value))) continue;
    throw refuse(`[${i}] must be a number that f32 holds, got ${String(value)}`);
  }
}
