/**
 * Text that may be anything but for certain words.
 *
 * @module
 */

import { codePoints, invert } from "../automaton/code_points.ts";
import { AutomatonBuilder } from "../automaton/regular.ts";
import { spendEffort } from "../effort.ts";
import type { CodePointAutomaton } from "../expression.ts";

const NO_STATE = -1;
const BEGINNING_EFFORT = 1;
/** Of each way on that a beginning has from a shorter one. */
const COPY_EFFORT = 0.1;

/**
 * All texts in which none of the words occurs.
 *
 * @param words None of them empty.
 * @throws {GrammarError} when they are too long or too many.
 */
export function textWithout(words: readonly string[]): CodePointAutomaton {
  return wordAutomaton(words, undefined);
}

/**
 * All texts that end with `word` and in which none of the words has occurred before.
 *
 * @throws {GrammarError} when they are too long or too many.
 */
export function textUpTo(words: readonly string[], word: string): CodePointAutomaton {
  return wordAutomaton(words, word);
}

/** A beginning of words, which is the end of the text so far; no longer one is. */
interface Beginning {
  /** What the text ends with when it goes on by a code point; the empty beginning by all others. */
  readonly next: Map<number, Beginning>;
  /** The word that has just been completed: of several the longest. */
  word: string | undefined;
  /** In the automaton. */
  state: number;
}

/**
 * One state for each beginning of a word (Aho and Corasick, "Efficient string matching", 1975). A
 * word that is complete ends the text.
 */
function wordAutomaton(words: readonly string[], last: string | undefined): CodePointAutomaton {
  const builder = new AutomatonBuilder();
  const open = listBeginnings(words).filter(({ word }) => word === undefined);
  for (const beginning of open) beginning.state = builder.add(last === undefined);
  const end = last === undefined ? undefined : builder.add(true);
  for (const { next, state } of open) {
    const points = [...next.keys()].sort((a, b) => a - b);
    for (const [first, last] of invert(codePoints(points.map((point) => [point, point])))) {
      builder.connect(state, { first, last, target: open[0]!.state });
    }
    for (const point of points) {
      const { word, state: known } = next.get(point)!;
      const target = word === undefined ? known : word === last ? end : undefined;
      if (target !== undefined) builder.connect(state, { first: point, last: point, target });
    }
  }
  return builder.build();
}

/** Shorter ones first. */
function listBeginnings(words: readonly string[]): readonly Beginning[] {
  const root: Beginning = { next: new Map(), word: undefined, state: NO_STATE };
  for (const word of words) {
    let at = root;
    for (const character of word) {
      const point = character.codePointAt(0)!;
      let longer = at.next.get(point);
      if (longer === undefined) {
        longer = { next: new Map(), word: undefined, state: NO_STATE };
        at.next.set(point, longer);
      }
      at = longer;
    }
    at.word = word;
  }
  /** With the longest shorter one that it ends with. */
  const found: (readonly [Beginning, Beginning])[] = [[root, root]];
  for (const [beginning, shorter] of found) {
    beginning.word ??= shorter.word;
    for (const [point, longer] of beginning.next) {
      const tail = beginning === root ? root : (shorter.next.get(point) ?? root);
      found.push([longer, tail]);
    }
    // Beginnings of the same length have been left before: what is shorter is complete.
    if (beginning === root) continue;
    spendEffort(BEGINNING_EFFORT + COPY_EFFORT * shorter.next.size);
    for (const [point, tail] of shorter.next) {
      if (!beginning.next.has(point)) beginning.next.set(point, tail);
    }
  }
  return found.map(([beginning]) => beginning);
}
