/**
 * Which files of a repository make a model.
 *
 * Weights are those the loader takes: model.safetensors, else the files its index names. Other
 * forms of the same weights (PyTorch, GGUF, ONNX) and what lies in folders are left out.
 *
 * @module
 */

import { DownloadError } from "../http/retries.ts";
import { isJsonObject } from "./json_file.ts";

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
 * The files of a repository that a download fetches: texts first, then weights.
 *
 * @param model For messages.
 * @param readIndex Text of the index, asked for only where it decides.
 * @throws {DownloadError} when they make no model.
 */
export async function wantedFiles<T extends { readonly name: string }>(
  model: string,
  files: readonly T[],
  readIndex: (index: T) => Promise<string>,
): Promise<readonly T[]> {
  const find = (wanted: string) => files.find(({ name }) => name === wanted);
  if (find(CONFIG_FILE) === undefined) {
    throw new DownloadError(model, `it has no ${CONFIG_FILE}, so it is no model for this engine`);
  }
  const texts = files.filter(({ name }) => isTextFile(name));
  const single = find(SINGLE_FILE);
  if (single !== undefined) return [...texts, single];
  const index = find(INDEX_FILE);
  if (index === undefined) {
    throw new DownloadError(model, `it has neither ${SINGLE_FILE} nor ${INDEX_FILE}`);
  }
  const names = shardNames(await readIndex(index));
  if (names.length === 0) throw new DownloadError(`${INDEX_FILE} of ${model}`, "it names no file");
  const weights = names.map((name) => {
    const file = find(name);
    if (file !== undefined) return file;
    throw new DownloadError(`${name} of ${model}`, `${INDEX_FILE} names it, which is not there`);
  });
  return [...texts, ...weights];
}
