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
} from "../checkpoint/json_file.ts";
import type { WeightSource } from "../checkpoint/source.ts";
import { CheckpointError } from "../errors.ts";
import type { ModelDescription } from "../generation.ts";
import { type ChatRenderer, createChatRenderer } from "../text/chat_template_choice.ts";
import { createTokenizer, type Tokenizer } from "../text/tokenizer.ts";

export interface TextModel {
  readonly tokenizer: Tokenizer;
  readonly chat: ChatRenderer;
  readonly eosTokenIds: ReadonlySet<number>;
  readonly defaults: ModelDescription["defaults"];
  /** Bytes of the vocabulary's longest token. */
  readonly longestToken: number;
}

const CONFIG_FILE = "config.json";
const TOKENIZER_FILE = "tokenizer.json";
const GENERATION_FILE = "generation_config.json";

/**
 * @param chatTemplate Replaces the checkpoint's own.
 * @throws {CheckpointError} naming the file that is malformed or missing.
 */
export async function loadText(source: WeightSource, chatTemplate?: string): Promise<TextModel> {
  const tokenizerConfig = await readOptionalJson(source, "tokenizer_config.json");
  const tokenizer = createTokenizer(await readJson(source, TOKENIZER_FILE), tokenizerConfig);
  const jinjaFile = await readOptionalText(source, "chat_template.jinja");
  const chat = createChatRenderer({ tokenizerConfig, jinjaFile, override: chatTemplate });
  const generation = (await readOptionalJson(source, GENERATION_FILE)) ?? {};
  if (!isJsonObject(generation)) throw new CheckpointError(GENERATION_FILE, "it is not an object");
  const config = await readJson(source, CONFIG_FILE);
  const eosTokenIds = new Set([
    ...tokenIds(CONFIG_FILE, isJsonObject(config) ? config.eos_token_id : undefined),
    ...tokenIds(GENERATION_FILE, generation.eos_token_id),
    ...(tokenizer.eosTokenId === undefined ? [] : [tokenizer.eosTokenId]),
  ]);
  const { vocabulary } = tokenizer;
  let longestToken = 1;
  for (let id = 0; id < vocabulary.size; id++) {
    longestToken = Math.max(longestToken, vocabulary.bytes(id).length);
  }
  return { tokenizer, chat, eosTokenIds, defaults: defaults(generation), longestToken };
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
