/**
 * The embeddings of a prompt, all of it or the rows of its images: the rows, and the ids that stand
 * where other prompts have tokens.
 *
 * An id tells a row by its content. The prefix cache so finds the prompts of equal embeddings, and
 * never takes one for tokens; whatever looks for logits of such an id finds none.
 *
 * @module
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import type { ContentIds } from "../cache/content_id.ts";
import type { Contents } from "../cache/prefix_block.ts";
import { InvalidRequestError } from "../errors.ts";
import type { GenerationRequest } from "../generation.ts";
import type { PatchGrid } from "../images/patches.ts";
import type { RopePlaces } from "../layers/batch.ts";
import { turns } from "../turns.ts";
import type { ImageFeatures } from "./images/feature_cache.ts";
import { ImageWalk, placeImages } from "./images/image_positions.ts";

/** A prompt with images as every process knows it that has the same model. */
export interface LastingPrompt {
  /** With a placeholder where the row of an image stands. */
  readonly tokens: readonly number[];
  /** Of which image such a row is, and which of its rows. */
  readonly contents: Contents;
}

export interface EmbeddingOptions {
  readonly hiddenSize: number;
  readonly contentIds: ContentIds;
  readonly travels?: boolean | undefined;
}

/** Stands in a prompt where its rows are named instead. */
const NO_TOKEN = 0;

export class PromptEmbeddings {
  /** Of the whole prompt: a token's, or that of a row. */
  readonly ids: readonly number[];
  /** Shared with the caller that gave them in f32: the samples of one prompt have the same. */
  #rows: readonly (Float32Array | undefined)[];
  /** Where its rows stand, of images that lie in rows and columns; absent where a row has its number alone. */
  readonly places: RopePlaces | undefined;
  /** How many of the rows are images'. */
  readonly imageTokens: number;
  /** Absent where the rows are of no images: no other process has a name for them that lasts. */
  readonly lasting: LastingPrompt | undefined;
  /** As another engine knows it that is given the same rows; absent where none was to be asked. */
  readonly travelling: LastingPrompt | undefined;

  private constructor(
    rows: readonly (Float32Array | undefined)[],
    ids: readonly number[],
    {
      places,
      imageTokens = 0,
      lasting,
      travelling = lasting,
    }: Partial<Pick<PromptEmbeddings, "places" | "imageTokens" | "lasting" | "travelling">> = {},
  ) {
    this.#rows = rows;
    this.ids = ids;
    this.places = places;
    this.imageTokens = imageTokens;
    this.lasting = lasting;
    this.travelling = travelling;
  }

  /**
   * Reads rows, many in slices between which other work has its turns; none may change until then.
   *
   * @param options `travels`: whether another engine has to know the prompt again.
   * @throws {InvalidRequestError} as a rejection, naming the row that has another width or a number
   * that is not finite in f32.
   */
  static async read(
    given: NonNullable<GenerationRequest["inputEmbeds"]>,
    { hiddenSize, contentIds, travels = false }: EmbeddingOptions,
  ): Promise<PromptEmbeddings> {
    const rows: Float32Array[] = [];
    const ids: number[] = [];
    const contents = new Map<number, string>();
    for (const [r, row] of given.entries()) {
      requireRow(row, r, hiddenSize);
      const floats = row instanceof Float32Array ? row : Float32Array.from(row);
      rows.push(floats);
      ids.push(contentIds.of(wordsOf(floats)));
      if (travels) contents.set(r, nameOfRow(floats));
      if (turns.isDue) await turns.take();
    }
    if (!travels) return new PromptEmbeddings(rows, ids);
    const travelling = { tokens: rows.map(() => NO_TOKEN), contents };
    return new PromptEmbeddings(rows, ids, { travelling });
  }

  /**
   * Rows of images among tokens, read in slices.
   *
   * @param tokens Of the prompt, with `placeholder` where the next row of `images` belongs.
   * @param given `grids`: how the rows of each image lie, where they have positions of their own.
   */
  static async place(
    tokens: readonly number[],
    given: {
      readonly images: readonly ImageFeatures[];
      readonly grids: readonly (PatchGrid | undefined)[];
      readonly placeholder: number;
      readonly contentIds: ContentIds;
    },
  ): Promise<PromptEmbeddings> {
    const placed: (Float32Array | undefined)[] = [];
    const ids: number[] = [];
    const grids = given.grids.filter((grid) => grid !== undefined);
    const images = new ImageWalk(grids);
    const named = given.images.flatMap(({ name, rows }) =>
      rows.map((row, i) => ({ row, name: `${name}, row ${i}` })),
    );
    const contents = new Map<number, string>();
    let next = 0;
    for (const [position, token] of tokens.entries()) {
      const one = token === given.placeholder ? named[next++] : undefined;
      if (one !== undefined) contents.set(position, one.name);
      const row = one?.row;
      placed.push(row);
      const place = row === undefined ? undefined : images.next(position);
      ids.push(row === undefined ? token : given.contentIds.of(placedWords(row, place)));
      if (turns.isDue) await turns.take();
    }
    if (next !== named.length) {
      throw new Error(`Cannot place rows of images: ${next} places are for ${named.length}`);
    }
    const places = grids.length > 0 ? placeImages(images.starts, grids) : undefined;
    const lasting = { tokens, contents };
    return new PromptEmbeddings(placed, ids, { places, imageTokens: next, lasting });
  }

  /** The same rows for another sequence, which releases its own. */
  share(): PromptEmbeddings {
    return new PromptEmbeddings(this.#rows, this.ids, this);
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

/** What no other row has: a digest of its bytes, and of what they are. */
function nameOfRow({ buffer, byteOffset, byteLength, length }: Float32Array): string {
  const hash = sha256.create();
  hash.update(utf8ToBytes(`f32 row of ${length} `));
  hash.update(new Uint8Array(buffer, byteOffset, byteLength));
  return bytesToHex(hash.digest());
}

function wordsOf({ buffer, byteOffset, length }: Float32Array): Uint32Array {
  return new Uint32Array(buffer, byteOffset, length);
}

/** A row and where it is in its image: what all pictures of one colour have alike lies differently. */
function placedWords(row: Float32Array, place: readonly number[] | undefined): Uint32Array {
  const words = wordsOf(row);
  if (place === undefined) return words;
  const all = new Uint32Array(words.length + place.length);
  all.set(words);
  all.set(place, words.length);
  return all;
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
