/**
 * Constraints of what a model answers once it has thought.
 *
 * @module
 */

import type { Thinking } from "../../constraint.ts";
import { embed } from "../embed.ts";
import {
  characters,
  type Expression,
  type Grammar,
  optional,
  regular,
  repeat,
  sequence,
} from "../expression.ts";
import { textUpTo, textWithout } from "./free_text.ts";
import type { Marks } from "./marks.ts";

/** The same grammar behind thoughts, and line breaks that follow them. */
export function afterThinking(
  grammar: Grammar,
  { thinking, marks }: { readonly thinking: Thinking | undefined; readonly marks: Marks },
): Grammar {
  if (thinking === undefined) return grammar;
  const { begin, end, isOpen } = thinking;
  const rules = new Map<string, Expression>();
  const answer = embed(rules, grammar, { prefix: "answer " });
  const thoughts = marks.occurs(end)
    ? sequence([regular(textWithout([])), marks.spell(end)])
    : regular(textUpTo([end], end));
  const lineBreaks = repeat(characters([[0x0a, 0x0a]]));
  const finished = sequence([thoughts, lineBreaks]);
  // A model that has not begun to think answers at once.
  const before = isOpen ? finished : optional(sequence([marks.spell(begin), finished]));
  rules.set("root", sequence([before, answer]));
  return { rules, root: "root", warnings: grammar.warnings };
}
