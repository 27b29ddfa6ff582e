/**
 * Turns of a conversation in Anthropic's shape -> messages for the chat template.
 *
 * @module
 */

import type { MessagePart } from "../../chat_message.ts";
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import type { ChatMessage, ChatToolCall } from "../../generation.ts";
import { type Fields, isObject, outOfRange, present, wrongType } from "../../http/fields.ts";
import { CallLimit, ItemLimit, MAX_MESSAGE_ITEMS, requireName } from "../fields/field_limits.ts";
import { IDLE_BLOCK_FIELDS, IDLE_TOOL_USE_FIELDS } from "../fields/idle_fields.ts";
import { contentOf, type WrittenImages } from "../fields/message_content.ts";

/** Stands in front of a tool's result that is an error. */
const ERROR_MARK = "Error: ";

/**
 * The fields `system` and `messages`.
 *
 * @param images Takes the images of users.
 */
export function readTurns(fields: Fields, images: WrittenImages): readonly ChatMessage[] {
  const limit = new ItemLimit(MAX_MESSAGE_ITEMS, "messages and their blocks");
  const system = fields.value("system");
  const instructions =
    system === undefined
      ? []
      : [{ role: "system", content: readText(fields, { name: "system", limit }) }];
  const list = fields.list("messages");
  if (list === undefined || list.length === 0) {
    const state = list === undefined ? "is missing" : "cannot be empty";
    throw new InvalidRequestError(`Cannot chat: messages ${state}`, "messages");
  }
  limit.take(list, "messages");
  const calls = new CallLimit();
  const turns = list.flatMap((item, i) =>
    readTurn({ fields: fields.within(item, `messages[${i}]`), limit, calls, images }),
  );
  return [...instructions, ...turns];
}

function readTurn(options: TurnOptions): readonly ChatMessage[] {
  const { fields } = options;
  const role = fields.string("role");
  const path = fields.path("role");
  if (role === undefined) {
    throw new InvalidRequestError(`Cannot read the message: ${path} is missing`, path);
  }
  const turn = readRole(role, options);
  fields.end();
  return turn;
}

interface TurnOptions {
  readonly fields: Fields;
  readonly limit: ItemLimit;
  readonly calls: CallLimit;
  readonly images: WrittenImages;
}

function readRole(role: string, options: TurnOptions): readonly ChatMessage[] {
  const { fields, limit, calls } = options;
  if (role === "system") {
    return [{ role, content: readText(fields, { name: "content", limit }) }];
  }
  const blocks = readBlocks(fields, limit);
  if (role === "user") return readUser(blocks, options);
  if (role === "assistant") return [readAssistant(blocks, calls)];
  throw outOfRange(fields.path("role"), "one of user, assistant, system", role);
}

/** A text, or the texts of blocks with a line break between them. */
function readText(
  fields: Fields,
  { name, limit }: { readonly name: string; readonly limit: ItemLimit },
): string {
  const value = fields.value(name);
  if (typeof value === "string") return value;
  const path = fields.path(name);
  if (!Array.isArray(value)) throw wrongType(path, "a string or a list of text blocks", value);
  limit.take(value, path);
  const texts = value.map((item, i) => {
    const block = openBlock(fields.within(item, `${path}[${i}]`));
    if (block.type !== "text") throw unsupported(block);
    return readTextBlock(block.fields);
  });
  return texts.join("\n");
}

interface Block {
  readonly type: string;
  readonly fields: Fields;
}

function openBlock(fields: Fields): Block {
  const type = fields.string("type");
  if (type !== undefined) return { type, fields };
  const path = fields.path("type");
  throw new InvalidRequestError(`Cannot read the block: ${path} is missing`, path);
}

function unsupported({ type, fields }: Block): UnsupportedError {
  const field = fields.path("type");
  const name = JSON.stringify(type.slice(0, 60));
  const reason =
    type === "image"
      ? "only what a user says has images"
      : "the server does not have blocks of this type";
  return new UnsupportedError(`${field} ${name}`, reason, { field });
}

function readBlocks(fields: Fields, limit: ItemLimit): string | readonly Block[] {
  const value = fields.value("content");
  if (typeof value === "string") return value;
  const path = fields.path("content");
  if (!Array.isArray(value)) throw wrongType(path, "a string or a list of blocks", value);
  limit.take(value, path);
  return value.map((item, i) => openBlock(fields.within(item, `${path}[${i}]`)));
}

