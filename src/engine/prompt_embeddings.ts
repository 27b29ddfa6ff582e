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
import { turns } from "../turns.ts";

export class PromptEmbeddings {
  /** One for each row, none of them a token's. */
  readonly ids: readonly number[];
  /** Shared with the caller that gave them in f32: the samples of one prompt have the same. */
  #rows: readonly Float32Array[];

  private constructor(rows: readonly Float32Array[], ids: readonly number[]) {
    this.#rows = rows;
    this.ids = ids;
  }

  /**
   * Reads rows, many in slices between which other work has its turns; none may change until then.
   *
   * @throws {InvalidRequestError} as a rejection, naming the row that has another width or a number
   * that is not finite in f32.
   */
  static async read(
    given: NonNullable<GenerationRequest["inputEmbeds"]>,
    { hiddenSize, contentIds }: { readonly hiddenSize: number; readonly contentIds: ContentIds },
  ): Promise<PromptEmbeddings> {
    const rows: Float32Array[] = [];
    const ids: number[] = [];
    for (const [r, row] of given.entries()) {
      requireRow(row, r, hiddenSize);
      const floats = row instanceof Float32Array ? row : Float32Array.from(row);
      rows.push(floats);
      ids.push(contentIds.of(new Uint32Array(floats.buffer, floats.byteOffset, floats.length)));
      if (turns.isDue) await turns.take();
    }
    return new PromptEmbeddings(rows, ids);
  }

  /** The same rows for another sequence, which releases its own. */
  share(): PromptEmbeddings {
    return new PromptEmbeddings(this.#rows, this.ids);
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
