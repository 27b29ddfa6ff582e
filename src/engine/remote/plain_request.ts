/**
 * A request as it goes to an engine in another thread.
 *
 * @module
 */
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import type { GenerationRequest } from "../../generation.ts";
import type { ImageInput, ImagePixels } from "../../image_input.ts";

/** Fields that only an engine in the same thread takes. */
const LOCAL_FIELDS: readonly string[] = ["logitProcessors"];

/**
 * A copy with nothing but plain data. Rows of f32 embeddings are copied, into one piece of memory
 * that can be transferred, and so are bytes and pixels of images: the caller's stay its own.
 *
 * @throws {UnsupportedError | InvalidRequestError} naming the field that cannot go there.
 */
export function plainRequest(request: GenerationRequest): GenerationRequest {
  const { inputEmbeds, images, ...others } = request;
  const plain = Object.entries(others).map(([field, value]) => [field, plainValue(field, value)]);
  return {
    ...Object.fromEntries(plain),
    ...(inputEmbeds !== undefined && { inputEmbeds: joinedRows(inputEmbeds) }),
    ...(images !== undefined && { images: images.map(plainImage) }),
  };
}

/** Pixels lose their class, without which they can be transferred. */
function plainImage(image: ImageInput, index: number): ImageInput {
  if (image instanceof Uint8Array) return image.slice();
  if (!isPixels(image)) return plainValue(`images[${index}]`, image) as ImageInput;
  const { width, height, data, colorSpace } = image as ImagePixels & {
    readonly colorSpace?: string;
  };
  return { width, height, data: data.slice(), ...(colorSpace !== undefined && { colorSpace }) };
}

const isPixels = (image: ImageInput): image is ImagePixels =>
  typeof image === "object" && "data" in image && image.data instanceof Uint8ClampedArray;

/** A copy of a value that can be sent. */
export function plainValue(field: string, value: unknown): unknown {
  if (LOCAL_FIELDS.includes(field) && value !== undefined) {
    throw new UnsupportedError(field, "the engine runs in another thread");
  }
  try {
    return structuredClone(value);
  } catch (cause) {
    throw new InvalidRequestError(
      `Cannot send ${field} to the engine's thread: ${(cause as Error).message}`,
      field,
      { cause },
    );
  }
}

/** Memory of a plain request that may be transferred. */
export function transferOf(request: GenerationRequest): readonly ArrayBuffer[] {
  const { inputEmbeds = [], images = [] } = request;
  const memory = new Set<ArrayBufferLike>();
  for (const row of inputEmbeds) if (row instanceof Float32Array) memory.add(row.buffer);
  for (const image of images) {
    if (image instanceof Uint8Array) memory.add(image.buffer);
    else if (isPixels(image)) memory.add(image.data.buffer);
  }
  return [...memory] as readonly ArrayBuffer[];
}

function joinedRows(
  given: NonNullable<GenerationRequest["inputEmbeds"]>,
): NonNullable<GenerationRequest["inputEmbeds"]> {
  const isFloats = (row: unknown) => row instanceof Float32Array;
  const total = given.reduce((sum, row) => sum + (isFloats(row) ? row.length : 0), 0);
  const joined = new Float32Array(total);
  let end = 0;
  return Array.from(given, (row, r) => {
    if (!isFloats(row)) return plainValue(`inputEmbeds[${r}]`, row) as readonly number[];
    const copy = joined.subarray(end, end + row.length);
    copy.set(row);
    end += row.length;
    return copy;
  });
}
