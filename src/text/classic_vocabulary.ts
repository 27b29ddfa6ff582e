/**
 * vocab.json and merges.txt, the two files of older byte-level checkpoints, as the tokenizer.json
 * that says the same.
 *
 * The two do not say how text is split before merging; the tokenizer's class does. Classes that
 * are not listed here are refused, because a wrong split gives wrong ids without any error.
 *
 * @module
 */

import { CheckpointError } from "../errors.ts";
import { isRecord } from "./tokenizer_config.ts";

export interface ClassicFiles {
  /** Parsed vocab.json: piece -> id. */
  readonly vocab: unknown;
  /** Text of merges.txt. */
  readonly merges: string;
  /** Parsed added_tokens.json: content -> id. */
  readonly addedTokens?: unknown;
  /** Parsed tokenizer_config.json, which names the class. */
  readonly tokenizerConfig?: unknown;
}

export interface ClassicTokenizer {
  readonly tokenizerJson: Readonly<Record<string, unknown>>;
  /** The given one, with the tokens that the class takes for granted. */
  readonly tokenizerConfig: Readonly<Record<string, unknown>>;
}

interface TokenizerClass {
  /** Cuts the text before merging. Absent for GPT-2's own cut, which the pre-tokenizer knows. */
  readonly split?: string;
  readonly normalizer?: "NFC";
  /** Tokens by role where the configuration says nothing. */
  readonly roles: Readonly<Record<string, string>>;
}

const QWEN2: TokenizerClass = {
  split:
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  normalizer: "NFC",
  roles: { eos_token: "<|endoftext|>" },
};

const GPT2: TokenizerClass = {
  roles: { bos_token: "<|endoftext|>", eos_token: "<|endoftext|>", unk_token: "<|endoftext|>" },
};

const CLASSES: ReadonlyMap<unknown, TokenizerClass> = new Map([
  ["Qwen2Tokenizer", QWEN2],
  ["Qwen2TokenizerFast", QWEN2],
  ["GPT2Tokenizer", GPT2],
  ["GPT2TokenizerFast", GPT2],
]);

/** @throws {CheckpointError} when a file is malformed or the class is not known. */
export function readClassicTokenizer(files: ClassicFiles): ClassicTokenizer {
  const config = isRecord(files.tokenizerConfig) ? files.tokenizerConfig : {};
  const name = config.tokenizer_class;
  const kind = CLASSES.get(name);
  if (kind === undefined) {
    const problem = `without a tokenizer.json the tokenizer_class must be one of ${[...CLASSES.keys()].join(", ")}, it is ${JSON.stringify(name) ?? "absent"}`;
    throw new CheckpointError("tokenizer_config.json", problem, "tokenizer_class");
  }
  const { split, normalizer } = kind;
  const tokenizerJson = {
    added_tokens: readAdded(files.addedTokens),
    normalizer: normalizer === undefined ? null : { type: normalizer },
    pre_tokenizer:
      split === undefined
        ? byteLevel({ add_prefix_space: config.add_prefix_space === true, use_regex: true })
        : {
            type: "Sequence",
            pretokenizers: [
              { type: "Split", pattern: { Regex: split }, behavior: "Isolated", invert: false },
              byteLevel({ add_prefix_space: false, use_regex: false }),
            ],
          },
    decoder: { type: "ByteLevel" },
    model: { type: "BPE", vocab: files.vocab, merges: readMerges(files.merges) },
  };
  const roles = Object.entries(kind.roles).filter(([role]) => config[role] === undefined);
  return { tokenizerJson, tokenizerConfig: { ...config, ...Object.fromEntries(roles) } };
}

function byteLevel(options: { readonly add_prefix_space: boolean; readonly use_regex: boolean }) {
  return { type: "ByteLevel", ...options };
}

/** One merge a line, two pieces with a space between; the first line may name a version. */
function readMerges(text: string): string[] {
  const lines = text.split(/\r?\n/);
  if (lines[0]?.startsWith("#version")) lines.shift();
  const merges = lines.filter((line) => line !== "");
  const wrong = merges.find((line) => !/^[^ ]+ [^ ]+$/.test(line));
  if (wrong !== undefined) {
    const problem = `${JSON.stringify(wrong.slice(0, 60))} is not two pieces`;
    throw new CheckpointError("merges.txt", problem);
  }
  return merges;
}

function readAdded(value: unknown): object[] {
  if (value === undefined || value === null) return [];
  const file = "added_tokens.json";
  if (!isRecord(value)) throw new CheckpointError(file, "it is not a JSON object");
  return Object.entries(value).map(([content, id]) => {
    if (!Number.isSafeInteger(id)) throw new CheckpointError(file, `"${content}" has no id`);
    return { content, id, special: false };
  });
}