function readTextBlock(fields: Fields): string {
  const text = fields.string("text");
  if (text === undefined) {
    const path = fields.path("text");
    throw new InvalidRequestError(`Cannot read the block: ${path} is missing`, path);
  }
  fields.takeIdle(IDLE_BLOCK_FIELDS);
  fields.end();
  return text;
}

/** Where an image comes from: its field, by the type of its source. */
const SOURCES: ReadonlyMap<string, string> = new Map([
  ["base64", "data"],
  ["url", "url"],
]);

function readImageBlock(fields: Fields, images: WrittenImages): MessagePart {
  const source = fields.object("source");
  if (source === undefined) {
    const path = fields.path("source");
    throw new InvalidRequestError(`Cannot read the block: ${path} is missing`, path);
  }
  const type = source.string("type") ?? "";
  const field = SOURCES.get(type);
  if (field === undefined) throw outOfRange(source.path("type"), "one of base64, url", type);
  images.add(source.value(field), source.path(field));
  // Bytes tell the kind.
  source.string("media_type");
  source.end();
  fields.takeIdle(IDLE_BLOCK_FIELDS);
  fields.end();
  return { type: "image" };
}

/** Results of tools are messages of their own, and so is what stands between them. */
function readUser(
  blocks: string | readonly Block[],
  { limit, images }: TurnOptions,
): readonly ChatMessage[] {
  if (typeof blocks === "string") return [{ role: "user", content: blocks }];
  const messages: ChatMessage[] = [];
  let parts: MessagePart[] = [];
  const say = () => {
    if (parts.length > 0) messages.push({ role: "user", content: contentOf(parts, "\n") });
    parts = [];
  };
  for (const block of blocks) {
    if (block.type === "text") parts.push({ type: "text", text: readTextBlock(block.fields) });
    else if (block.type === "image") parts.push(readImageBlock(block.fields, images));
    else if (block.type === "tool_result") {
      say();
      messages.push(readResult(block.fields, limit));
    } else throw unsupported(block);
  }
  say();
  return messages;
}

function readResult(fields: Fields, limit: ItemLimit): ChatMessage {
  const id = requireName(fields.value("tool_use_id"), fields.path("tool_use_id"));
  const isGiven = fields.value("content") !== undefined;
  const text = isGiven ? readText(fields, { name: "content", limit }) : "";
  const isError = fields.boolean("is_error") ?? false;
  fields.takeIdle(IDLE_BLOCK_FIELDS);
  fields.end();
  return { role: "tool", content: isError ? ERROR_MARK + text : text, tool_call_id: id };
}

function readAssistant(blocks: string | readonly Block[], limit: CallLimit): ChatMessage {
  if (typeof blocks === "string") return { role: "assistant", content: blocks };
  let content = "";
  let reasoning = "";
  const calls: ChatToolCall[] = [];
  for (const block of blocks) {
    if (block.type === "text") content += readTextBlock(block.fields);
    else if (block.type === "thinking") reasoning += readThought(block.fields);
    else if (block.type === "tool_use") calls.push(readToolUse(block.fields, limit));
    else throw unsupported(block);
  }
  return present<ChatMessage>({
    role: "assistant",
    content: content === "" ? null : content,
    reasoning_content: reasoning === "" ? undefined : reasoning,
    tool_calls: calls.length === 0 ? undefined : calls,
  });
}

/** A signature says who has written a thought, which changes nothing of it. */
function readThought(fields: Fields): string {
  const thought = fields.string("thinking") ?? "";
  fields.string("signature");
  fields.takeIdle(IDLE_BLOCK_FIELDS);
  fields.end();
  return thought;
}

function readToolUse(fields: Fields, limit: CallLimit): ChatToolCall {
  const id = requireName(fields.value("id"), fields.path("id"));
  const name = requireName(fields.value("name"), fields.path("name"));
  const input = fields.value("input") ?? {};
  const path = fields.path("input");
  if (!isObject(input)) throw wrongType(path, "an object", input);
  fields.takeIdle(IDLE_TOOL_USE_FIELDS);
  fields.end();
  return { id, type: "function", function: { name, arguments: limit.write(input, path) } };
}
