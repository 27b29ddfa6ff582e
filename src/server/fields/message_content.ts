/**
 * `content` of a chat's message: a text, or parts of texts and images.
 *
 * @module
 */
import {
  type ImageDetail,
  type MessageContent,
  type MessagePart,
  textsOf,
} from "../../chat_message.ts";
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import { type Fields, outOfRange, wrongType } from "../../http/fields.ts";
import type { ItemLimit } from "./field_limits.ts";
import { IDLE_PART_FIELDS } from "./idle_fields.ts";
import { type ImageReading, MAX_IMAGES, readImage } from "./image_fields.ts";

const DETAILS: readonly ImageDetail[] = ["low", "high", "auto"];

/** The images of a conversation as its parts name them, in order. */
export class WrittenImages {
  readonly #written: { readonly value: unknown; readonly path: string }[] = [];
  readonly #isRead: boolean;

  /** @param isRead Whether the model reads images. */
  constructor(isRead: boolean) {
    this.#isRead = isRead;
  }

  /** @throws {UnsupportedError | InvalidRequestError} where the model reads none, or so many. */
  add(value: unknown, path: string): void {
    if (!this.#isRead) {
      throw new UnsupportedError(path, "the model reads text only", { field: path });
    }
    this.#written.push({ value, path });
    if (this.#written.length <= MAX_IMAGES) return;
    throw new InvalidRequestError(`Cannot read images: there are more than ${MAX_IMAGES}`, path);
  }

  /**
   * Their bytes; undefined where there are none.
   *
   * @throws {CapacityError | HttpError | InvalidRequestError | UnsupportedError} as a rejection, naming the part.
   */
  async read(reading: ImageReading): Promise<readonly Uint8Array[] | undefined> {
    if (this.#written.length === 0) return undefined;
    const images: Uint8Array[] = [];
    for (const { value, path } of this.#written) {
      images.push(await readImage(value, path, reading));
    }
    return images;
  }
}

export interface ContentOptions {
  readonly role: string;
  readonly limit: ItemLimit;
  /** Takes the images of parts; absent where parts are texts only. */
  readonly images: WrittenImages | undefined;
}

/** Texts alone are joined with one space. Only a user must have said something. */
export function readContent(fields: Fields, options: ContentOptions): MessageContent | null {
  const { role, limit } = options;
  const value = fields.value("content");
  const path = fields.path("content");
  if (typeof value === "string") return value;
  if (value === undefined && role !== "user") return null;
  if (!Array.isArray(value)) throw wrongType(path, "a string or a list of parts", value);
  if (value.length === 0) throw new InvalidRequestError(`${path} cannot be empty`, path);
  limit.take(value, path);
  const parts = value.map((part, i) => {
    const at = `${path}[${i}]`;
    return readPart(fields.within(part, at), at, options);
  });
  return contentOf(parts, " ");
}

/** Parts as they are where one is an image; texts alone are one, with `between` in between. */
export function contentOf(parts: readonly MessagePart[], between: string): MessageContent {
  const hasImages = parts.some(({ type }) => type === "image");
  return hasImages ? parts : textsOf(parts).join(between);
}

function readPart(fields: Fields, path: string, { role, images }: ContentOptions): MessagePart {
  const type = fields.string("type");
  if (type === undefined)
    throw new InvalidRequestError(`Cannot read ${path}: ${path}.type is missing`, path);
  if (type === "image_url" && images !== undefined) {
    if (role === "user") return readImagePart(fields, path, images);
    throw new InvalidRequestError(
      `Cannot use ${path}: only messages of the role user have images`,
      path,
    );
  }
  if (type !== "text") {
    const name = JSON.stringify(type.slice(0, 60));
    const field = `${path}.type`;
    throw new UnsupportedError(`${path} of type ${name}`, "it is not supported yet", { field });
  }
  const text = fields.string("text");
  if (text === undefined) {
    throw new InvalidRequestError(`Cannot read ${path}: ${path}.text is missing`, path);
  }
  fields.takeIdle(IDLE_PART_FIELDS);
  fields.end();
  return { type: "text", text };
}

function readImagePart(fields: Fields, path: string, images: WrittenImages): MessagePart {
  const image = fields.object("image_url");
  if (image === undefined) {
    throw new InvalidRequestError(`Cannot read ${path}: ${path}.image_url is missing`, path);
  }
  images.add(image.value("url"), image.path("url"));
  const part = imagePart(image);
  image.end();
  fields.takeIdle(IDLE_PART_FIELDS);
  fields.end();
  return part;
}

/** An image with the field `detail`. */
export function imagePart(image: Fields): MessagePart {
  const written = image.string("detail");
  const detail = DETAILS.find((one) => one === written);
  if (written !== undefined && detail === undefined) {
    throw outOfRange(image.path("detail"), `one of ${DETAILS.join(", ")}`, written);
  }
  return { type: "image", ...(detail !== undefined && { detail }) };
}
