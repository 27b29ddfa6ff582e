/**
 * Images in a body: in base64, as data URLs, and by names of files and URLs where these are allowed.
 *
 * @module
 */
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import type { ModelDescription } from "../../generation.ts";
import type { BodyShare } from "../../http/body_memory.ts";
import { type Fields, outOfRange, requireString } from "../../http/fields.ts";
import { fromBase64 } from "../../images/base64.ts";
import type { MediaAccess } from "../media.ts";
import { ItemLimit } from "./field_limits.ts";

/** Of all prompts of a request together. */
export const MAX_IMAGES = 1024;

const FIELD = "image_data";
const DATA_URL = /^data:[^,]{0,200};base64,/i;
const OTHER_URL = /^[a-z][a-z0-9+.-]{0,30}:/i;
const FILE_NAME = /\.(png|jpe?g|webp|gif|bmp|avif|heic)$/i;
/** Characters of a wrong value that its error shows. */
const SHOWN = 60;
/** Characters of a name at most, so that no base64 is taken for one. */
const LONGEST_NAME = 4096;

/** How many images a request may still have. */
export const imageLimit = () => new ItemLimit(MAX_IMAGES, "images");

/** @throws {UnsupportedError} where the model reads text only. */
export function requireImageModel({ readsImages = false }: ModelDescription, path: string): void {
  if (readsImages) return;
  throw new UnsupportedError(path, "the model reads text only", { field: path });
}

/** What images are read with. */
export interface ImageReading {
  /** Where their bytes are counted. */
  readonly share: BodyShare;
  readonly media: MediaAccess;
}

/**
 * The bytes of one image.
 *
 * @throws {CapacityError | HttpError | InvalidRequestError | UnsupportedError} as a rejection, naming `path`.
 */
export async function readImage(
  value: unknown,
  path: string,
  reading: ImageReading,
): Promise<Uint8Array> {
  const text = requireString(value, path).trim();
  const head = text.slice(0, LONGEST_NAME);
  const isData = DATA_URL.test(head);
  if (!isData) {
    const opened = openNamed(head, text.length <= LONGEST_NAME, { ...reading, path });
    if (opened !== undefined) return opened;
  }
  const base64 = isData ? text.slice(text.indexOf(",") + 1) : text;
  reading.share.add(Math.ceil((base64.length * 3) / 4));
  // However long it is: the strings of a body have a limit.
  const bytes = base64 === "" ? undefined : await fromBase64(base64);
  if (bytes !== undefined) return bytes;
  throw outOfRange(path, "an image in base64, or a data URL of it", head.slice(0, SHOWN));
}

/**
 * What a name stands for; undefined where it is none.
 *
 * @param isWhole Whether the text ends where `head` does.
 */
function openNamed(
  head: string,
  isWhole: boolean,
  { share, media, path }: ImageReading & { readonly path: string },
): Promise<Uint8Array> | undefined {
  const refuse = (what: string, option: string) =>
    new UnsupportedError(
      `${path}, ${what}`,
      `${option}, which allows that, is not given; send the image in base64 or as a data URL`,
      { field: path },
    );
  const scheme = OTHER_URL.exec(head)?.[0].toLowerCase();
  if (scheme === "data:") {
    throw outOfRange(path, 'a data URL with ";base64,"', head.slice(0, SHOWN));
  }
  const isFile = scheme === "file:" || (scheme === undefined && isWhole && FILE_NAME.test(head));
  if (!isFile && scheme === undefined) return undefined;
  const open = isFile ? media.readFile : media.fetch;
  if (open === undefined) {
    throw isFile
      ? refuse("the name of a file", "--allowed-local-media-path")
      : refuse("a URL", "--allowed-media-domains");
  }
  if (!isWhole)
    throw outOfRange(path, `a name of up to ${LONGEST_NAME} characters`, head.slice(0, SHOWN));
  const { signal } = share;
  const bytes = open(head, { signal, onBytes: (count) => share.add(count) });
  return bytes.catch((error: unknown) => {
    if (!(error instanceof InvalidRequestError)) throw error;
    const message = error.message.replace("the image", path);
    throw new InvalidRequestError(message, path, { cause: error });
  });
}

/** What `image_data` holds for one prompt, with the path of each. */
type PromptImages = readonly { readonly value: unknown; readonly path: string }[];

/**
 * The images of each prompt: one for all, or a list. Of a single prompt a list is all of its images,
 * of a batch it has an image, or a list of them, for each.
 */
export async function readImageData(
  fields: Fields,
  {
    count,
    batch,
    model,
    ...reading
  }: ImageReading & {
    readonly count: number;
    readonly batch: boolean;
    readonly model: ModelDescription;
  },
): Promise<readonly (readonly Uint8Array[])[]> {
  const value = fields.value(FIELD);
  if (value === undefined || (Array.isArray(value) && value.length === 0)) return [];
  requireImageModel(model, FIELD);
  const limit = imageLimit();
  const groups = batch ? batchImages(value, count, limit) : [imagesOf(value, FIELD, limit)];
  const images: Uint8Array[][] = [];
  for (const group of groups) {
    const read: Uint8Array[] = [];
    for (const { value: image, path } of group) read.push(await readImage(image, path, reading));
    images.push(read);
  }
  // One image of all prompts is decoded once.
  return batch && !Array.isArray(value) ? Array.from({ length: count }, () => images[0]!) : images;
}

function batchImages(value: unknown, count: number, limit: ItemLimit): readonly PromptImages[] {
  if (!Array.isArray(value)) return [imagesOf(value, FIELD, limit)];
  if (value.length !== count) {
    throw new InvalidRequestError(
      `${FIELD} must have one item for each of the ${count} prompts, got ${value.length}`,
      FIELD,
    );
  }
  return value.map((item: unknown, i) => imagesOf(item, `${FIELD}[${i}]`, limit));
}

/** A null is no image. The items of a list are counted before anything is made of one. */
function imagesOf(value: unknown, path: string, limit: ItemLimit): PromptImages {
  if (value === null) return [];
  limit.take(Array.isArray(value) ? value : [value], FIELD);
  if (!Array.isArray(value)) return [{ value, path }];
  return value.map((item: unknown, i) => ({ value: item, path: `${path}[${i}]` }));
}
