/**
 * Follows all tokens of a trie through a grammar at once.
 *
 * @module
 */

import type { Configuration, Configurations } from "../automaton/configurations.ts";
import { kindsOf, type LeadKinds } from "./lead_kinds.ts";
import type { PlainPlaces } from "./plain_places.ts";
import { NOT_PLAIN, type PlainLength, type Region, TextRegions } from "./text_regions.ts";
import type { TokenTrie } from "./token_trie.ts";
import { DEAD, UNKNOWN, WalkStates } from "./walk_states.ts";

export interface TrieWalkOptions {
  readonly configurations: Configurations;
  readonly plain: PlainPlaces;
  readonly trie: TokenTrie;
  /** Gets the bits of the tokens that lead somewhere. Where the whole trie is followed there are none yet. */
  readonly words: Uint32Array;
  /** Nodes behind ways to end that are worth knowing; where there are more, `ends` is undefined. Default 0. */
  readonly mostBehind?: number | undefined;
  /** Whether the walk is over where there are more. Default false. */
  readonly endsBeyond?: boolean | undefined;
}

/** Nodes, and threads followed for new configurations, between two chances to pause. */
const PIECE = { nodes: 2048, work: 1024 };

/** Of nodes that are taken as text, one counts in so many as 2 to the power of this. */
const TEXT_SHIFT = 3;

const LAST_CONTROL = 0x1f;
const NO_NODE = -1;

/** Nodes of the smallest subtrees that are taken as text. */
const LEAST_NODES = 24;
export class TrieWalk {
  /** Nodes with others below at which a text of the grammar may end, in the order they were met. */
  readonly #ends: number[] = [];
  #left: number;
  readonly #endsBeyond: boolean;
  readonly #configurations: Configurations;
  readonly #trie: TokenTrie;
  readonly #words: Uint32Array;
  readonly #states: WalkStates;
  /** State behind each byte of the way to the current node, by depth. */
  readonly #path: Int32Array;
  /** Those that the current node is in, the innermost last. */
  readonly #runs: Run[] = [];
  readonly #regions: TextRegions;
  /** The last node that was come by on each depth. */
  readonly #way: Int32Array;
  /** By depth, the last node whose way was followed: its state is in `path` while no other one is. */
  readonly #followed: Int32Array;

