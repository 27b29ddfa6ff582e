/**
 * Which tokens may come next: the masks of one grammar, made when first needed.
 *
 * A mask is the union of what each thread allows, which makes three savings exact:
 *
 * | saving | what it says |
 * |---|---|
 * | threads in one call of a rule are masked as if the rule were all of the grammar | the inside of a string has one mask wherever the string stands; only tokens that leave the rule are followed further in what stands around it |
 * | a count further off than the longest token is masked as infinite | a string of at most 4,096 characters has 129 masks, not 4,097 |
 * | nearer than that, the few long tokens are followed on their own, as for all others "further off" is nearer | in the 129, all tokens are followed only 17 times |
 *
 * @module
 */

import type { Configuration, Configurations } from "../automaton/configurations.ts";
import type { Frame, Thread } from "../automaton/frames.ts";
import type { GrammarVocabulary } from "./grammar_vocabulary.ts";
import type { CacheEntry, MaskCache } from "./mask_cache.ts";
import { PlainPlaces } from "./plain_places.ts";
import type { TokenTrie } from "./token_trie.ts";
import { TrieWalk, type TrieWalkOptions } from "./trie_walk.ts";

/** Trie nodes behind ways out of a rule that are worth following in what comes behind it. */
const MAX_NODES_BEHIND = 16_384;
/** Rules around each other that are tried for one with few ways out. */
const MAX_RULES = 4;
/** Rules at the same time that are worth looking at one by one. */
const MAX_GROUPS = 16;

/** What the threads within one call of a rule allow. */
interface RuleMask {
  /** Tokens that are followed to their end within the rule; undefined when too much is behind. */
  readonly words: Uint32Array | undefined;
  /** Trie nodes at which the rule may end and the token goes on; undefined when too much is behind. */
  readonly exits: Uint32Array | undefined;
  /** Stack entries that were needed, above the rule's own. */
  readonly reach: number;
}

/** Threads to be masked together. */
interface Group {
  readonly threads: readonly Thread[];
  readonly trie: TokenTrie;
  /** Gets the bits. */
  readonly words: Uint32Array;
}

interface Slots {
  mask?: CacheEntry<Uint32Array>;
  /** By the trie that was walked. */
  readonly rules: Map<TokenTrie, CacheEntry<RuleMask>>;
}

export interface TokenMasksOptions {
  readonly configurations: Configurations;
  readonly vocabulary: GrammarVocabulary;
  /** May be shared with other grammars. */
  readonly cache: MaskCache;
}

export class TokenMasks {
  readonly #configurations: Configurations;
  readonly #vocabulary: GrammarVocabulary;
  readonly #cache: MaskCache;
  readonly #plain: PlainPlaces;
  /** A configuration shares those of its far view. */
  readonly #slots = new WeakMap<Configuration, Slots>();

  constructor({ configurations, vocabulary, cache }: TokenMasksOptions) {
    this.#configurations = configurations;
    this.#vocabulary = vocabulary;
    this.#cache = cache;
    this.#plain = new PlainPlaces(configurations);
  }

  /** The mask, if it is there. Not to be written to. */
  known(configuration: Configuration): Uint32Array | undefined {
    return this.#cache.use(this.#slots.get(configuration)?.mask);
  }

