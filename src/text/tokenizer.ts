/**
 * Text -> token ids and back.
 *
 * A `Tokenizer` is built from a checkpoint's tokenizer.json (here) or from an encoding that is
 * known by name (`tiktoken.ts`). Encoding is a library's; the way back is ours, over the bytes of
 * the vocabulary, so that it can be done token by token (`detokenizer.ts`).
 *
 * @module
 */

import { Tokenizer as HuggingFaceTokenizer } from "@huggingface/tokenizers";
import { CheckpointError, InvalidRequestError } from "../errors.ts";
import { Detokenizer } from "./detokenizer.ts";
import { checkAddedLimits, checkTokenizerLimits } from "./limits/tokenizer_limits.ts";
import { spellOutCut } from "./split_pattern.ts";
import {
  type AddedToken,
  isRecord,
  readAddedToken,
  readTokenizerConfig,
  type TokenizerConfig,
} from "./tokenizer_config.ts";
import {
  missingBytes,
  pieceBytes,
  pieceEncoding,
  readPieces,
  stripsLeadingSpace,
  Vocabulary,
} from "./vocabulary.ts";

const FILE = "tokenizer.json";
const CONFIG_FILE = "tokenizer_config.json";
/** Short enough for any pattern. */
const TRIAL = "a b";

/** The way from text to tokens. */
export interface Encoder {
  /** Ids of a text, nothing added; added tokens in it are recognised. */
  encode(text: string): number[];
  /** Whether raw text gets a beginning-of-sequence token. */
  readonly addsBos: boolean;
}

export interface TokenizerOptions {
  readonly vocabulary: Vocabulary;
  /** Called once, when a text is to be encoded or by `prepare`. */
  readonly createEncoder: () => Encoder;
  readonly bosTokenId?: number | undefined;
  readonly eosTokenId?: number | undefined;
  /** Whether decoding a whole text drops one leading space. Default false. */
  readonly stripsLeadingSpace?: boolean;
}

export class Tokenizer {
  readonly vocabulary: Vocabulary;
  readonly bosTokenId: number | undefined;
  readonly eosTokenId: number | undefined;
  readonly #createEncoder: () => Encoder;
  #encoder: Encoder | undefined;
  readonly #stripsLeadingSpace: boolean;

  constructor(options: TokenizerOptions) {
    this.vocabulary = options.vocabulary;
    this.bosTokenId = options.bosTokenId;
    this.eosTokenId = options.eosTokenId;
    this.#createEncoder = options.createEncoder;
    this.#stripsLeadingSpace = options.stripsLeadingSpace ?? false;
  }

  /**
   * Makes what encoding needs. Until then no pattern of a checkpoint has met a text, so that a thread
   * that only decodes may hold a tokenizer whose patterns it does not trust.
   *
   * @throws {CheckpointError} when the tokenizer's files do not say how to encode.
   */
  prepare(): void {
    this.#encoder ??= this.#createEncoder();
  }

  /** Whether `encodePrompt` puts `bosTokenId` in front. */
  get addsBos(): boolean {
    return this.#prepared.addsBos;
  }

  get #prepared(): Encoder {
    this.#encoder ??= this.#createEncoder();
    return this.#encoder;
  }

  /**
   * Ids of a text as it is: for what a chat template has written, which brings its own BOS.
   *
   * @throws {InvalidRequestError} when the vocabulary cannot express the text.
   */
  encode(text: string): number[] {
    return this.#prepared.encode(text);
  }

  /** Ids of raw text: with one BOS in front when the model asks for it, never with two. */
  encodePrompt(text: string): number[] {
    const ids = this.#prepared.encode(text);
    if (this.addsBos && this.bosTokenId !== undefined && ids[0] !== this.bosTokenId) {
      ids.unshift(this.bosTokenId);
    }
    return ids;
  }

  /** Text of a whole list of ids. Ids without a token add nothing. */
  decode(ids: Iterable<number>, options: { readonly skipSpecialTokens?: boolean } = {}): string {
    const detokenizer = new Detokenizer(this.vocabulary, {
      skipSpecialTokens: options.skipSpecialTokens ?? false,
      stripLeadingSpace: this.#stripsLeadingSpace,
    });
    return detokenizer.push(ids) + detokenizer.flush();
  }
}

/**
 * Builds the tokenizer of a checkpoint from its two parsed files, ready to encode.
 *
 * @param tokenizerConfig `undefined` when the checkpoint has no tokenizer_config.json.
 * @throws {CheckpointError} naming the file, when one is malformed or they contradict each other.
 * @throws {UnsupportedError} when the vocabulary is neither byte-level nor SentencePiece's.
 */
export function createTokenizer(tokenizerJson: unknown, tokenizerConfig?: unknown): Tokenizer {
  const tokenizer = readTokenizer(tokenizerJson, tokenizerConfig);
  tokenizer.prepare();
  return tokenizer;
}

/** The same, to be prepared before it encodes: reads the vocabulary and runs no pattern of the files. */
export function readTokenizer(tokenizerJson: unknown, tokenizerConfig?: unknown): Tokenizer {
  if (!isRecord(tokenizerJson)) throw new CheckpointError(FILE, "it is not a JSON object");
  checkTokenizerLimits(tokenizerJson);
  const config = readTokenizerConfig(tokenizerConfig);
  const pieces = readPieces(tokenizerJson);
  const added = collectAddedTokens(tokenizerJson, config, pieces);
  checkAddedLimits(added);
  const encoding = pieceEncoding(tokenizerJson);
  const vocabulary = new Vocabulary(pieceBytes(pieces, encoding), added);

  const bosTokenId = roleId(vocabulary, "bos_token", config);
  const eosTokenId = roleId(vocabulary, "eos_token", config);
  if (config.addBosToken === true && bosTokenId === undefined) {
    throw new CheckpointError(CONFIG_FILE, "it is true but there is no bos_token", "add_bos_token");
  }

  const createEncoder = (): Encoder => {
    const missing = encoding === "byte-level" ? missingBytes(pieces) : new Set<number>();
    const library = createLibraryTokenizer(tokenizerJson, added, config);
    return {
      encode: (text) => {
        if (missing.size > 0) refuseMissingBytes(text, missing);
        return encodeWith(library, text);
      },
      addsBos: config.addBosToken ?? postProcessorAddsBos(library, bosTokenId),
    };
  };
  return new Tokenizer({
    vocabulary,
    createEncoder,
    bosTokenId,
    eosTokenId,
    stripsLeadingSpace: stripsLeadingSpace(tokenizerJson),
  });
}