  constructor(options: TrieWalkOptions) {
    const { configurations, plain, trie, words, mostBehind = -1, endsBeyond = false } = options;
    this.#configurations = configurations;
    this.#trie = trie;
    this.#words = words;
    this.#left = mostBehind;
    this.#endsBeyond = endsBeyond && mostBehind >= 0;
    this.#states = new WalkStates(configurations);
    this.#path = new Int32Array(trie.maxDepth + 1);
    this.#way = new Int32Array(trie.maxDepth + 1);
    this.#followed = new Int32Array(trie.maxDepth + 1);
    const states = this.#states;
    this.#regions = new TextRegions(states, {
      isMarked: (state) => this.#left >= 0 && states.accepting[state] === 1,
      plainFrom: (state) => this.#plainFrom(states.at(state), plain),
    });
  }

  /** The nodes at which a text may end and the token goes on; undefined when too much is behind. */
  get ends(): readonly number[] | undefined {
    return this.#left < 0 ? undefined : this.#ends;
  }

  /** Whether the walk ended early: then only some of the tokens were marked. */
  get isOver(): boolean {
    return this.#endsBeyond && this.#left < 0;
  }

  /** Deepest stack of all configurations on the way, or above it. */
  get reach(): number {
    return this.#states.reach;
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
    const state = this.#states.of(start);
    this.#path[depth] = state;
    this.#runs.length = 0;
    this.#followed.fill(NO_NODE);
    let node = this.#enter(state, { from, to, depth });
    while (node < to && !this.isOver) {
      node = this.#advance(node, to);
      if (node < to) yield;
    }
  }

  #plainFrom(place: Configuration, plain: PlainPlaces): PlainLength | undefined {
    const lead = plain.lead(place);
    if (lead === undefined) return undefined;
    const isEnclosed = plain.isEnclosed(place);
    if (this.#left >= 0 && !isEnclosed) return undefined;
    this.#states.reachTo(lead.reach);
    return { length: lead.length, isEnclosed };
  }

  /** Goes into the subtree of the node in front of it, or into the whole trie, as a run of text if it can. */
  #enter(start: number, { from, to, depth }: { from: number; to: number; depth: number }): number {
    const { runs } = this.#trie.texts;
    const isWhole = from === 0 && to === this.#trie.size;
    if (!isWhole && !runs.mayGoOn(from - 1)) return from;
    const height = isWhole ? runs.height : runs.heights[from - 1]!;
    const region = this.#regions.of(start, height, to - from);
    if (region === undefined) return from;
    const base = isWhole ? 0 : runs.characters[from - 1]!;
    const run = this.#newRun(region, { from, to, base, depth, height });
    run.isMarked = isWhole && NOT_PLAIN.every((isOther, lead) => isOther <= region.others[lead]!);
    if (run.isMarked) this.#words.set(runs.plain);
    return this.#resume(run);
  }

  /** @returns The node to go on with. */
  #advance(from: number, to: number): number {
    const { bytes, depths, ends } = this.#trie;
    const { runs } = this.#trie.texts;
    const { classOf } = this.#configurations.automaton;
    const path = this.#path;
    const states = this.#states;
    const { width } = states;
    let { table, accepting } = states;
    const leastWork = this.#configurations.workLeft - PIECE.work;
    const [dead, unknown, knowsEnds] = [DEAD, UNKNOWN, this.#left >= 0];
    let node = from;
    /** Tokens from here on are allowed, and not marked yet. */
    let first = node;
    let resume = this.#resumeFrom;
    for (let left = PIECE.nodes; left > 0; left--) {
      if (node >= resume) {
        this.#takeTokens(first, node);
        first = this.#resumeRuns(node);
        ({ table, accepting } = states);
        left -= (first - node) >> TEXT_SHIFT;
        node = first;
        resume = this.#resumeFrom;
      }
      if (node >= to) break;
      const depth = depths[node]!;
      const here = path[depth - 1]!;
      const byteClass = classOf[bytes[node]!]!;
      let next = table[here * width + byteClass]!;
      if (next === unknown) {
        next = states.resolve(here, byteClass);
        ({ table, accepting } = states);
        if (this.#configurations.workLeft < leastWork) left = 0;
      }
      const end = ends[node]!;
      if (next === dead) {
        if (node > first) this.#takeTokens(first, node);
        node = end;
        first = end;
        continue;
      }
      path[depth] = next;
      if (knowsEnds && accepting[next] === 1) this.#end(node, end - node - 1);
      node += 1;
      if (end - node < LEAST_NODES || !runs.mayGoOn(node - 1)) continue;
      const height = runs.heights[node - 1]!;
      const region = this.#regions.of(next, height, end - node);
      ({ table, accepting } = states);
      if (region === undefined) continue;
      this.#takeTokens(first, node);
      const base = runs.characters[node - 1]!;
      first = this.#resume(this.#newRun(region, { from: node, to: end, base, depth, height }));
      ({ table, accepting } = states);
      left -= (first - node) >> TEXT_SHIFT;
      node = first;
      resume = this.#resumeFrom;
    }
    this.#takeTokens(first, node);
    return node;
  }

  get #resumeFrom(): number {
    return this.#runs.at(-1)?.resume ?? Number.POSITIVE_INFINITY;
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

  #newRun(region: Region, { from, to, base, depth, height }: Stretch): Run {
    const isText = region.isText && region.length >= height;
    const next = isText ? this.#trie.texts.runs.breakFrom(from) : 0;
    // Characters that are no plain text may be of a region too, and no height counts them.
    const last = isText ? Number.POSITIVE_INFINITY : base + region.length;
    const isLarge = !isText && to - from > LARGE;
    const kinds = isLarge ? kindsOf(region.others) : ALL_KINDS;
    const run = {
      to,
      region,
      depth,
      base,
      last,
      isText,
      kinds,
      isMarked: false,
      next,
      resume: from,
    };
    this.#runs.push(run);
    return run;
  }

  /** Marks the text up to the next break, which is to be followed, or to the end. */
  #resume(run: Run): number {
    return run.isText ? this.#resumeText(run) : this.#resumeRegion(run);
  }

  #resumeText(run: Run): number {
    const { breaks, ways, wayStarts } = this.#trie.texts.runs;
    const { bytes, depths, ends } = this.#trie;
    const { isEnclosed, states } = run.region;
    for (;;) {
      const node = run.resume;
      const here = run.next;
      const broken = breaks[here] ?? run.to;
      if (!run.isMarked) this.#takeTokens(node, Math.min(broken, run.to));
      if (broken >= run.to) {
        this.#runs.pop();
        return run.to;
      }
      run.resume = ends[broken]!;
      while (breaks[run.next]! < run.resume) run.next += 1;
      if (isEnclosed && bytes[broken]! <= LAST_CONTROL) continue;
      if (states === undefined) {
        const [from, to] = [wayStarts[here]!, wayStarts[here + 1]!];
        for (let i = from; i < to; i++) this.#way[i - from + 1] = ways[i]!;
      }
      this.#path[depths[broken]! - 1] = this.#stateBefore(broken, run);
      return broken;
    }
  }

  #resumeRegion(run: Run): number {
    const { leads, characters, below, most } = this.#trie.texts.runs;
    const { bytes, depths, ends } = this.#trie;
    const { classOf } = this.#configurations.automaton;
    const { width } = this.#states;
    const { others, isEnclosed, dead: deadLeads } = run.region;
    const { to, last, kinds } = run;
    const way = this.#way;
    const dead = DEAD;
    let from = run.resume;
    for (;;) {
      let node = from;
      while (node < to) {
        if (others[leads[node]!] === 1 || characters[node]! > last) break;
        way[depths[node]!] = node;
        const isBelow =
          (below.punctuation[node]! & kinds.punctuation) | (below.others[node]! & kinds.others);
        node = isBelow === 0 && most[node]! <= last ? ends[node]! : node + 1;
      }
      if (!run.isMarked) this.#takeTokens(from, node);
      if (node >= to) {
        this.#runs.pop();
        return to;
      }
      from = ends[node]!;
      if (run.isMarked) this.#leaveTokens(node, from);
      if (isEnclosed && bytes[node]! <= LAST_CONTROL) continue;
      if (deadLeads !== undefined && deadLeads[leads[node]!] === 1) continue;
      const state = this.#stateBefore(node, run);
      if (this.#states.table[state * width + classOf[bytes[node]!]!] === dead) continue;
      this.#path[depths[node]! - 1] = state;
      run.resume = from;
      return node;
    }
  }

  /** The state in front of a node that ends a run. */
  #stateBefore(node: number, run: Run): number {
    const { states } = run.region;
    if (states === undefined) return this.#followWay(node, run);
    const place = this.#trie.texts.runs.characters[node]! - 1 - run.base;
    return states[Math.min(place, states.length - 1)]!;
  }

  /** Follows the bytes on the way to a node from where the run began, or a run within it did. */
  #followWay(node: number, run: Run): number {
    const { bytes, depths } = this.#trie;
    const { classOf } = this.#configurations.automaton;
    const [states, path, way, followed] = [this.#states, this.#path, this.#way, this.#followed];
    const end = depths[node]!;
    let depth = end - 1;
    while (depth > run.depth && followed[depth] !== way[depth]) depth -= 1;
    let state = path[depth]!;
    for (depth += 1; depth < end; depth++) {
      const byteClass = classOf[bytes[way[depth]!]!]!;
      const next = states.table[state * states.width + byteClass]!;
      state = next === UNKNOWN ? states.resolve(state, byteClass) : next;
      path[depth] = state;
      followed[depth] = way[depth]!;
    }
    return state;
  }

  #end(node: number, behind: number): void {
    if (behind === 0) return;
    this.#left -= behind;
    this.#ends.push(node);
  }

  #leaveTokens(from: number, to: number): void {
    const { tokens, before } = this.#trie.texts;
    const end = before[to]!;
    for (let i = before[from]!; i < end; i++) {
      const token = tokens[i]!;
      this.#words[token >>> 5]! &= ~(1 << (token & 31));
    }
  }

  #takeTokens(from: number, to: number): void {
    const { tokens, before } = this.#trie.texts;
    const end = before[to]!;
    const words = this.#words;
    for (let i = before[from]!; i < end; i++) {
      const token = tokens[i]!;
      words[token >>> 5]! |= 1 << (token & 31);
    }
  }
}

/** Nodes of a run that is worth finding out what it may pass. */
const LARGE = 512;
const ALL_KINDS: LeadKinds = { punctuation: -1, others: -1 };

/** A part of the trie whose root is reached in a region. */
interface Stretch {
  readonly from: number;
  /** First node behind it. */
  readonly to: number;
  /** Bytes in front of it. */
  readonly depth: number;
  /** Characters in front of it. */
  readonly base: number;
  /** Characters of plain text on the longest way through it. */
  readonly height: number;
}

/** Such a part, which is of the region up to its breaks. */
interface Run extends Pick<Stretch, "to" | "depth" | "base"> {
  readonly region: Region;
  /** Characters up to the end of the region. */
  readonly last: number;
  /** Whether it is plain text, whose breaks are known. */
  readonly isText: boolean;
  /** First bytes that no subtree is passed with. */
  readonly kinds: LeadKinds;
  /** Whether its tokens are marked, and all that may be plain text. */
  isMarked: boolean;
  /** Index of a break that is not behind the next one. */
  next: number;
  /** Node to go on from. */
  resume: number;
}