  /** Makes the mask and keeps it; pauses now and then. */
  *make(exact: Configuration): Generator<void, Uint32Array, void> {
    const configuration = this.#configurations.seen(exact, "far");
    const slots = this.#slotsOf(configuration);
    this.#slots.set(exact, slots);
    const known = this.#cache.use(slots.mask);
    if (known !== undefined) return known;

    const words = new Uint32Array(this.#vocabulary.words);
    const { whole, short, long } = this.#vocabulary;
    const near = this.#configurations.seen(configuration, "near");
    if (near === configuration) {
      yield* this.#addThreads(configuration, whole, words);
    } else {
      yield* this.#addThreads(near, short, words);
      yield* this.#addWalk(configuration, long, words);
    }
    if (configuration.accepting) {
      for (const token of this.#vocabulary.endTokens) words[token >>> 5]! |= 1 << (token & 31);
    }
    slots.mask = this.#cache.add(words, words.byteLength);
    return words;
  }

  #slotsOf(configuration: Configuration): Slots {
    let slots = this.#slots.get(configuration);
    if (slots === undefined) {
      slots = { rules: new Map() };
      this.#slots.set(configuration, slots);
    }
    return slots;
  }

  *#addThreads(
    configuration: Configuration,
    trie: TokenTrie,
    words: Uint32Array,
  ): Generator<void, void, void> {
    const groups = new Map<Frame, Thread[]>();
    for (const thread of configuration.threads) {
      const { rule } = thread.frame;
      const group = groups.get(rule);
      if (group === undefined) groups.set(rule, [thread]);
      else group.push(thread);
    }
    if (groups.size > MAX_GROUPS) {
      yield* this.#addWalk(configuration, trie, words);
      return;
    }
    for (const [rule, threads] of groups) {
      if (yield* this.#addRule(rule, { threads, trie, words })) continue;
      yield* this.#addWalk(this.#configurations.of(threads), trie, words);
    }
  }

  /**
   * Adds what threads within a rule allow by way of the rule's own mask, or of that of a rule around
   * it: a rule for one character is over too often to be of use.
   *
   * @returns Whether it could be done so.
   */
  *#addRule(innermost: Frame, { threads, trie, words }: Group): Generator<void, boolean, void> {
    let rule = innermost;
    for (let i = 0; i < MAX_RULES; i++) {
      const inside = this.#configurations.within(rule, threads);
      const outside = rule.parent;
      const mask = yield* this.#ruleMask(inside, { trie, isAll: outside === undefined });
      // What nests too deep from here was not too deep from the bottom.
      if (rule.depth + mask.reach > this.#configurations.maxDepth) return false;
      if (outside === undefined || mask.exits !== undefined) {
        for (let word = 0; word < words.length; word++) words[word]! |= mask.words![word]!;
        if (outside !== undefined) yield* this.#addExits(rule, mask.exits!, { trie, words });
        return true;
      }
      rule = outside.rule;
    }
    return false;
  }

  /** Follows the tokens that leave a rule in what comes behind it. */
  *#addExits(
    rule: Frame,
    exits: Uint32Array,
    { trie, words }: { readonly trie: TokenTrie; readonly words: Uint32Array },
  ): Generator<void, void, void> {
    const behind = this.#configurations.behind(rule);
    const walk = this.#walk(trie, words);
    for (const exit of exits) {
      const [from, to] = [exit + 1, trie.ends[exit]!];
      yield* walk.follow(behind, { from, to, depth: trie.depths[exit]! });
    }
  }

  /** @param isAll Whether the rule is all of the grammar, whose tokens are of use whatever is behind. */
  *#ruleMask(
    inside: Configuration,
    { trie, isAll }: { readonly trie: TokenTrie; readonly isAll: boolean },
  ): Generator<void, RuleMask, void> {
    const { rules } = this.#slotsOf(inside);
    const known = this.#cache.use(rules.get(trie));
    if (known !== undefined && (known.words !== undefined || !isAll)) return known;
    const words = new Uint32Array(this.#vocabulary.words);
    const walk = this.#walk(trie, words, { mostBehind: MAX_NODES_BEHIND, endsBeyond: !isAll });
    yield* walk.follow(inside, { from: 0, to: trie.size, depth: 0 });
    const { ends, reach, isOver } = walk;
    const exits = ends && Uint32Array.from(ends);
    const mask = { words: isOver ? undefined : words, exits, reach };
    const bytes = (isOver ? 0 : words.byteLength) + (exits?.byteLength ?? 0);
    rules.set(trie, this.#cache.add(mask, bytes));
    return mask;
  }

  *#addWalk(
    start: Configuration,
    trie: TokenTrie,
    words: Uint32Array,
  ): Generator<void, void, void> {
    const own = new Uint32Array(words.length);
    yield* this.#walk(trie, own).follow(start, { from: 0, to: trie.size, depth: 0 });
    for (let word = 0; word < words.length; word++) words[word]! |= own[word]!;
  }

  #walk(
    trie: TokenTrie,
    words: Uint32Array,
    ends?: Pick<TrieWalkOptions, "mostBehind" | "endsBeyond">,
  ): TrieWalk {
    const [configurations, plain] = [this.#configurations, this.#plain];
    return new TrieWalk({ configurations, plain, trie, words, ...ends });
  }
}
