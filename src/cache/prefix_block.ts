/**
 * A stored prefix in blocks: what they are known by, and the bytes they are kept as.
 *
 * A block has the cache pages of a fixed number of tokens. Its key is the SHA-256 of the key of the
 * block before it and of its tokens, from a root that tells what everything depends on: so a key
 * stands for the whole prefix up to the block's end, prefixes that begin alike share their blocks,
 * and a prompt finds its own without reading any. Where rows of images stand in place of tokens, the
 * key is of what they are, too.
 *
 * | bytes | what |
 * |---|---|
 * | `[0, 4)` | magic, "WSPB" |
 * | `[4, 8)` | version |
 * | `[8, 12)` | number of tokens |
 * | `[12, 16)` | CRC-32C of the key and the tokens |
 * | `[16, 48)` | key of the block before it |
 * | tokens | 32 bits each |
 * | pages | as the page codec packs them, with a checksum of their own |
 *
 * Numbers are little endian.
 *
 * @module
 */
import { TransferError } from "../errors.ts";
import { crc32c } from "./crc32c.ts";

export interface PrefixBlock {
  /** 64 hexadecimal digits: its key. */
  readonly name: string;
  /** Key of the block before it, or the root. */
  readonly parent: Uint8Array<ArrayBuffer>;
  readonly tokens: Uint32Array<ArrayBuffer>;
  /** Tokens of the prefix that ends with it. */
  readonly end: number;
}

/** What stands in a prompt where its tokens are placeholders of images: by position, what no other row has. */
export type Contents = ReadonlyMap<number, string>;

const MAGIC = 0x42505357;
/** Also in the root of all keys: blocks of another version are never found. */
export const BLOCK_VERSION = 1;
const CHECKED_AT = 16;
const KEY_BYTES = 32;
const TOKENS_AT = CHECKED_AT + KEY_BYTES;
const WORD = 4;

/** The key before the first block. Equal facts have equal roots. */
export function rootKey(facts: unknown): Promise<Uint8Array<ArrayBuffer>> {
  return sha256(new TextEncoder().encode(JSON.stringify(facts)));
}

/**
 * The whole blocks of a prefix, one after another.
 *
 * @param tokens Token ids below 2^32.
 */
export async function* blocksOf(
  tokens: readonly number[],
  {
    root,
    blockTokens,
    contents,
  }: {
    readonly root: Uint8Array<ArrayBuffer>;
    readonly blockTokens: number;
    readonly contents?: Contents | undefined;
  },
): AsyncGenerator<PrefixBlock, void> {
  let parent = root;
  for (let end = blockTokens; end <= tokens.length; end += blockTokens) {
    const own = Uint32Array.from(tokens.slice(end - blockTokens, end));
    const words = concatenated(littleEndian(own), contentsOf(contents, end - blockTokens, end));
    const key = await sha256(concatenated(parent, words));
    yield { name: hexadecimal(key), parent, tokens: own, end };
    parent = key;
  }
}

/** What stands between two positions of a prompt in place of tokens, as bytes; none where nothing does. */
export function contentsOf(
  contents: Contents | undefined,
  start: number,
  end: number,
): Uint8Array<ArrayBuffer> {
  const found: (readonly [number, string])[] = [];
  for (let position = start; contents !== undefined && position < end; position++) {
    const content = contents.get(position);
    if (content !== undefined) found.push([position - start, content]);
  }
  return new TextEncoder().encode(found.length === 0 ? "" : JSON.stringify(found));
}

/** What stands in a block's bytes before its pages. */
export function blockHead({ parent, tokens }: PrefixBlock): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(TOKENS_AT + WORD * tokens.length);
  bytes.set(parent, CHECKED_AT);
  bytes.set(littleEndian(tokens), TOKENS_AT);
  const view = new DataView(bytes.buffer);
  const words = [MAGIC, BLOCK_VERSION, tokens.length, crc32c(bytes.subarray(CHECKED_AT))];
  words.forEach((word, i) => {
    view.setUint32(WORD * i, word, true);
  });
  return bytes;
}

/**
 * Checks that bytes are those of a block, all but the pages themselves, which the codec checks.
 *
 * @param packedSizes Lengths that the block's pages may have.
 * @returns Its pages.
 * @throws {TransferError} naming what is wrong.
 */
export function openBlock(
  bytes: Uint8Array<ArrayBuffer>,
  block: PrefixBlock,
  packedSizes: readonly number[],
): Uint8Array<ArrayBuffer> {
  const head = blockHead(block);
  if (!packedSizes.includes(bytes.length - head.length)) {
    const wanted = packedSizes.map((size) => head.length + size).join(" or ");
    refuse("length", `they are ${bytes.length} bytes and not ${wanted}`);
  }
  const different = head.findIndex((byte, i) => bytes[i] !== byte);
  if (different >= 0) refuse(fieldAt(different), "it is not the block's");
  return bytes.subarray(head.length);
}

function fieldAt(at: number): string {
  if (at >= TOKENS_AT) return "tokens";
  if (at >= CHECKED_AT) return "key";
  return ["magic", "version", "length", "checksum"][Math.floor(at / WORD)]!;
}

function littleEndian(words: Uint32Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(WORD * words.length);
  const view = new DataView(bytes.buffer);
  words.forEach((word, i) => {
    view.setUint32(WORD * i, word, true);
  });
  return bytes;
}

function concatenated(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(a.length + b.length);
  bytes.set(a);
  bytes.set(b, a.length);
  return bytes;
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

function hexadecimal(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function refuse(field: string, problem: string): never {
  throw new TransferError("a stored prefix", field, problem);
}
