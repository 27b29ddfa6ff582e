/**
 * What white space is, where text is cut before merging.
 *
 * The patterns are written for regular expressions whose `\s` is Unicode's White_Space. The one of
 * JavaScript takes U+FEFF for a space and U+0085 for none, and would cut such text elsewhere. The
 * tokenizer library knows that for the patterns of a file, but not for those that are built in.
 *
 * @module
 */

import { isRecord } from "./tokenizer_config.ts";

/** GPT-2's own cut, which the ByteLevel pre-tokenizer makes unless it is told not to. */
const GPT2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/** A pattern of JavaScript in which `\s` and `\S` are spelled out. */
export function spellOutSpaces({ source, flags }: RegExp): RegExp {
  const spelled = source.replace(/\\(.)/gs, (whole, letter) => {
    if (letter === "s") return "\\p{White_Space}";
    return letter === "S" ? "\\P{White_Space}" : whole;
  });
  return new RegExp(spelled, flags);
}

/** A pre-tokenizer of a parsed tokenizer.json that makes GPT-2's cut by a pattern of its own. */
export function spellOutCut(preTokenizer: unknown): unknown {
  if (!isRecord(preTokenizer)) return preTokenizer;
  const { type, pretokenizers } = preTokenizer;
  if (type === "Sequence" && Array.isArray(pretokenizers)) {
    return { ...preTokenizer, pretokenizers: pretokenizers.map(spellOutCut) };
  }
  // A space put in front comes before the cut, so that the cut has to stay inside.
  const cuts = type === "ByteLevel" && preTokenizer.use_regex !== false;
  if (!cuts || preTokenizer.add_prefix_space !== false) return preTokenizer;
  return {
    type: "Sequence",
    pretokenizers: [
      { type: "Split", pattern: { Regex: GPT2 }, behavior: "Isolated", invert: false },
      { ...preTokenizer, use_regex: false },
    ],
  };
}
