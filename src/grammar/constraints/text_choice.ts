/**
 * A list of texts, of which a completion is exactly one.
 *
 * @module
 */

import { type CodePointAutomaton, type Grammar, grammarOf, regular } from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";

/** Texts at most, and UTF-16 units of all of them: labels to choose from, not documents. */
export const MAX_TEXTS = 10_000;
export const MAX_UNITS = 100_000;

/**
 * @param source A list of texts, as JSON.
 * @throws {GrammarError} when it is none, is empty, or is beyond a limit.
 */
export function textChoiceGrammar(source: string): Grammar {
  const texts = readTexts(source);
  const units = texts.reduce((sum, { length }) => sum + length, 0);
  if (texts.length > MAX_TEXTS || units > MAX_UNITS) {
    throw refusal(`it has more than ${MAX_TEXTS} texts or ${MAX_UNITS} characters`);
  }
  const half = texts.findIndex((one) => /\p{Surrogate}/u.test(one));
  if (half >= 0) throw refusal("UTF-8 cannot spell half a surrogate pair", `/${half}`);
  return grammarOf(regular(treeOf(texts)));
}

/** Texts that begin alike share their states, so that one text at most is followed at any time. */
function treeOf(texts: readonly string[]): CodePointAutomaton {
  const nodes: { accepting: boolean; readonly next: Map<number, number> }[] = [];
  const add = () => nodes.push({ accepting: false, next: new Map() }) - 1;
  add();
  for (const text of texts) {
    let node = 0;
    for (const character of text) {
      const { next } = nodes[node]!;
      const point = character.codePointAt(0)!;
      node = next.get(point) ?? add();
      next.set(point, node);
    }
    nodes[node]!.accepting = true;
  }
  const edges = (next: ReadonlyMap<number, number>) =>
    [...next].map(([point, target]) => ({ first: point, last: point, target }));
  return { states: nodes.map(({ accepting, next }) => ({ accepting, edges: edges(next) })) };
}

function readTexts(source: string): readonly string[] {
  let list: unknown;
  try {
    list = JSON.parse(source);
  } catch (cause) {
    throw new GrammarError(`Cannot read the choice: ${(cause as Error).message}`, { cause });
  }
  if (!Array.isArray(list)) throw refusal("it must be a list of texts");
  if (list.length === 0) throw refusal("it must have a text to choose");
  const wrong = list.findIndex((one) => typeof one !== "string");
  if (wrong >= 0) throw refusal("it must be a text", `/${wrong}`);
  return list;
}

function refusal(problem: string, path?: string): GrammarError {
  return new GrammarError(`Cannot use the choice: ${problem}`, { path });
}
