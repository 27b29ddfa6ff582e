/**
 * Whether a folder has the files that a start needs.
 *
 * @module
 */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { CONFIG_FILE, INDEX_FILE, SINGLE_FILE, shardNames } from "../../checkpoint/model_files.ts";
import { fileSize } from "./hub_cache.ts";

const TOKENIZER_FILE = /^((tokenizer|vocab)\.json|.*\.(model|tiktoken)|vocab\.txt)$/;

/** A shard's name says how many there are. */
const SHARD = /^(.*-)(\d+)-of-(\d+)\.safetensors$/;

/**
 * The files without which the model in `folder` cannot be started. Empty when it may be loaded,
 * as far as names can tell.
 */
export async function missingFiles(
  folder: string,
  { withoutTokenizer = false }: { readonly withoutTokenizer?: boolean } = {},
): Promise<readonly string[]> {
  const names = await readdir(folder).catch(() => []);
  const present = new Set<string>();
  for (const name of names) {
    if ((await fileSize(join(folder, name))) !== undefined) present.add(name);
  }
  const missing: string[] = [];
  if (!present.has(CONFIG_FILE)) missing.push(CONFIG_FILE);
  const hasTokenizer = withoutTokenizer || [...present].some((name) => TOKENIZER_FILE.test(name));
  if (!hasTokenizer) missing.push("tokenizer.json");
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
