/**
 * Follows all tokens of a trie through a grammar at once.
 *
 * @module
 */

import type { Configuration, Configurations } from "../automaton/configurations.ts";
import { CharacterFan, FanSearch } from "./character_fan.ts";
import { EvenSubtrees } from "./even_subtrees.ts";
import type { TokenTrie } from "./token_trie.ts";
import { SEVERAL } from "./trie_nodes.ts";

export interface TrieWalkOptions {
  readonly configurations: Configurations;
  readonly trie: TokenTrie;
  /** Gets the bits of the tokens that lead somewhere. */
  readonly words: Uint32Array;
  /** Nodes behind ways to end that are worth knowing; where there are more, `ends` is undefined. Default 0. */
  readonly mostBehind?: number | undefined;
}

/** Nodes, and threads followed for new configurations, between two chances to pause. */
const PIECE = { nodes: 1024, work: 1024 };

/** Below it, a byte is a character. */
const FIRST_LONG = 0x80;
/** Nodes of the smallest subtrees that are taken as text. */
const LEAST_NODES = 4;

export class TrieWalk {
  /** Nodes with others below at which a text of the grammar may end, in the order they were met. */
  readonly #ends: number[] = [];
  #left: number;
  #reach = 0;
  readonly #configurations: Configurations;
  readonly #trie: TokenTrie;
  readonly #words: Uint32Array;
  /** Configuration behind each byte of the way to the current node, by depth. */
  readonly #path: Configuration[] = [];
  readonly #even: EvenSubtrees;
  readonly #search: FanSearch;
  /** Those that the current node is in, the innermost last. */
  readonly #runs: Run[] = [];

  constructor({ configurations, trie, words, mostBehind = -1 }: TrieWalkOptions) {
    this.#configurations = configurations;
    this.#trie = trie;
    this.#words = words;
    this.#left = mostBehind;
    this.#search = new FanSearch(configurations);
    const isMarked = ({ accepting }: Configuration) => accepting;
    this.#even = new EvenSubtrees({ configurations, texts: trie.texts, isMarked });
  }

  /** The nodes at which a text may end and the token goes on; undefined when too much is behind. */
  get ends(): readonly number[] | undefined {
    return this.#left < 0 ? undefined : this.#ends;
  }

  /** Deepest stack of all configurations on the way, or above it. */
  get reach(): number {
    return Math.max(this.#reach, this.#even.reach, this.#search.reach);
  }

  /**
   * Follows a subtree whose root is reached in a configuration; pauses now and then.
   *
   * @param depth Bytes on the way to the root of the subtree.
   */
  *follow(
    start: Configuration,
    { from, to, depth }: { readonly from: number; readonly to: number; readonly depth: number },
  ): Generator<void, void, void> {
    this.#path[depth] = start;
    this.#runs.length = 0;
    let node = this.#enter(start, { from, to });
    while (node < to) {
      node = this.#advance(node, to);
      if (node < to) yield;
    }
  }

  /** Goes into the subtree of the node in front of it, or into the whole trie, as a run of text if it can. */
  #enter(start: Configuration, { from, to }: { from: number; to: number }): number {
    const { runs } = this.#trie.texts;
    const isWhole = from === 0 && to === this.#trie.size;
    if (!isWhole && !runs.mayGoOn(from - 1)) return from;
    const most = isWhole ? runs.height : runs.heights[from - 1]!;
    const chain = this.#chain(start, most);
    if (chain === undefined) return from;
    const base = isWhole ? 0 : runs.characters[from - 1]!;
    for (let i = 0; isWhole && i < runs.plain.length; i++) this.#words[i]! |= runs.plain[i]!;
    return this.#run({ to, chain, base, isMarked: isWhole, next: runs.breakFrom(from) }, from);
  }

