/**
 * The places of images in a prompt: found, counted, and filled with what the model reads there.
 *
 * @module
 */
import { textsOf } from "../../chat_message.ts";
import { InvalidRequestError } from "../../errors.ts";
import type { ChatMessage } from "../../generation.ts";

/** What a prompt is told of its images. */
export interface ImagePlaces {
  /** Spells the place of an image in a text, and in what a template writes. */
  readonly placeholder: string;
  /** What becomes of each place, in order. */
  readonly texts: readonly string[];
}

/** @throws {InvalidRequestError} when a message spells the place of an image that it has not. */
export function refuseSpelledPlaces(
  messages: readonly ChatMessage[],
  { placeholder }: ImagePlaces,
): void {
  const index = messages.findIndex(({ content }) =>
    textsOf(content).some((text) => text.includes(placeholder)),
  );
  if (index < 0) return;
  throw new InvalidRequestError(
    `Cannot read messages[${index}]: its text has ${placeholder}, which is the place of an image`,
    "messages",
  );
}

/** @throws {InvalidRequestError} when there are not as many places as images. */
export function fillPlaces(prompt: string, { placeholder, texts }: ImagePlaces): string {
  const pieces = prompt.split(placeholder);
  const places = pieces.length - 1;
  if (places !== texts.length) {
    throw new InvalidRequestError(
      `Cannot place images: the prompt has ${places} places for them (${placeholder}) and the request ${texts.length} images`,
      "prompt",
    );
  }
  return pieces.map((piece, i) => piece + (texts[i] ?? "")).join("");
}
