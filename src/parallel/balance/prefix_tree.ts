/**
 * A radix tree over the texts of prompts that says which workers were sent what begins alike, so that
 * a request goes where its prefix is probably cached.
 *
 * Each node is marked by the owners whose prompts pass through it. The marks of an owner are a list in
 * the order of their use. A text that uses a node uses all nodes above it afterwards, so the oldest mark
 * of an owner is always a leaf of its own, and taking marks from that end keeps its prefixes whole.
 *
 * @module
 */
import { othersTurn, turns } from "../../turns.ts";

/** UTF-16 units that a mark counts for beside those of its node: what the objects around it take. */
const MARK_UNITS = 128;

/** Nodes of a path that are looked at: prompts that each end within the last one would make more. */
const MAX_DEPTH = 1024;

interface Mark<O> {
  readonly node: Node<O>;
  /** Used before this one. */
  older: Mark<O> | undefined;
  newer: Mark<O> | undefined;
}

interface Node<O> {
  /** What stands between its parent and it; no other text's memory is held by it. */
  units: Uint16Array;
  parent: Node<O> | undefined;
  /** By their first unit. */
  readonly children: Map<number, Node<O>>;
  readonly marks: Map<O, Mark<O>>;
}

/** The marks of one owner. */
interface Owned<O> {
  oldest: Mark<O> | undefined;
  newest: Mark<O> | undefined;
  /** UTF-16 units that they count for. */
  size: number;
}

export interface PrefixMatch<O> {
  /** UTF-16 units that the text has in common with what its owners were sent. */
  readonly length: number;
  /** Who was sent them; none where the length is 0. */
  readonly owners: readonly O[];
}

/** UTF-16 units of a text, as the tree takes them. */
export function unitsOf(text: string): Uint16Array {
  const units = new Uint16Array(text.length);
  for (let i = 0; i < units.length; i++) units[i] = text.charCodeAt(i);
  return units;
}

export class PrefixTree<O> {
  readonly #most: number;
  readonly #root: Node<O> = newNode(new Uint16Array(0));
  readonly #owned = new Map<O, Owned<O>>();

  /** @param most UTF-16 units that the marks of one owner may count for. */
  constructor(most: number) {
    this.#most = most;
  }

  /** UTF-16 units that the marks of an owner count for. */
  size(owner: O): number {
    return this.#owned.get(owner)?.size ?? 0;
  }

  /** The longest prefix that one of the usable owners was sent. */
  match(text: Uint16Array, isUsable: (owner: O) => boolean): PrefixMatch<O> {
    let node = this.#root;
    let length = 0;
    let owners: readonly O[] = [];
    for (let depth = 0; length < text.length && depth < MAX_DEPTH; depth++) {
      const child = node.children.get(text[length]!);
      const usable = child === undefined ? [] : [...child.marks.keys()].filter(isUsable);
      if (child === undefined || usable.length === 0) break;
      owners = usable;
      const common = commonLength(child.units, text, length);
      length += common;
      if (common < child.units.length) break;
      node = child;
    }
    return { length, owners };
  }

  /** An owner is sent a text. What it was sent longest ago goes, where that is too much. */
  insert(text: Uint16Array, owner: O): void {
    if (text.length === 0) return;
    const owned = this.#ownedBy(owner);
    const grown = new Set([owner]);
    let node = this.#root;
    let at = 0;
    for (let depth = 0; at < text.length && depth < MAX_DEPTH; depth++) {
      const child = node.children.get(text[at]!);
      if (child === undefined) {
        node = this.#addChild(node, text.slice(at));
        this.#mark(node, owner);
        break;
      }
      const common = commonLength(child.units, text, at);
      node = common < child.units.length ? this.#split(child, common) : child;
      if (node !== child) for (const one of child.marks.keys()) grown.add(one);
      this.#mark(node, owner);
      at += common;
    }
    for (let used: Node<O> | undefined = node; used !== this.#root; used = used?.parent) {
      touch(owned, used!.marks.get(owner)!);
    }
    for (const one of grown) this.#shrink(one);
  }

