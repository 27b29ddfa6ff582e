/**
 * What every token id stands for, in bytes.
 *
 * A token is a run of bytes, not of characters: one character may be spread over several tokens.
 * Text made from ids therefore goes through these bytes and a decoder that waits for whole
 * characters (`detokenizer.ts`). Token masks read the same table.
 *
 * @module
 */

import { CheckpointError, UnsupportedError } from "../errors.ts";
import { type AddedToken, isRecord, MAX_TOKEN_ID } from "./tokenizer_config.ts";

const FILE = "tokenizer.json";

/** Ids that no token has, in any vocabulary and for each token of a large one. */
export const MAX_HOLES = 2 ** 18;
export const HOLES_PER_TOKEN = 4;

/** How a vocabulary writes bytes as text. */
export type PieceEncoding =
  /** Every byte is one printable character, as GPT-2 does. */
  | "byte-level"
  /** UTF-8 text with U+2581 for the space, and `<0xNN>` for single bytes, as SentencePiece does. */
  | "sentencepiece";

/** One token: its id and its bytes. */
export type TokenBytes = readonly [id: number, bytes: Uint8Array];

export class Vocabulary {
  /** Largest id + 1. */
  readonly size: number;
  /** All bytes end to end; token `i` has `[#starts[i], #starts[i + 1])`. */
  readonly #bytes: Uint8Array;
  readonly #starts: Uint32Array;
  readonly #added: ReadonlyMap<string, number>;
  readonly #special: ReadonlySet<number>;

  /**
   * @param added Win over `pieces` of the same id.
   * @throws {CheckpointError} when an id is far beyond what so many tokens need.
   */
  constructor(pieces: Iterable<TokenBytes>, added: readonly AddedToken[]) {
    const encoder = new TextEncoder();
    const table = new Map<number, Uint8Array>();
    for (const [id, bytes] of pieces) table.set(id, bytes);
    for (const { id, content } of added) table.set(id, encoder.encode(content));

    this.size = sizeOf(table);
    this.#starts = new Uint32Array(this.size + 1);
    for (let id = 0; id < this.size; id++) {
      this.#starts[id + 1] = this.#starts[id]! + (table.get(id)?.length ?? 0);
    }
    this.#bytes = new Uint8Array(this.#starts[this.size]!);
    for (const [id, bytes] of table) this.#bytes.set(bytes, this.#starts[id]!);
    this.#added = new Map(added.map(({ content, id }) => [content, id]));
    this.#special = new Set(added.filter(({ special }) => special).map(({ id }) => id));
  }

  /** Bytes of a token; none for an id without a token. A view: do not write to it. */
  bytes(id: number): Uint8Array {
    const start = this.#starts[id];
    const end = this.#starts[id + 1];
    if (start === undefined || end === undefined) return this.#bytes.subarray(0, 0);
    return this.#bytes.subarray(start, end);
  }

  /** Whether the token is left out of the text when special tokens are skipped. */
  isSpecial(id: number): boolean {
    return this.#special.has(id);
  }

  /** Id of an added token, special or not; ordinary tokens are not looked up. */
  id(content: string): number | undefined {
    return this.#added.get(content);
  }

  /** A token on its own as text; U+FFFD stands for parts of characters. */
  text(id: number): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.bytes(id));
  }
}

/** Largest id + 1, where the ids without a token are not more than vocabularies leave. */
function sizeOf(table: ReadonlyMap<number, unknown>): number {
  let size = 0;
  for (const id of table.keys()) size = Math.max(size, id + 1);
  if (size <= MAX_HOLES + HOLES_PER_TOKEN * table.size) return size;
  throw new CheckpointError(FILE, `token id ${size - 1} is too large for ${table.size} tokens`);
}

/**
 * Reads `model.vocab` of a parsed tokenizer.json: piece -> id, or a list of [piece, score].
 *
 * @throws {CheckpointError} when it is missing or malformed, or two pieces share an id.
 */
export function readPieces(tokenizerJson: Readonly<Record<string, unknown>>): Map<number, string> {
  const { model } = tokenizerJson;
  if (!isRecord(model)) throw new CheckpointError(FILE, "it is not an object", "model");
  const { vocab } = model;
  if (!isRecord(vocab) && !Array.isArray(vocab)) {
    throw new CheckpointError(FILE, "it is neither an object nor a list", "model.vocab");
  }
  const entries: Iterable<readonly [unknown, unknown]> = Array.isArray(vocab)
    ? vocab.map((entry: unknown, id) => [Array.isArray(entry) ? entry[0] : entry, id] as const)
    : Object.entries(vocab);

  const pieces = new Map<number, string>();
  for (const [piece, id] of entries) {
    if (typeof piece !== "string") {
      throw new CheckpointError(FILE, `entry ${String(id)} has no text`, "model.vocab");
    }
    if (typeof id !== "number" || !Number.isInteger(id) || id < 0 || id > MAX_TOKEN_ID) {
      const problem = `piece ${JSON.stringify(piece)} has id ${JSON.stringify(id)}`;
      throw new CheckpointError(FILE, problem, "model.vocab");
    }
    if (pieces.has(id)) {
      const problem = `pieces ${JSON.stringify(pieces.get(id))} and ${JSON.stringify(piece)} share id ${id}`;
      throw new CheckpointError(FILE, problem, "model.vocab");
    }
    pieces.set(id, piece);
  }
  return pieces;
}

