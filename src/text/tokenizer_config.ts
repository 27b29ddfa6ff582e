/**
 * tokenizer_config.json, read once into plain data: which tokens have a role, whether raw text gets
 * a beginning-of-sequence token, further added tokens, chat templates.
 *
 * Fields that only training or other libraries use are left alone.
 *
 * @module
 */

import { CheckpointError, UnsupportedError } from "../errors.ts";
import { checkTemplateCount } from "./limits/template_limits.ts";

const FILE = "tokenizer_config.json";

/** An id above this is a damaged file: the largest published vocabularies have under a million. */
export const MAX_TOKEN_ID = (1 << 24) - 1;

/** Roles a token may have; a chat template sees them as variables of the same names. */
const ROLES = [
  "bos_token",
  "eos_token",
  "unk_token",
  "sep_token",
  "pad_token",
  "cls_token",
  "mask_token",
] as const;

export type TokenRole = (typeof ROLES)[number];

/** Text of the token of each role the model has. */
export type RoleTokens = Readonly<Partial<Record<TokenRole, string>>>;

/** A token that is recognised in text before anything is split or merged. */
export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** Left out of the text when special tokens are skipped. */
  readonly special: boolean;
  /** Takes white space on its left or right with it. */
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  /** Looked for in the normalized text, not in the text as it came. */
  readonly normalized: boolean;
}

export interface NamedTemplate {
  readonly name: string;
  readonly template: string;
}

export interface TokenizerConfig {
  /** Undefined when the file does not say; the tokenizer's post-processor decides then. */
  readonly addBosToken: boolean | undefined;
  readonly roles: RoleTokens;
  /** Contents of further special tokens. */
  readonly specialContents: readonly string[];
  readonly addedTokens: readonly AddedToken[];
  readonly chatTemplate: string | readonly NamedTemplate[] | undefined;
}

/** Whether `value` is an object with named fields, as JSON has them. */
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Reads a parsed tokenizer_config.json; `undefined` stands for a checkpoint without the file.
 *
 * @throws {CheckpointError} when a field has the wrong type.
 */
export function readTokenizerConfig(config: unknown): TokenizerConfig {
  const fields = config ?? {};
  if (!isRecord(fields)) throw new CheckpointError(FILE, "it is not a JSON object");

  const roles: Partial<Record<TokenRole, string>> = {};
  for (const role of ROLES) {
    const content = tokenContent(fields[role], role);
    if (content !== undefined) roles[role] = content;
  }
  return {
    addBosToken: optionalBoolean(fields.add_bos_token, "add_bos_token"),
    roles,
    specialContents: readSpecialContents(fields),
    addedTokens: readAddedTokensDecoder(fields.added_tokens_decoder),
    chatTemplate: readChatTemplate(fields.chat_template),
  };
}

/**
 * Reads one added token as both files write it.
 *
 * @throws {CheckpointError} when the id or the content is missing or malformed.
 * @throws {UnsupportedError} when it is to match whole words only, which the library cannot.
 */
export function readAddedToken(file: string, id: unknown, token: unknown): AddedToken {
  if (!isRecord(token))
    throw new CheckpointError(file, `added token ${String(id)} is not an object`);
  if (typeof id !== "number" || !Number.isInteger(id) || id < 0 || id > MAX_TOKEN_ID) {
    throw new CheckpointError(file, `added token has id ${JSON.stringify(id)}`);
  }
  if (typeof token.content !== "string" || token.content === "") {
    throw new CheckpointError(file, `added token ${id} has no content`);
  }
  if (token.single_word === true) {
    throw new UnsupportedError(`added token "${token.content}"`, "it matches whole words only");
  }
  const special = token.special === true;
  return {
    id,
    content: token.content,
    special,
    lstrip: token.lstrip === true,
    rstrip: token.rstrip === true,
    normalized: typeof token.normalized === "boolean" ? token.normalized : !special,
  };
}

function tokenContent(value: unknown, field: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string") return value;
  if (isRecord(value) && typeof value.content === "string") return value.content;
  throw new CheckpointError(FILE, "it is neither text nor a token object", field);
}

function optionalBoolean(value: unknown, field: string): boolean | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "boolean") return value;
  throw new CheckpointError(FILE, "it is neither true nor false", field);
}

/** `extra_special_tokens` is a list in some versions and role -> token in others. */
function readSpecialContents(fields: Readonly<Record<string, unknown>>): string[] {
  const contents: string[] = [];
  for (const field of ["additional_special_tokens", "extra_special_tokens"]) {
    const value = fields[field];
    if (value === undefined || value === null) continue;
    const tokens = Array.isArray(value)
      ? value
      : isRecord(value)
        ? Object.values(value)
        : undefined;
    if (tokens === undefined) throw new CheckpointError(FILE, "it is not a list", field);
    for (const token of tokens) {
      const content = tokenContent(token, field);
      if (content !== undefined) contents.push(content);
    }
  }
  return contents;
}

function readAddedTokensDecoder(value: unknown): AddedToken[] {
  if (value === undefined || value === null) return [];
  if (!isRecord(value))
    throw new CheckpointError(FILE, "it is not an object", "added_tokens_decoder");
  return Object.entries(value).map(([id, token]) => readAddedToken(FILE, Number(id), token));
}

function readChatTemplate(value: unknown): string | NamedTemplate[] | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string") return value;
  // Older files: one list of {name, template}; some tools write name -> template instead.
  const entries = Array.isArray(value)
    ? value
    : isRecord(value)
      ? Object.entries(value).map(([name, template]) => ({ name, template }))
      : undefined;
  if (entries === undefined) {
    throw new CheckpointError(FILE, "it is neither text nor a list", "chat_template");
  }
  checkTemplateCount(FILE, entries.length);
  return entries.map((entry: unknown) => {
    if (!isRecord(entry) || typeof entry.name !== "string" || typeof entry.template !== "string") {
      throw new CheckpointError(FILE, "an entry lacks its name or template", "chat_template");
    }
    return { name: entry.name, template: entry.template };
  });
}
