/**
 * Which tokens may come next where items must differ from those before them.
 *
 * The mask of a configuration tells which tokens stay before the next sign, whatever is remembered.
 * Three kinds of tokens are followed one by one on top of it: those that pass a sign, and of those
 * that stay inside of an item the few that may lead to one that stands in the list already.
 *
 * @module
 */

import type { Configuration } from "../automaton/configurations.ts";
import { Enclosure } from "../masks/enclosure.ts";
import type { GrammarVocabulary } from "../masks/grammar_vocabulary.ts";
import { TextRegions, WORTH_A_LOOK } from "../masks/text_regions.ts";
import type { TokenTrie } from "../masks/token_trie.ts";
import { SEVERAL } from "../masks/trie_nodes.ts";
import { DEAD, UNKNOWN, WalkStates } from "../masks/walk_states.ts";
import { isSign } from "./distinct_bytes.ts";
import type { Position, Positions } from "./positions.ts";

/** What a list or an object begins with, and with it the last bytes of items. */
const BEFORE_LISTS: ReadonlySet<number> = new Set(new TextEncoder().encode("[{"));
const BEFORE_SIGNS: ReadonlySet<number> = new Set(new TextEncoder().encode('"0123456789}]el[{'));

const COMMA: ReadonlySet<number> = new Set([0x2c]);
const QUOTE = 0x22;
const QUOTES: ReadonlySet<number> = new Set([QUOTE]);

/** Tokens that are followed between two chances to pause. */
const PIECE = 64;

/** What has to be known of a trie to find the tokens that pass a sign. */
interface SignPaths {
  /** Whether a byte before which a sign may stand is at the node or below it. */
  readonly toSigns: Uint8Array;
  /** The same of the signs of lists alone: outside of lists no other one counts. */
  readonly toLists: Uint8Array;
  /** The same of commas. */
  readonly toCommas: Uint8Array;
  /** The same of quotes, which are not only before signs. */
  readonly toQuotes: Uint8Array;
  /** The same of what ends plain text. */
  readonly toBreaks: Uint8Array;
  /** Node above each node, or -1. */
  readonly parents: Int32Array;
}

const signPathsOf = new WeakMap<TokenTrie, SignPaths>();

export class DistinctMasks {
  readonly #positions: Positions;
  readonly #vocabulary: GrammarVocabulary;
  /** Topmost trie nodes at which a sign stands that counts within lists, and outside of them. */
  readonly #signs = new WeakMap<Configuration, readonly number[]>();
  readonly #listSigns = new WeakMap<Configuration, readonly number[]>();
  /** Places from which a sign comes behind a quote at the earliest. */
  readonly #strings: Enclosure;

