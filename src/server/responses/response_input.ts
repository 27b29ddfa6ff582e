/**
 * Items of a response's input -> messages for the chat template.
 *
 * What an assistant has thought, said and called is an item each there, and one message here.
 *
 * @module
 */

import type { MessageContent, MessagePart } from "../../chat_message.ts";
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import type { ChatMessage, ChatToolCall } from "../../generation.ts";
import { type Fields, outOfRange, present, requireString, wrongType } from "../../http/fields.ts";
import { ItemLimit, MAX_MESSAGE_ITEMS, requireName } from "../fields/field_limits.ts";
import { IDLE_ITEM_FIELDS, IDLE_ITEM_PART_FIELDS } from "../fields/idle_fields.ts";
import { contentOf, imagePart, type WrittenImages } from "../fields/message_content.ts";

/**
 * The field `input`: a user's text, or items.
 *
 * @param images Takes the images of users.
 */
export function readInput(fields: Fields, images: WrittenImages): readonly ChatMessage[] {
  const input = fields.value("input");
  if (input === undefined) {
    throw new InvalidRequestError("Cannot answer: input is missing", "input");
  }
  if (typeof input === "string") return [{ role: "user", content: input }];
  if (!Array.isArray(input)) throw wrongType("input", "a string or a list of items", input);
  if (input.length === 0) throw new InvalidRequestError("input cannot be empty", "input");
  const limit = new ItemLimit(MAX_MESSAGE_ITEMS, "items of input and their parts");
  limit.take(input, "input");
  const turns = new Turns();
  for (const [i, item] of input.entries()) {
    const at = fields.within(item, `input[${i}]`);
    readItem(at, { limit, turns, images });
    at.end();
  }
  return turns.all();
}

/** Collects messages, and what an assistant's next one is made of. */
class Turns {
  readonly #messages: ChatMessage[] = [];
  #content: string | null = null;
  #reasoning = "";
  #calls: ChatToolCall[] = [];

  add(message: ChatMessage): void {
    this.#finish();
    this.#messages.push(message);
  }

