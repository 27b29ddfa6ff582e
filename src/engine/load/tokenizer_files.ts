/**
 * Which of a checkpoint's files hold its tokenizer.
 *
 * tokenizer.json wins. Without it comes what says exactly the same: the encoding that the family
 * is known to use, or vocab.json with merges.txt. The error for another format names it.
 *
 * @module
 */
import { readJson, readOptionalJson, readText } from "../../checkpoint/json_file.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import { CheckpointError } from "../../errors.ts";
import { readClassicTokenizer } from "../../text/classic_vocabulary.ts";
import type { FallbackEncoding } from "../../text/families.ts";
import { createTiktokenTokenizer } from "../../text/tiktoken.ts";
import { readTokenizer, type Tokenizer } from "../../text/tokenizer.ts";

const FILE = "tokenizer.json";

/** Formats of other libraries, which say nothing about how text is split before merging. */
const FOREIGN = ["tokenizer.model", "tiktoken.model", "tekken.json", "vocab.json"];

/** Files of the formats that are read. */
export const TOKENIZER_FILES: readonly string[] = [
  FILE,
  ...["vocab.json", "merges.txt", "added_tokens.json"],
];

export interface TokenizerSources {
  /** Parsed tokenizer_config.json. */
  readonly tokenizerConfig: unknown;
  readonly fallbackEncoding: FallbackEncoding | undefined;
}

/**
 * A tokenizer that is not prepared yet.
 *
 * @throws {CheckpointError} naming the file that is missing, malformed or of a foreign format.
 */
export async function loadTokenizer(
  source: WeightSource,
  { tokenizerConfig, fallbackEncoding }: TokenizerSources,
): Promise<Tokenizer> {
  const names = new Set((await source.list()).map(({ name }) => name));
  if (names.has(FILE)) return readTokenizer(await readJson(source, FILE), tokenizerConfig);

  if (fallbackEncoding !== undefined) {
    const { name, roles } = fallbackEncoding;
    return createTiktokenTokenizer(name, { ...roles, ...(tokenizerConfig ?? {}) });
  }
  if (names.has("vocab.json") && names.has("merges.txt")) {
    const classic = readClassicTokenizer({
      vocab: await readJson(source, "vocab.json"),
      merges: await readText(source, "merges.txt"),
      addedTokens: await readOptionalJson(source, "added_tokens.json"),
      tokenizerConfig,
    });
    return readTokenizer(classic.tokenizerJson, classic.tokenizerConfig);
  }
  const foreign = FOREIGN.find((name) => names.has(name));
  if (foreign === undefined) throw new CheckpointError(FILE, `${source.name} has no such file`);
  const problem = `this format is not read, the model's ${FILE} is needed beside it; the transformers library writes one with save_pretrained`;
  throw new CheckpointError(foreign, problem);
}