  /** Forgets an owner, in slices of time. */
  async forget(owner: O): Promise<void> {
    const owned = this.#owned.get(owner);
    if (owned === undefined) return;
    while (owned.oldest !== undefined) {
      this.#evict(owner, owned);
      if (turns.isDue) await othersTurn();
    }
    // A request may have come meanwhile, and brought a new set.
    if (this.#owned.get(owner) === owned) this.#owned.delete(owner);
  }

  #ownedBy(owner: O): Owned<O> {
    let owned = this.#owned.get(owner);
    if (owned === undefined) {
      owned = { oldest: undefined, newest: undefined, size: 0 };
      this.#owned.set(owner, owned);
    }
    return owned;
  }

  #addChild(parent: Node<O>, units: Uint16Array): Node<O> {
    const child = newNode<O>(units);
    child.parent = parent;
    parent.children.set(units[0]!, child);
    return child;
  }

  #mark(node: Node<O>, owner: O): void {
    if (node.marks.has(owner)) return;
    const mark: Mark<O> = { node, older: undefined, newer: undefined };
    node.marks.set(owner, mark);
    const owned = this.#ownedBy(owner);
    owned.size += node.units.length + MARK_UNITS;
    append(owned, mark);
  }

  /** @returns The upper part, which is new: marks of the lower one keep their places. */
  #split(lower: Node<O>, length: number): Node<O> {
    const upper = this.#addChild(lower.parent!, lower.units.slice(0, length));
    lower.units = lower.units.slice(length);
    lower.parent = upper;
    upper.children.set(lower.units[0]!, lower);
    for (const [owner, below] of lower.marks) {
      const mark: Mark<O> = { node: upper, older: undefined, newer: undefined };
      upper.marks.set(owner, mark);
      const owned = this.#ownedBy(owner);
      owned.size += MARK_UNITS;
      insertBehind(owned, below, mark);
    }
    return upper;
  }

  #shrink(owner: O): void {
    const owned = this.#ownedBy(owner);
    while (owned.size > this.#most) this.#evict(owner, owned);
  }

  /** Takes the oldest mark, which is a leaf of its owner. */
  #evict(owner: O, owned: Owned<O>): void {
    const { node } = owned.oldest!;
    unlink(owned, owned.oldest!);
    owned.size -= node.units.length + MARK_UNITS;
    node.marks.delete(owner);
    // Who is marked below is marked here too, so nothing is below.
    if (node.marks.size === 0) node.parent!.children.delete(node.units[0]!);
  }
}

function newNode<O>(units: Uint16Array): Node<O> {
  return { units, parent: undefined, children: new Map(), marks: new Map() };
}

function commonLength(units: Uint16Array, text: Uint16Array, from: number): number {
  const most = Math.min(units.length, text.length - from);
  let length = 0;
  while (length < most && units[length] === text[from + length]) length++;
  return length;
}

function touch<O>(owned: Owned<O>, mark: Mark<O>): void {
  unlink(owned, mark);
  append(owned, mark);
}

function append<O>(owned: Owned<O>, mark: Mark<O>): void {
  mark.older = owned.newest;
  if (owned.newest !== undefined) owned.newest.newer = mark;
  owned.newest = mark;
  owned.oldest ??= mark;
}

/** As the one that was used right after. */
function insertBehind<O>(owned: Owned<O>, before: Mark<O>, mark: Mark<O>): void {
  mark.older = before;
  mark.newer = before.newer;
  if (before.newer === undefined) owned.newest = mark;
  else before.newer.older = mark;
  before.newer = mark;
}

function unlink<O>(owned: Owned<O>, mark: Mark<O>): void {
  if (mark.older === undefined) owned.oldest = mark.newer;
  else mark.older.newer = mark.newer;
  if (mark.newer === undefined) owned.newest = mark.older;
  else mark.newer.older = mark.older;
  mark.older = undefined;
  mark.newer = undefined;
}