  /** @returns The node to go on with. */
  #advance(from: number, to: number): number {
    const { bytes, depths, ends, tokens } = this.#trie;
    const { classOf } = this.#configurations.automaton;
    const path = this.#path;
    const leastWork = this.#configurations.workLeft - PIECE.work;
    let node = from;
    for (let left = PIECE.nodes; left > 0; left--) {
      node = this.#resumeRuns(node);
      if (node >= to) break;
      const here = path[depths[node]! - 1]!;
      const lead = bytes[node]!;
      const behind = this.#takeText(here, node);
      if (behind !== undefined) {
        node = behind;
        continue;
      }
      if (this.#even.takes(here, node, { lead, mayBeMarked: this.#left < 0 })) {
        left -= this.#takeSubtree(node);
        node = ends[node]!;
        continue;
      }
      const byteClass = classOf[lead]!;
      let next = here.next(byteClass);
      if (next === undefined) {
        next = this.#configurations.step(here, byteClass);
        if (this.#configurations.workLeft < leastWork) left = 0;
      }
      if (next === null) {
        node = ends[node]!;
        continue;
      }
      path[depths[node]!] = next;
      this.#mark(tokens[node]!);
      if (next.accepting && this.#left >= 0) this.#end(node, ends[node]! - node - 1);
      if (next.reach > this.#reach) this.#reach = next.reach;
      node += 1;
    }
    return node;
  }

  /**
   * Takes a subtree that is text up to its breaks.
   *
   * @returns The node to go on with, or undefined where it is none.
   */
  #takeText(here: Configuration, node: number): number | undefined {
    const to = this.#trie.ends[node]!;
    if (to - node < LEAST_NODES) return undefined;
    const { runs } = this.#trie.texts;
    const lead = this.#trie.bytes[node]!;
    if (!runs.begins(node) || (lead >= FIRST_LONG && runs.isBreak(node))) return undefined;
    const first = CharacterFan.of(here).target(lead, this.#search);
    if (first === null || (first.accepting && this.#left >= 0)) return undefined;
    const chain = this.#chain(first, runs.heights[node]!);
    if (chain === undefined) return undefined;
    const base = runs.characters[node]!;
    return this.#run({ to, chain, base, isMarked: false, next: runs.breakFrom(node + 1) }, node);
  }

  /** The places that characters of plain text lead to one after the other, or undefined where they are several. */
  #chain(first: Configuration, length: number): readonly Configuration[] | undefined {
    const chain = [first];
    for (let here = first; chain.length <= length; ) {
      const next = CharacterFan.of(here).text(this.#search);
      if (next === null || (next.accepting && this.#left >= 0)) return undefined;
      chain.push(next);
      if (next === here) break;
      here = next;
    }
    return chain;
  }

  /** @returns The node to go on with, where a run may have gone on to. */
  #resumeRuns(from: number): number {
    let node = from;
    for (let run = this.#runs.at(-1); run !== undefined && node >= run.resume; ) {
      node = this.#resume(run);
      run = this.#runs.at(-1);
    }
    return node;
  }

  /** @returns The node to go on with. */
  #run(run: Omit<Run, "resume">, from: number): number {
    const begun = { ...run, resume: from };
    this.#runs.push(begun);
    return this.#resume(begun);
  }

  /** Marks the text up to the next break, which is to be followed, or to the end. */
  #resume(run: Run): number {
    const { breaks, characters } = this.#trie.texts.runs;
    const { depths, ends } = this.#trie;
    const node = run.resume;
    const broken = breaks[run.next] ?? run.to;
    if (!run.isMarked) this.#takeTokens(node, Math.min(broken, run.to));
    if (broken >= run.to) {
      this.#runs.pop();
      return run.to;
    }
    const place = characters[broken]! - 1 - run.base;
    this.#path[depths[broken]! - 1] = run.chain[Math.min(place, run.chain.length - 1)]!;
    run.resume = ends[broken]!;
    while (breaks[run.next]! < run.resume) run.next += 1;
    return broken;
  }

  #end(node: number, behind: number): void {
    if (behind === 0) return;
    this.#left -= behind;
    this.#ends.push(node);
  }

  /** @returns Nodes that would have taken as long. */
  #takeSubtree(node: number): number {
    return this.#takeTokens(node, this.#trie.ends[node]!) >>> 4;
  }

  /** @returns How many they are. */
  #takeTokens(from: number, to: number): number {
    const { tokens, before } = this.#trie.texts;
    const [first, end] = [before[from]!, before[to]!];
    const words = this.#words;
    for (let i = first; i < end; i++) {
      const token = tokens[i]!;
      words[token >>> 5]! |= 1 << (token & 31);
    }
    return end - first;
  }

  #mark(token: number): void {
    if (token >= 0) this.#words[token >>> 5]! |= 1 << (token & 31);
    else if (token <= SEVERAL) {
      for (const one of this.#trie.several[SEVERAL - token]!) {
        this.#words[one >>> 5]! |= 1 << (one & 31);
      }
    }
  }
}

/** A part of the trie that is plain text up to its breaks. */
interface Run {
  /** First node behind it. */
  readonly to: number;
  /** Places behind its characters; the last one stands for all that follow. */
  readonly chain: readonly Configuration[];
  /** Characters in front of the first place of `chain`. */
  readonly base: number;
  /** Whether its tokens are marked. */
  readonly isMarked: boolean;
  /** Index of a break that is not behind the next one. */
  next: number;
  /** Node to go on from. */
  resume: number;
}
