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
  /** Shared with the caller that gave them in f32: the samples of one prompt have the same. */
  #rows: readonly Float32Array[];

  /**
   * @throws {InvalidRequestError} naming the row that has another width or a number that is not
   * finite in f32.
   */
  constructor(
    given: NonNullable<GenerationRequest["inputEmbeds"]>,
    { hiddenSize, contentIds }: { readonly hiddenSize: number; readonly contentIds: ContentIds },
  ) {
    this.#rows = Array.from(given, (row, r) => {
      requireRow(row, r, hiddenSize);
      return row instanceof Float32Array ? row : Float32Array.from(row);
    });
    this.ids = this.#rows.map(({ buffer, byteOffset, length }) =>
      contentIds.of(new Uint32Array(buffer, byteOffset, length)),
    );
  }

  row(index: number): Float32Array {
    return this.#rows[index]!;
  }

  /** Forgets the rows: no step asks for them any more. */
  release(): void {
    this.#rows = [];
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