function roleId(
  vocabulary: Vocabulary,
  role: "bos_token" | "eos_token",
  config: TokenizerConfig,
): number | undefined {
  const content = config.roles[role];
  if (content === undefined) return undefined;
  const id = vocabulary.id(content);
  if (id === undefined) {
    throw new CheckpointError(CONFIG_FILE, `"${content}" is not in the vocabulary`, role);
  }
  return id;
}

/**
 * Added tokens of both files: tokenizer.json's own; those only `added_tokens_decoder` knows; and
 * pieces of the ordinary vocabulary that have a role. Whatever has a role is special.
 */
function collectAddedTokens(
  tokenizerJson: Readonly<Record<string, unknown>>,
  config: TokenizerConfig,
  pieces: ReadonlyMap<number, string>,
): AddedToken[] {
  const list = tokenizerJson.added_tokens ?? [];
  if (!Array.isArray(list)) throw new CheckpointError(FILE, "it is not a list", "added_tokens");

  const special = new Set([...Object.values(config.roles), ...config.specialContents]);
  const byContent = new Map<string, AddedToken>();
  const contentOfId = new Map<number, string>();
  const add = (token: AddedToken, file: string): void => {
    const known = byContent.get(token.content);
    if (known !== undefined && known.id === token.id) return;
    const other = contentOfId.get(token.id);
    if (known !== undefined || other !== undefined) {
      const problem = `"${token.content}" (${token.id}) contradicts "${other ?? token.content}" (${known?.id ?? token.id})`;
      throw new CheckpointError(file, problem, "added tokens");
    }
    byContent.set(token.content, {
      ...token,
      special: token.special || special.has(token.content),
    });
    contentOfId.set(token.id, token.content);
  };

  for (const token of list as unknown[]) {
    add(readAddedToken(FILE, isRecord(token) ? token.id : undefined, token), FILE);
  }
  for (const token of config.addedTokens) add(token, CONFIG_FILE);
  for (const [id, content] of pieces) {
    if (!special.has(content) || byContent.has(content) || contentOfId.has(id)) continue;
    add(readAddedToken(FILE, id, { content, special: true }), FILE);
  }
  return [...byContent.values()];
}

/** The library reads fields that other writers leave out, so they are filled in for it. */
function createLibraryTokenizer(
  tokenizerJson: Readonly<Record<string, unknown>>,
  added: readonly AddedToken[],
  config: TokenizerConfig,
): HuggingFaceTokenizer {
  const { model } = tokenizerJson;
  if (isRecord(model) && model.type === "BPE" && !Array.isArray(model.merges)) {
    throw new CheckpointError(FILE, "it is not a list", "model.merges");
  }
  try {
    const library = new HuggingFaceTokenizer(
      {
        normalizer: null,
        post_processor: null,
        decoder: null,
        ...tokenizerJson,
        pre_tokenizer: spellOutCut(tokenizerJson.pre_tokenizer ?? null),
        added_tokens: added.map((token) => ({
          id: token.id,
          content: token.content,
          special: token.special,
          single_word: false,
          lstrip: token.lstrip,
          rstrip: token.rstrip,
          normalized: token.normalized,
        })),
      },
      config.roles,
    );
    // Some fields are only read when there is a text, and patterns only compiled then.
    library.encode(TRIAL, { add_special_tokens: true });
    return library;
  } catch (error) {
    throw new CheckpointError(FILE, (error as Error).message, undefined, { cause: error });
  }
}

function refuseMissingBytes(text: string, missing: ReadonlySet<number>): void {
  const byte = new TextEncoder().encode(text).find((value) => missing.has(value));
  if (byte === undefined) return;
  throw new InvalidRequestError(
    `Cannot encode the text: the vocabulary has no token for byte 0x${byte.toString(16)}`,
  );
}

function encodeWith(library: HuggingFaceTokenizer, text: string): number[] {
  const { ids, tokens } = encodePieces(library, text);
  // Typed as numbers, but undefined for a piece without an id.
  const missing = (ids as (number | undefined)[]).indexOf(undefined);
  if (missing >= 0) {
    throw new InvalidRequestError(
      `Cannot encode the text: the vocabulary has no token for ${JSON.stringify(tokens[missing])}`,
    );
  }
  return ids;
}

/** The library fails in ways of its own, at patterns that grow too large and texts too long for it. */
function encodePieces(library: HuggingFaceTokenizer, text: string) {
  try {
    return library.encode(text, { add_special_tokens: false });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new InvalidRequestError(`Cannot encode the text: ${reason}`, undefined, { cause: error });
  }
}

/** What the tokenizer's own template would do, for a configuration that does not say. */
function postProcessorAddsBos(
  library: HuggingFaceTokenizer,
  bosTokenId: number | undefined,
): boolean {
  if (bosTokenId === undefined) return false;
  return library.encode("", { add_special_tokens: true }).ids[0] === bosTokenId;
}
