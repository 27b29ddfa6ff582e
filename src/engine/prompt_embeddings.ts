/**
 * The embeddings of a prompt, all of it or the rows of its images: the rows, and the ids that stand
 * where other prompts have tokens.
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
  /** Of the whole prompt: a token's, or that of a row. */
  readonly ids: readonly number[];
  /** Shared with the caller that gave them in f32: the samples of one prompt have the same. */
  #rows: readonly (Float32Array | undefined)[];

  private constructor(rows: readonly (Float32Array | undefined)[], ids: readonly number[]) {
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
      ids.push(contentIds.of(wordsOf(floats)));
      if (turns.isDue) await turns.take();
    }
    return new PromptEmbeddings(rows, ids);
  }

  /**
   * Rows of images among tokens, read in slices.
   *
   * @param tokens Of the prompt, with `placeholder` where the next of `rows` belongs.
   */
  static async place(
    tokens: readonly number[],
    given: {
      readonly rows: readonly Float32Array[];
      readonly placeholder: number;
      readonly contentIds: ContentIds;
    },
  ): Promise<PromptEmbeddings> {
    const placed: (Float32Array | undefined)[] = [];
    const ids: number[] = [];
    let next = 0;
    for (const token of tokens) {
      const row = token === given.placeholder ? given.rows[next++] : undefined;
      placed.push(row);
      ids.push(row === undefined ? token : given.contentIds.of(wordsOf(row)));
      if (turns.isDue) await turns.take();
    }
    if (next !== given.rows.length) {
      throw new Error(`Cannot place rows of images: ${next} places are for ${given.rows.length}`);
    }
    return new PromptEmbeddings(placed, ids);
  }

  /** The same rows for another sequence, which releases its own. */
  share(): PromptEmbeddings {
    return new PromptEmbeddings(this.#rows, this.ids);
  }

  /** The row of a position; undefined where the prompt has a token, and behind it. */
  row(index: number): Float32Array | undefined {
    return this.#rows[index];
  }

  /** Forgets the rows: no step asks for them any more. */
  release(): void {
    this.#rows = [];
  }
}

function wordsOf({ buffer, byteOffset, length }: Float32Array): Uint32Array {
  return new Uint32Array(buffer, byteOffset, length);
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