/** Bytes of every piece. */
export function* pieceBytes(
  pieces: ReadonlyMap<number, string>,
  encoding: PieceEncoding,
): Generator<TokenBytes> {
  const toBytes = encoding === "byte-level" ? byteLevelDecoder() : sentencePieceDecoder();
  for (const [id, piece] of pieces) yield [id, toBytes(piece)];
}

/**
 * Finds how the pieces are written, from `decoder` of a parsed tokenizer.json.
 *
 * @throws {UnsupportedError} naming the decoder, when it is of neither kind.
 */
export function pieceEncoding(tokenizerJson: Readonly<Record<string, unknown>>): PieceEncoding {
  const steps = decoderSteps(tokenizerJson.decoder);
  for (const step of steps) {
    if (!isKnownStep(step)) {
      throw new UnsupportedError(`tokenizer decoder ${JSON.stringify(step)}`);
    }
  }
  if (steps.some(({ type }) => type === "ByteLevel")) return "byte-level";
  if (steps.some(({ type }) => type === "Replace" || type === "Metaspace")) return "sentencepiece";
  throw new UnsupportedError(
    "this tokenizer",
    "its decoder is neither byte-level nor SentencePiece's",
  );
}

/**
 * Whether decoding a whole text drops the one space that encoding has put in front of it.
 * A completion continues a prompt, so its first space is its own and stays.
 */
export function stripsLeadingSpace(tokenizerJson: Readonly<Record<string, unknown>>): boolean {
  return decoderSteps(tokenizerJson.decoder).some(
    ({ type, start, prepend_scheme: scheme, add_prefix_space: prefix }) =>
      (type === "Strip" && start === 1) ||
      (type === "Metaspace" && scheme !== "never" && prefix !== false),
  );
}

type DecoderStep = Readonly<Record<string, unknown>>;

function decoderSteps(decoder: unknown): DecoderStep[] {
  if (!isRecord(decoder)) return [];
  if (decoder.type !== "Sequence") return [decoder];
  return Array.isArray(decoder.decoders) ? decoder.decoders.flatMap(decoderSteps) : [];
}

function isKnownStep(step: DecoderStep): boolean {
  switch (step.type) {
    case "ByteLevel":
    case "ByteFallback":
    case "Fuse":
      return true;
    case "Metaspace":
      return (step.replacement ?? "\u2581") === "\u2581";
    case "Replace":
      return isRecord(step.pattern) && step.pattern.String === "\u2581" && step.content === " ";
    case "Strip":
      return step.content === " " && (step.start === 0 || step.start === 1) && step.stop === 0;
    default:
      return false;
  }
}

/**
 * Bytes of UTF-8 that a byte-level vocabulary has no piece for; most have all. Merging would drop
 * them from the text without a word.
 */
export function missingBytes(pieces: ReadonlyMap<number, string>): Set<number> {
  const known = new Set(pieces.values());
  const missing = new Set<number>();
  for (const [character, byte] of byteOfCharacter()) {
    const inUtf8 = byte < 0xc0 || (byte > 0xc1 && byte < 0xf5);
    if (inUtf8 && !known.has(character)) missing.add(byte);
  }
  return missing;
}

/**
 * GPT-2's table, character -> byte: printable Latin-1 characters stand for their own code, and the
 * 68 other bytes, in rising order, for U+0100 onwards.
 */
function byteOfCharacter(): Map<string, number> {
  const table = new Map<string, number>();
  let next = 0x100;
  for (let byte = 0; byte < 256; byte++) {
    const printable =
      (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xff && byte !== 0xad);
    table.set(String.fromCharCode(printable ? byte : next++), byte);
  }
  return table;
}

/** A piece with a character outside the table is plain text, as in the Rust tokenizers. */
function byteLevelDecoder(): (piece: string) => Uint8Array {
  const encoder = new TextEncoder();
  const table = byteOfCharacter();
  return (piece) => {
    const bytes = new Uint8Array(piece.length);
    for (let i = 0; i < piece.length; i++) {
      const byte = table.get(piece[i]!);
      if (byte === undefined) return encoder.encode(piece);
      bytes[i] = byte;
    }
    return bytes;
  };
}

function sentencePieceDecoder(): (piece: string) => Uint8Array {
  const encoder = new TextEncoder();
  return (piece) => {
    const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(piece);
    if (byte !== null) return Uint8Array.of(Number.parseInt(byte[1]!, 16));
    return encoder.encode(piece.replaceAll("\u2581", " "));
  };
}
