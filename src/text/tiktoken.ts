/**
 * Tokenizers of OpenAI's encodings, by name, for models that are published without a
 * tokenizer.json of their own (gpt-oss uses o200k_harmony).
 *
 * The tables are megabytes; each is loaded when it is first asked for. Of the library only the
 * merging is used: its search for special tokens and its streaming decoder are not.
 *
 * @module
 */

import { CheckpointError, UnsupportedError } from "../errors.ts";
import { spellOutSpaces } from "./split_pattern.ts";
import { type Encoder, Tokenizer } from "./tokenizer.ts";
import { type AddedToken, readTokenizerConfig } from "./tokenizer_config.ts";
import { type TokenBytes, Vocabulary } from "./vocabulary.ts";

const ENCODINGS = ["cl100k_base", "o200k_base", "o200k_harmony"] as const;

export type TiktokenEncoding = (typeof ENCODINGS)[number];

/**
 * Longest run handed to the merging in one piece, in UTF-16 units. Its time grows with the square
 * of the run, so one endless word must not stall the process; Llama 3 cuts its text here as well.
 */
const MAX_RUN = 25_000;

/** What the library's tables hold for one encoding. */
interface EncodingTables {
  /** `[id]` is text where the bytes are valid UTF-8, else the bytes. */
  readonly bytePairRankDecoder: readonly (string | readonly number[])[];
  readonly specialTokensEncoder?: Map<string, number>;
  readonly tokenSplitRegex: RegExp;
}

/**
 * Builds the tokenizer of an encoding.
 *
 * @param tokenizerConfig Parsed tokenizer_config.json of the model: its BOS and EOS. Without it
 * there is no BOS, and `<|endoftext|>` ends a sequence.
 * @throws {UnsupportedError} when there is no such encoding.
 * @throws {CheckpointError} when the configuration names a token the encoding does not have.
 */
export async function createTiktokenTokenizer(
  encoding: string,
  tokenizerConfig?: unknown,
): Promise<Tokenizer> {
  const known = ENCODINGS.find((name) => name === encoding);
  if (known === undefined) {
    throw new UnsupportedError(`encoding "${encoding}"`, `known are ${ENCODINGS.join(", ")}`);
  }
  const [{ BytePairEncodingCore }, tables] = await Promise.all([
    import("gpt-tokenizer/BytePairEncodingCore"),
    loadTables(known),
  ]);

  const specials = tables.specialTokensEncoder ?? new Map<string, number>();
  const vocabulary = new Vocabulary(rankBytes(tables), [...specials].map(specialToken));
  const createCore = () =>
    new BytePairEncodingCore({
      bytePairRankDecoder: tables.bytePairRankDecoder,
      tokenSplitRegex: /.+/gsu, // splitting happens here, in encodeText
    });

  const config = readTokenizerConfig(tokenizerConfig);
  const { bos_token: bos, eos_token: eos = "<|endoftext|>" } = config.roles;
  for (const content of [bos, eos]) {
    if (content !== undefined && !specials.has(content)) {
      const problem = `"${content}" is not in the vocabulary of ${known}`;
      throw new CheckpointError("tokenizer_config.json", problem);
    }
  }
  const pattern = specialPattern([...specials.keys()]);
  const split = spellOutSpaces(tables.tokenSplitRegex);
  const createEncoder = (): Encoder => {
    const core = createCore();
    const parts = { pattern, specials, split, merge: (run: string) => core.encodeNative(run) };
    return {
      encode: (text) => encodeText(text, parts),
      addsBos: bos !== undefined && config.addBosToken === true,
    };
  };
  return new Tokenizer({
    vocabulary,
    createEncoder,
    bosTokenId: bos === undefined ? undefined : specials.get(bos),
    eosTokenId: specials.get(eos),
  });
}

async function loadTables(encoding: TiktokenEncoding): Promise<EncodingTables> {
  switch (encoding) {
    case "cl100k_base": {
      const [{ Cl100KBase }, { default: ranks }] = await Promise.all([
        import("gpt-tokenizer/encodingParams/cl100k_base"),
        import("gpt-tokenizer/bpeRanks/cl100k_base"),
      ]);
      return Cl100KBase(ranks);
    }
    case "o200k_base": {
      const [{ O200KBase }, { default: ranks }] = await Promise.all([
        import("gpt-tokenizer/encodingParams/o200k_base"),
        import("gpt-tokenizer/bpeRanks/o200k_base"),
      ]);
      return O200KBase(ranks);
    }
    case "o200k_harmony": {
      const [{ O200KHarmony }, { default: ranks }] = await Promise.all([
        import("gpt-tokenizer/encodingParams/o200k_harmony"),
        import("gpt-tokenizer/bpeRanks/o200k_base"),
      ]);
      return O200KHarmony(ranks);
    }
    default:
      return encoding satisfies never;
  }
}

function* rankBytes(tables: EncodingTables): Generator<TokenBytes> {
  const encoder = new TextEncoder();
  for (const [id, value] of tables.bytePairRankDecoder.entries()) {
    // Typed without holes, but an encoding may leave ids unused.
    if ((value as typeof value | undefined) === undefined) continue;
    yield [id, typeof value === "string" ? encoder.encode(value) : Uint8Array.from(value)];
  }
}

function specialToken([content, id]: readonly [string, number]): AddedToken {
  return { id, content, special: true, lstrip: false, rstrip: false, normalized: false };
}

/** Matches any special token, the longest first. */
function specialPattern(contents: readonly string[]): RegExp {
  const alternatives = contents
    .toSorted((a, b) => b.length - a.length)
    .map((content) => content.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return new RegExp(`(${alternatives.join("|")})`, "u");
}

interface EncodeParts {
  readonly pattern: RegExp;
  readonly specials: ReadonlyMap<string, number>;
  readonly split: RegExp;
  readonly merge: (run: string) => number[];
}

function encodeText(text: string, parts: EncodeParts): number[] {
  const ids: number[] = [];
  for (const section of text.split(parts.pattern)) {
    const special = parts.specials.get(section);
    if (special !== undefined) {
      ids.push(special);
      continue;
    }
    for (const [run] of section.matchAll(parts.split)) {
      for (const piece of cut(run)) {
        for (const id of parts.merge(piece)) ids.push(id);
      }
    }
  }
  return ids;
}

/** Cuts a run that is too long, never within a surrogate pair. */
function* cut(run: string): Generator<string> {
  let start = 0;
  while (run.length - start > MAX_RUN) {
    const last = run.charCodeAt(start + MAX_RUN - 1);
    const end = start + MAX_RUN - (last >= 0xd800 && last <= 0xdbff ? 1 : 0);
    yield run.slice(start, end);
    start = end;
  }
  yield run.slice(start);
}
