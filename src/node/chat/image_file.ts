/**
 * Files of images for `/image` of a chat.
 *
 * @module
 */
import { readFileSync, statSync } from "node:fs";
import { basename } from "node:path";
import type { ServedModel } from "../../client/chat_exchange.ts";
import { ChatCommandError } from "./chat_command_error.ts";

export interface ImageFile {
  /** Of the file, without its folder. */
  readonly name: string;
  /** A data URL. */
  readonly url: string;
}

/** Bytes of a file at most: written as text, it is a string that servers of this kind read. */
export const MAX_IMAGE_FILE_BYTES = 11 * 2 ** 20;

/** What files begin with, in hexadecimal digits. */
const KINDS: readonly (readonly [begins: RegExp, type: string])[] = [
  [/^89504e470d0a1a0a/, "image/png"],
  [/^ffd8ff/, "image/jpeg"],
  [/^474946383[79]61/, "image/gif"],
  [/^52494646.{8}57454250/, "image/webp"],
];

/** @throws {ChatCommandError} for what the model cannot be shown. */
export function readImageFile(file: string, model: ServedModel): ImageFile {
  if (model.readsImages === false) {
    throw new ChatCommandError(`Cannot show an image: ${model.name} reads text only`);
  }
  const { size } = statSync(file);
  if (size > MAX_IMAGE_FILE_BYTES) {
    throw new ChatCommandError(
      `Cannot show ${file}: it has ${size} bytes, more than ${MAX_IMAGE_FILE_BYTES}`,
    );
  }
  const bytes = readFileSync(file);
  const head = bytes.toString("hex", 0, 12);
  const type = KINDS.find(([begins]) => begins.test(head))?.[1];
  if (type === undefined) {
    throw new ChatCommandError(`Cannot show ${file}: it is no file of PNG, JPEG, GIF or WebP`);
  }
  return { name: basename(file), url: `data:${type};base64,${bytes.toString("base64")}` };
}