  think(thought: string): void {
    // A thought stands in front of what it leads to.
    if (this.#content !== null || this.#calls.length > 0) this.#finish();
    this.#reasoning += thought;
  }

  say(text: string): void {
    if (this.#calls.length > 0) this.#finish();
    this.#content = (this.#content ?? "") + text;
  }

  call(call: ChatToolCall): void {
    this.#calls.push(call);
  }

  all(): readonly ChatMessage[] {
    this.#finish();
    return this.#messages;
  }

  #finish(): void {
    const isEmpty = this.#content === null && this.#calls.length === 0;
    if (isEmpty && this.#reasoning === "") return;
    const message = present<ChatMessage>({
      role: "assistant",
      content: this.#content,
      reasoning_content: this.#reasoning === "" ? undefined : this.#reasoning,
      tool_calls: this.#calls.length === 0 ? undefined : this.#calls,
    });
    this.#messages.push(message);
    this.#content = null;
    this.#reasoning = "";
    this.#calls = [];
  }
}

interface ItemOptions {
  readonly limit: ItemLimit;
  readonly turns: Turns;
  readonly images: WrittenImages;
}

function readItem(item: Fields, { limit, turns, images }: ItemOptions): void {
  const type = item.string("type") ?? "message";
  item.takeIdle(IDLE_ITEM_FIELDS);
  switch (type) {
    case "message": {
      const role = readRole(item);
      if (role === "assistant") turns.say(readTexts(item, { name: "content", limit }));
      else turns.add({ role, content: readSaid(item, { limit, images, role }) });
      return;
    }
    case "reasoning":
      turns.think(readThought(item, limit));
      return;
    case "function_call":
      turns.call(readCall(item));
      return;
    case "function_call_output": {
      const id = requireName(item.value("call_id"), item.path("call_id"));
      const content = readTexts(item, { name: "output", limit });
      turns.add({ role: "tool", content, tool_call_id: id });
      return;
    }
    default:
      throw unsupported(type, item);
  }
}

function unsupported(type: string, fields: Fields): UnsupportedError {
  const field = fields.path("type");
  const name = JSON.stringify(type.slice(0, 60));
  const reason =
    type === "input_image" ? "only what a user says has images" : "the server does not have it";
  return new UnsupportedError(`${field} ${name}`, reason, { field });
}

function readRole(item: Fields): string {
  const role = item.string("role");
  if (role === "developer") return "system";
  if (role === "user" || role === "assistant" || role === "system") return role;
  throw outOfRange(item.path("role"), "one of user, assistant, system, developer", role);
}

const TEXT_PARTS: ReadonlySet<string> = new Set(["input_text", "output_text", "text"]);

interface TextOptions {
  readonly name: string;
  readonly limit: ItemLimit;
}

/** A text, or the texts of parts with a line break between them. */
function readTexts(item: Fields, options: TextOptions): string {
  const parts = readParts(item, options);
  return typeof parts === "string" ? parts : parts.map((part) => readTextPart(part)).join("\n");
}

/** The same of what a user says, which may have images. */
function readSaid(
  item: Fields,
  { limit, images, role }: Pick<ItemOptions, "limit" | "images"> & { readonly role: string },
): MessageContent {
  const parts = readParts(item, { name: "content", limit });
  if (typeof parts === "string") return parts;
  const read = parts.map((part): MessagePart => {
    const isImage = role === "user" && part.string("type") === "input_image";
    return isImage ? readImagePart(part, images) : { type: "text", text: readTextPart(part) };
  });
  return contentOf(read, "\n");
}

function readParts(item: Fields, { name, limit }: TextOptions): string | readonly Fields[] {
  const value = item.value(name);
  const path = item.path(name);
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) throw wrongType(path, "a string or a list of parts", value);
  limit.take(value, path);
  return value.map((entry, i) => item.within(entry, `${path}[${i}]`));
}

function readTextPart(part: Fields): string {
  const type = part.string("type") ?? "";
  if (!TEXT_PARTS.has(type)) throw unsupported(type, part);
  part.takeIdle(IDLE_ITEM_PART_FIELDS);
  const text = requireString(part.value("text"), part.path("text"));
  part.end();
  return text;
}

function readImagePart(part: Fields, images: WrittenImages): MessagePart {
  images.add(part.value("image_url"), part.path("image_url"));
  const image = imagePart(part);
  part.takeIdle(IDLE_ITEM_PART_FIELDS);
  part.end();
  return image;
}

/**
 * Of thoughts their text, else their summary; those that another server has encrypted are none that
 * can be read here.
 */
function readThought(item: Fields, limit: ItemLimit): string {
  const thoughts = readThoughts(item, { name: "content", partType: "reasoning_text", limit });
  const summary = readThoughts(item, { name: "summary", partType: "summary_text", limit });
  if (item.string("encrypted_content") !== undefined && thoughts.length === 0) {
    const field = item.path("encrypted_content");
    throw new UnsupportedError(field, "the server has no key to it", { field });
  }
  if (thoughts.length > 0 && summary.length > 0) item.ignore("summary");
  return (thoughts.length > 0 ? thoughts : summary).join("\n");
}

interface ThoughtOptions {
  readonly name: string;
  readonly partType: string;
  readonly limit: ItemLimit;
}

function readThoughts(item: Fields, { name, partType, limit }: ThoughtOptions): readonly string[] {
  const path = item.path(name);
  const parts = item.list(name) ?? [];
  limit.take(parts, path);
  return parts.map((entry, i) => {
    const part = item.within(entry, `${path}[${i}]`);
    const type = part.string("type") ?? "";
    if (type !== partType) throw unsupported(type, part);
    const text = requireString(part.value("text"), part.path("text"));
    part.end();
    return text;
  });
}

function readCall(item: Fields): ChatToolCall {
  const id = requireName(item.value("call_id"), item.path("call_id"));
  const name = requireName(item.value("name"), item.path("name"));
  const text = requireString(item.value("arguments"), item.path("arguments"));
  // What the `openai` client reads from `arguments`.
  item.value("parsed_arguments");
  return { id, type: "function", function: { name, arguments: text } };
}
