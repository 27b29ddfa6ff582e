/**
 * The part of a checkpoint that deals with text: tokenizer, chat template, generation defaults.
 *
 * @module
 */
import {
  isJsonObject,
  readJson,
  readOptionalJson,
  readOptionalText,
} from "../../checkpoint/json_file.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import { CheckpointError } from "../../errors.ts";
import type { ModelDescription } from "../../generation.ts";
import {
  type ChatRenderer,
  type ChatTemplateSources,
  chatTemplateSource,
  createChatRenderer,
} from "../../text/chat_template_choice.ts";
import { detectFamily, familyNamed, type ModelFamily } from "../../text/families.ts";
import type { Tokenizer } from "../../text/tokenizer.ts";
import { loadTokenizer, TOKENIZER_FILES } from "./tokenizer_files.ts";

export interface TextModel {
  /** Decodes; a text service prepares it where it has to encode. */
  readonly tokenizer: Tokenizer;
  /**
   * Parses the chat templates.
   *
   * @throws {CheckpointError} when one does not parse.
   */
  readonly createChat: () => ChatRenderer;
  readonly family: ModelFamily;
  readonly eosTokenIds: ReadonlySet<number>;
  /** What its files say of the model. */
  readonly description: Pick<ModelDescription, "modelType" | "family" | "defaults">;
  /** Bytes of the vocabulary's longest token. */
  readonly longestToken: number;
}

const CONFIG_FILE = "config.json";
const GENERATION_FILE = "generation_config.json";

/** By these chat templates are told how much the model is to think. */
const THINKING_VARIABLES = ["thinking", "enable_thinking", "reasoning_effort"];

/** Those that templates with such variables know. */
export function thinkingVariables(templateVariables: ReadonlySet<string>): readonly string[] {
  return THINKING_VARIABLES.filter((name) => templateVariables.has(name));
}

export interface TextOptions {
  /** Replaces the checkpoint's own template. */
  readonly chatTemplate?: string | undefined;
  /** Name of the family, in place of the one that is recognised. */
  readonly chatFamily?: string | undefined;
}

/** Files that `loadText` looks for: what a thread needs that has no other way to them. */
export const TEXT_FILES: readonly string[] = [
  CONFIG_FILE,
  GENERATION_FILE,
  ...["tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"],
  ...["chat_template.json", ...TOKENIZER_FILES],
];

/**
 * Reads what the files say, without parsing templates or running a pattern of theirs.
 *
 * @throws {CheckpointError} naming the file that is malformed or missing.
 * @throws {InvalidRequestError} when there is no family of the name.
 */
export async function loadText(
  source: WeightSource,
  { chatTemplate, chatFamily }: TextOptions = {},
): Promise<TextModel> {
  const named = chatFamily === undefined ? undefined : familyNamed(chatFamily);
  const config = await readJson(source, CONFIG_FILE);
  const given: ChatTemplateSources = {
    tokenizerConfig: await readTokenizerConfigFile(source),
    jinjaFile: await readTemplateFile(source),
    override: chatTemplate,
    family: named,
  };
  const template = chatTemplateSource(given);
  const { fallbackEncoding } = named ?? detectFamily({ template, config });
  const { tokenizerConfig } = given;
  const tokenizer = await loadTokenizer(source, { tokenizerConfig, fallbackEncoding });

  const { vocabulary } = tokenizer;
  const hasToken = (content: string) => vocabulary.id(content) !== undefined;
  const family = named ?? detectFamily({ template, config, hasToken });
  const { fallbackTemplate, turnEnds = [] } = family;
  const fallback = fallbackTemplate?.tokens.every(hasToken) ? fallbackTemplate.source : undefined;
  const createChat = () => createChatRenderer({ ...given, fallback });

  const generation = (await readOptionalJson(source, GENERATION_FILE)) ?? {};
  if (!isJsonObject(generation)) throw new CheckpointError(GENERATION_FILE, "it is not an object");
  const eosTokenIds = new Set([
    ...tokenIds(CONFIG_FILE, isJsonObject(config) ? config.eos_token_id : undefined),
    ...tokenIds(GENERATION_FILE, generation.eos_token_id),
    ...(tokenizer.eosTokenId === undefined ? [] : [tokenizer.eosTokenId]),
    ...turnEnds.map((content) => vocabulary.id(content)).filter((id) => id !== undefined),
  ]);
  let longestToken = 1;
  for (let id = 0; id < vocabulary.size; id++) {
    longestToken = Math.max(longestToken, vocabulary.bytes(id).length);
  }
  const text = { tokenizer, createChat, family, eosTokenIds, longestToken };
  const modelType = isJsonObject(config) ? config.model_type : undefined;
  const description: TextModel["description"] = {
    modelType: typeof modelType === "string" ? modelType : undefined,
    family: family.name,
    defaults: defaults(generation),
  };
  return { ...text, description };
}

/** tokenizer_config.json; roles that it does not name are looked up in the older file for them. */
async function readTokenizerConfigFile(source: WeightSource): Promise<unknown> {
  const config = await readOptionalJson(source, "tokenizer_config.json");
  const roles = await readOptionalJson(source, "special_tokens_map.json");
  if (!isJsonObject(roles) || (config !== undefined && !isJsonObject(config))) return config;
  return { ...roles, ...config };
}

/** chat_template.jinja, or the one field of the older chat_template.json. */
async function readTemplateFile(source: WeightSource): Promise<string | undefined> {
  const text = await readOptionalText(source, "chat_template.jinja");
  if (text !== undefined) return text;
  const file = "chat_template.json";
  const json = await readOptionalJson(source, file);
  if (json === undefined) return undefined;
  if (isJsonObject(json) && typeof json.chat_template === "string") return json.chat_template;
  throw new CheckpointError(file, "it has no text", "chat_template");
}
/** Ids of `eos_token_id`, which is a number, a list or absent. */
function tokenIds(file: string, value: unknown): number[] {
  if (value === undefined || value === null) return [];
  const ids = Array.isArray(value) ? value : [value];
  if (ids.every((id): id is number => Number.isSafeInteger(id) && id >= 0)) return ids;
  throw new CheckpointError(file, "it must be a token id or a list of them", "eos_token_id");
}

/** Sampling defaults; `do_sample: false` means greedy. */
function defaults(generation: Readonly<Record<string, unknown>>): ModelDescription["defaults"] {
  const number = (field: string, valid: (value: number) => boolean) => {
    const value = generation[field];
    if (value === undefined || value === null) return undefined;
    if (typeof value === "number" && valid(value)) return value;
    throw new CheckpointError(GENERATION_FILE, `it is ${JSON.stringify(value)}`, field);
  };
  const greedy = generation.do_sample === false;
  const temperature = number("temperature", (value) => value >= 0);
  const topP = number("top_p", (value) => value > 0 && value <= 1);
  const topK = number("top_k", (value) => Number.isSafeInteger(value) && value >= -1);
  return {
    ...(greedy ? { temperature: 0 } : temperature !== undefined && { temperature }),
    ...(topP !== undefined && { topP }),
    // 0 means every token there; here that is -1.
    ...(topK !== undefined && { topK: topK === 0 ? -1 : topK }),
  };
}
