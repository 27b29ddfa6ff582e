/**
 * Which files of a repository make a model: what a download fetches, and what a start needs.
 *
 * Weights are those the loader takes: model.safetensors, else the files its index names. Other
 * forms of the same weights (PyTorch, GGUF, ONNX) and what lies in folders are left out.
 *
 * @module
 */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { isJsonObject } from "../checkpoint/json_file.ts";
import { fileSize } from "./hub_cache.ts";

export const CONFIG_FILE = "config.json";
export const INDEX_FILE = "model.safetensors.index.json";
export const SINGLE_FILE = "model.safetensors";

const TEXT_FILES = [
  /^config\.json$/,
  /^generation_config\.json$/,
  /^(quantize|quant)_config\.json$/,
  /^(pre)?processor_config\.json$/,
  /^video_preprocessor_config\.json$/,
  /^(tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json$/,
  /^(tokenizer|tiktoken|spiece|sentencepiece(\.bpe)?)\.model$/,
  /\.tiktoken$/,
  /^(merges|vocab)\.txt$/,
  /^chat_template.*\.(json|jinja)$/,
];

const TOKENIZER_FILE = /^((tokenizer|vocab)\.json|.*\.(model|tiktoken)|vocab\.txt)$/;

/** A shard's name says how many there are. */
const SHARD = /^(.*-)(\d+)-of-(\d+)\.safetensors$/;

/** The small files that belong to a model, the list of its shards included. */
export function isTextFile(name: string): boolean {
  return name === INDEX_FILE || TEXT_FILES.some((pattern) => pattern.test(name));
}

/** Names of the shards in an index; none when it is not an index, which its reader then says. */
export function shardNames(index: string): readonly string[] {
  let value: unknown;
  try {
    value = JSON.parse(index);
  } catch {
    return [];
  }
  const map = isJsonObject(value) && isJsonObject(value.weight_map) ? value.weight_map : {};
  const names = Object.values(map).filter((name) => typeof name === "string");
  return [...new Set(names)].sort();
}

/**
 * The files without which the model in `folder` cannot be started. Empty when it may be loaded,
 * as far as names can tell.
 */
export async function missingFiles(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder).catch(() => []);
  const present = new Set<string>();
  for (const name of names) {
    if ((await fileSize(join(folder, name))) !== undefined) present.add(name);
  }
  const missing: string[] = [];
  if (!present.has(CONFIG_FILE)) missing.push(CONFIG_FILE);
  if (![...present].some((name) => TOKENIZER_FILE.test(name))) missing.push("tokenizer.json");
  if (present.has(SINGLE_FILE)) return missing;
  const wanted = present.has(INDEX_FILE)
    ? shardNames(await readFile(join(folder, INDEX_FILE), "utf8"))
    : wantedWithoutIndex(names);
  return [...missing, ...wanted.filter((name) => !present.has(name))];
}

function wantedWithoutIndex(names: readonly string[]): readonly string[] {
  const shard = names.map((name) => SHARD.exec(name)).find((match) => match !== null);
  if (shard === undefined) return [SINGLE_FILE];
  const [, stem, number, count] = shard as unknown as [string, string, string, string];
  const shards = Array.from({ length: Math.min(Number(count), 10_000) }, (_, i) => {
    return `${stem}${String(i + 1).padStart(number.length, "0")}-of-${count}.safetensors`;
  });
  return [INDEX_FILE, ...shards];
}