  constructor(positions: Positions, vocabulary: GrammarVocabulary) {
    this.#positions = positions;
    this.#strings = new Enclosure(positions.configurations, {
      passes: (first, last) => first !== QUOTE || last !== QUOTE,
      ends: (_, last) => isSign(last),
    });
    this.#vocabulary = vocabulary;
  }

  /**
   * Turns the mask of a position's configuration into that of the position; pauses now and then.
   *
   * @param words The mask; all tokens that the position does not allow are taken out, and those that
   * pass a sign are added.
   */
  *refine(position: Position, words: Uint32Array): Generator<void, void, void> {
    const signs = this.#signsOf(position);
    yield;
    const differing = new Differing(this.#positions);
    if (mayLeadToRepeated(position)) {
      this.#leaveOutRepeated(position, { words, signs: new Set(signs), differing });
    }
    let left = PIECE;
    for (const node of signs) {
      this.#follow(position, { node, words, differing });
      left -= 1;
      if (left > 0) continue;
      left = PIECE;
      yield;
    }
  }

  #signsOf({ configuration, memory }: Position): readonly number[] {
    const known = memory === undefined ? this.#listSigns : this.#signs;
    let signs = known.get(configuration);
    if (signs === undefined) {
      signs = this.#findSigns(configuration, memory !== undefined);
      known.set(configuration, signs);
    }
    return signs;
  }

  #findSigns(start: Configuration, isInList: boolean): number[] {
    const { configurations } = this.#positions;
    const { classOf } = configurations.automaton;
    const trie = this.#vocabulary.whole;
    const { toSigns, toLists, toBreaks, toQuotes } = signPaths(trie);
    const [isOnPath, before] = isInList ? [toSigns, BEFORE_SIGNS] : [toLists, BEFORE_LISTS];
    const { bytes, depths, ends, size } = trie;
    const states = new WalkStates(configurations);
    const hasSign = (state: number) => this.#positions.hasSign(states.at(state));
    const texts = new TextStates(states, { trie, hasSign });
    const inString: (boolean | undefined)[] = [];
    const isInString = (state: number): boolean => {
      inString[state] ??= this.#strings.has(states.at(state));
      return inString[state];
    };
    const path = new Int32Array(trie.maxDepth + 1);
    path[0] = states.of(start);
    const [dead, unknown] = [DEAD, UNKNOWN];
    const found: number[] = [];
    for (let node = 0; node < size; ) {
      const here = path[depths[node]! - 1]!;
      const hasNone =
        isOnPath[node] === 0 ||
        (toQuotes[node] === 0 && isInString(here)) ||
        (isInList && toBreaks[node] === 0 && texts.has(here));
      if (hasNone) {
        node = ends[node]!;
        continue;
      }
      const byteClass = classOf[bytes[node]!]!;
      let next = states.table[here * states.width + byteClass]!;
      if (next === unknown) next = states.resolve(here, byteClass);
      if (next === dead) {
        node = ends[node]!;
      } else if (before.has(bytes[node]!) && hasSign(next)) {
        found.push(node);
        node = ends[node]!;
      } else {
        path[depths[node]!] = next;
        node += 1;
      }
    }
    return found;
  }

  /** Follows a node and all below it anew. */
  #follow(
    position: Position,
    { node: top, words, differing }: Refined & { readonly node: number },
  ): void {
    const trie = this.#vocabulary.whole;
    const { bytes, depths, ends } = trie;
    for (let node = top; node < ends[top]!; node++) setBits(trie, { node, words, isOn: false });
    let before: Position | null = position;
    for (const byte of pathTo(trie, top)) before = before && this.#positions.step(before, byte);
    if (before === null) return;
    const path: Position[] = [];
    path[depths[top]! - 1] = before;
    for (let node = top; node < ends[top]!; ) {
      const depth = depths[node]!;
      const next = this.#positions.step(path[depth - 1]!, bytes[node]!);
      if (next === null) {
        node = ends[node]!;
        continue;
      }
      path[depth] = next;
      if (trie.tokens[node] !== NO_TOKEN && differing.has(next)) {
        setBits(trie, { node, words, isOn: true });
      }
      node += 1;
    }
  }

  /** Takes out tokens inside of the current item behind which it can only be one that is there. */
  #leaveOutRepeated(
    position: Position,
    { words, signs, differing }: Refined & { readonly signs: ReadonlySet<number> },
  ): void {
    const trie = this.#vocabulary.whole;
    const { bytes, depths, ends, tokens, size } = trie;
    const { toCommas } = signPaths(trie);
    const path = [position];
    for (let node = 0; node < size; ) {
      const depth = depths[node]!;
      const next = signs.has(node) ? null : this.#positions.step(path[depth - 1]!, bytes[node]!);
      if (
        next === null ||
        !mayLeadToRepeated(next) ||
        (isWithinValue(next) && toCommas[node] !== 1)
      ) {
        node = ends[node]!;
        continue;
      }
      path[depth] = next;
      if (tokens[node] !== NO_TOKEN && !differing.has(next)) {
        setBits(trie, { node, words, isOn: false });
      }
      node += 1;
    }
  }
}

/** States from which all plain text leads on without a sign. */
class TextStates {
  readonly #regions: TextRegions;
  readonly #trie: TokenTrie;
  readonly #known: (boolean | undefined)[] = [];

  constructor(
    states: WalkStates,
    { trie, hasSign }: { readonly trie: TokenTrie; readonly hasSign: (state: number) => boolean },
  ) {
    this.#trie = trie;
    this.#regions = new TextRegions(states, { isMarked: hasSign });
  }

