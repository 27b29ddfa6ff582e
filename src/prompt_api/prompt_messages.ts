/**
 * What sessions are told, read and turned into messages as OpenAI writes them.
 *
 * @module
 */

import { toBase64 } from "../images/to_base64.ts";

export type MessageValue =
  | string
  | BufferSource
  | Blob
  | CanvasImageSource
  | ImageData
  | AudioBuffer;

export interface LanguageModelMessageContent {
  readonly type: "text" | "image" | "audio";
  readonly value: MessageValue;
}

export interface LanguageModelMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string | readonly LanguageModelMessageContent[];
  /** Of the last message, an assistant's: the answer goes on with it. */
  readonly prefix?: boolean;
}

export type LanguageModelPrompt = string | readonly LanguageModelMessage[];

export interface WireMessage {
  readonly role: string;
  readonly content: string | readonly object[] | null;
}

/** A prompt that was read. */
export interface ReadPrompt {
  readonly messages: readonly WireMessage[];
  /** The beginning of the answer, where there is one. */
  readonly prefix: string | undefined;
}

export interface ReadOptions {
  /** Whether pictures may be shown. */
  readonly images: boolean;
  /** Whether the first message may be the system's. */
  readonly isInitial?: boolean;
}

/**
 * @throws {TypeError} for what is no prompt.
 * @throws {DOMException} named NotSupportedError for what the session does not read.
 */
export async function readPrompt(
  input: LanguageModelPrompt,
  options: ReadOptions,
): Promise<ReadPrompt> {
  if (!Array.isArray(input)) {
    return { messages: [{ role: "user", content: String(input) }], prefix: undefined };
  }
  const list = input as readonly LanguageModelMessage[];
  const messages: WireMessage[] = [];
  for (const [at, message] of list.entries()) {
    const isFirst = at === 0 && options.isInitial === true;
    if (message.role === "system" && !isFirst) {
      throw new TypeError("Cannot read the prompt: a system message is the first initial prompt");
    }
    const isLast = at === list.length - 1 && options.isInitial !== true;
    if (message.prefix && (!isLast || message.role !== "assistant")) {
      throw new TypeError("Cannot read the prompt: a prefix is the last message, an assistant's");
    }
    messages.push(await readMessage(message, options));
  }
  const last = list.at(-1);
  return { messages, prefix: last?.prefix ? textOf(messages.at(-1)!) : undefined };
}

const ROLES: readonly string[] = ["system", "user", "assistant"];

async function readMessage(
  { role, content }: LanguageModelMessage,
  { images }: ReadOptions,
): Promise<WireMessage> {
  if (!ROLES.includes(role)) throw new TypeError(`Cannot read the prompt: the role "${role}"`);
  if (typeof content === "string") return { role, content };
  const parts: { readonly type: string; readonly text?: string }[] = [];
  for (const { type, value } of content) {
    if (type === "text" && typeof value === "string") parts.push({ type: "text", text: value });
    else if (type === "text") throw new TypeError("Cannot read the prompt: a text is no string");
    else if (type === "image" && images && role === "user") parts.push(await imagePart(value));
    else throw notSupported(`a part "${type}" of a message of role "${role}"`);
  }
  if (parts.every((part) => part.type === "text")) {
    return { role, content: parts.map(({ text }) => text).join("") };
  }
  return { role, content: parts };
}

export function textOf({ content }: WireMessage): string {
  return typeof content === "string" ? content : "";
}

export function hasImages(messages: readonly WireMessage[]): boolean {
  return messages.some(({ content }) => Array.isArray(content));
}

export function notSupported(what: string): DOMException {
  const message = `Cannot use ${what}: the model does not read or write it`;
  return new DOMException(message, "NotSupportedError");
}

async function imagePart(value: MessageValue): Promise<{ readonly type: string }> {
  const image_url = { url: `data:image/png;base64,${toBase64(await pngOf(value))}` };
  return Object.assign({ type: "image_url" }, { image_url });
}

/** Files of PNG as they are; every other picture is drawn and written as one. */
async function pngOf(value: MessageValue): Promise<Uint8Array> {
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) {
    return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  }
  if (typeof value === "string") throw new TypeError("Cannot read the prompt: a text is no image");
  if (value instanceof Blob && value.type === "image/png") {
    return new Uint8Array(await value.arrayBuffer());
  }
  const drawn = await createImageBitmap(value as ImageBitmapSource);
  const canvas = new OffscreenCanvas(drawn.width, drawn.height);
  canvas.getContext("2d")!.drawImage(drawn, 0, 0);
  const blob = await canvas.convertToBlob({ type: "image/png" });
  return new Uint8Array(await blob.arrayBuffer());
}