  has(state: number): boolean {
    const { height } = this.#trie.texts.runs;
    const known = this.#known[state];
    if (known !== undefined) return known;
    const isText = this.#regions.of(state, height, WORTH_A_LOOK)?.isText ?? false;
    this.#known[state] = isText;
    return isText;
  }
}

interface Refined {
  readonly words: Uint32Array;
  readonly differing: Differing;
}

/** Which positions behind one have items that can differ: many tokens lead to a few places. */
class Differing {
  readonly #positions: Positions;
  readonly #known = new Map<Configuration, Map<string, boolean>>();

  constructor(positions: Positions) {
    this.#positions = positions;
  }

  has(position: Position): boolean {
    const { configuration, memory, hasItem } = position;
    const list = memory?.repeatable;
    if (memory === undefined || list === undefined) return true;
    if (hasItem && memory.lists <= list.count) return true;
    let known = this.#known.get(configuration);
    if (known === undefined) {
      known = new Map();
      this.#known.set(configuration, known);
    }
    const { likeness } = memory;
    let canDiffer = known.get(likeness);
    if (canDiffer === undefined) {
      canDiffer = this.#positions.canDiffer(position);
      known.set(likeness, canDiffer);
    }
    return canDiffer;
  }
}

/** Whether the current item may become one that is there, or the next one have no other value left. */
function mayLeadToRepeated({ memory }: Position): boolean {
  return memory !== undefined && (!memory.isInside || memory.isInValue || memory.mayRepeat());
}

/** Whether only a comma can lead on to what may be repeated. */
function isWithinValue({ memory }: Position): boolean {
  return memory?.isInValue === true && memory.isInside && !memory.mayRepeat();
}

const NO_TOKEN = -1;

function setBits(
  trie: TokenTrie,
  { node, words, isOn }: { readonly node: number; readonly words: Uint32Array; isOn: boolean },
): void {
  const token = trie.tokens[node]!;
  if (token === NO_TOKEN) return;
  const all = token <= SEVERAL ? trie.several[SEVERAL - token]! : [token];
  for (const one of all) {
    if (isOn) words[one >>> 5]! |= 1 << (one & 31);
    else words[one >>> 5]! &= ~(1 << (one & 31));
  }
}

/** Bytes on the way to a node, without its own. */
function pathTo(trie: TokenTrie, node: number): number[] {
  const { parents } = signPaths(trie);
  const way: number[] = [];
  for (let at = parents[node]!; at >= 0; at = parents[at]!) way.push(trie.bytes[at]!);
  return way.reverse();
}

function signPaths(trie: TokenTrie): SignPaths {
  let paths = signPathsOf.get(trie);
  if (paths === undefined) {
    const { size, bytes, depths, ends } = trie;
    const parents = new Int32Array(size);
    const above: number[] = [];
    for (let node = 0; node < size; node++) {
      const depth = depths[node]!;
      parents[node] = depth === 1 ? -1 : above[depth - 1]!;
      above[depth] = node;
    }
    const pathsTo = (found: ReadonlySet<number>): Uint8Array => {
      const isOnPath = new Uint8Array(size);
      for (let node = size - 1; node >= 0; node--) {
        if (found.has(bytes[node]!)) isOnPath[node] = 1;
        const parent = parents[node]!;
        if (isOnPath[node] === 1 && parent >= 0) isOnPath[parent] = 1;
      }
      return isOnPath;
    };
    const [toSigns, toLists] = [pathsTo(BEFORE_SIGNS), pathsTo(BEFORE_LISTS)];
    const toBreaks = new Uint8Array(size);
    for (const broken of trie.texts.runs.breaks) {
      for (let node = broken; node >= 0 && toBreaks[node] === 0; node = parents[node]!)
        toBreaks[node] = 1;
    }
    // What is below a break is no plain text.
    for (const broken of trie.texts.runs.breaks) toBreaks.fill(1, broken, ends[broken]);
    paths = {
      toSigns,
      toLists,
      toCommas: pathsTo(COMMA),
      toQuotes: pathsTo(QUOTES),
      toBreaks,
      parents,
    };
    signPathsOf.set(trie, paths);
  }
  return paths;
}
