/**
 * The items of lists that are not closed yet and whose items must differ.
 *
 * Plain data that never changes: each byte gives another memory, so that taking back and branching
 * cost nothing.
 *
 * @module
 */

import { keyOf, mayBeginAs, plainForm } from "./item_text.ts";

/** Such lists inside one another. */
export const MAX_LISTS = 32;

/** An item that is complete. */
interface Item {
  readonly key: string;
  readonly plain: string;
}

/** Items that differ. They share what they are kept in with those that came later. */
class ItemSet {
  readonly size: number;
  readonly #places: Map<string, number>;
  readonly #items: Item[];

  constructor(items: Item[] = [], places = new Map<string, number>(), size = 0) {
    this.#items = items;
    this.#places = places;
    this.size = size;
  }

  has(key: string): boolean {
    return (this.#places.get(key) ?? this.size) < this.size;
  }

  with(item: Item): ItemSet {
    const isNewest = this.#items.length === this.size;
    const items = isNewest ? this.#items : this.#items.slice(0, this.size);
    const places = isNewest ? this.#places : new Map(items.map(({ key }, i) => [key, i]));
    places.set(item.key, items.push(item) - 1);
    return new ItemSet(items, places, this.size + 1);
  }

  mayBeginAs(beginning: string): boolean {
    for (let i = 0; i < this.size; i++) {
      if (mayBeginAs(this.#items[i]!.plain, beginning)) return true;
    }
    return false;
  }
}

const NO_ITEMS = () => new ItemSet();

interface List {
  readonly outer: List | undefined;
  readonly count: number;
  /** Objects and lists that are open in the current item. */
  readonly open: number;
  /** The current item so far, a unit for each byte. */
  readonly item: string;
  readonly items: ItemSet;
  /** Complete ones that the set does not have yet, from the last to the first. */
  readonly recent: readonly string[];
  /** Whether the current item is known to be the beginning of none of them. */
  readonly differs: boolean;
}

export class ItemMemory {
  readonly #list: List;
  readonly #isInString: boolean;
  readonly #isEscaped: boolean;

  private constructor(list: List, isInString: boolean, isEscaped: boolean) {
    this.#list = list;
    this.#isInString = isInString;
    this.#isEscaped = isEscaped;
  }

  /**
   * At the beginning of another list, whose opening bracket was the last byte.
   *
   * @returns Nothing when too many lie inside one another.
   */
  static begin(outer: ItemMemory | undefined): ItemMemory | undefined {
    const around = outer === undefined ? undefined : outer.#list;
    const count = (around?.count ?? 0) + 1;
    if (count > MAX_LISTS) return undefined;
    const list = {
      outer: around,
      count,
      open: 0,
      item: "",
      items: NO_ITEMS(),
      recent: [],
      differs: false,
    };
    return new ItemMemory(list, false, false);
  }

  /** Bytes of the current item. */
  get length(): number {
    return this.#list.item.length;
  }

  /** Lists that are open. */
  get lists(): number {
    return this.#list.count;
  }

  /** Whether a string of the current item is open. */
  get isInString(): boolean {
    return this.#isInString;
  }

  /** Whether a string, object or list within the current item is open. */
  get isInside(): boolean {
    return this.#isInString || this.#list.open > 0;
  }

  /** Complete items of the innermost list. */
  get size(): number {
    return this.#list.items.size + this.#list.recent.length;
  }

  /** Whether the current item, which is complete, stands in the innermost list already. */
  isRepeated(): boolean {
    const { item, items, recent } = this.#list;
    if (items.size === 0 && recent.length === 0) return false;
    const key = keyOf(item);
    return items.has(key) || recent.some((other) => keyOf(other) === key);
  }

  /** Whether the current item may become one that stands in the innermost list already. */
  mayRepeat(): boolean {
    return !this.#list.differs && mayRepeat(this.#list);
  }

  /** Behind one more byte; nothing when the last list is closed by it. */
  push(byte: number): ItemMemory | undefined {
    const character = String.fromCharCode(byte);
    if (this.#isInString) {
      const escapes = character === "\\" && !this.#isEscaped;
      const ends = character === '"' && !this.#isEscaped;
      return new ItemMemory(appended(this.#list, character), !ends, escapes);
    }
    switch (character) {
      case '"':
        return new ItemMemory(appended(this.#list, character), true, false);
      case "[":
      case "{":
        return this.#outsideString(opened(appended(this.#list, character), 1));
      case "]":
      case "}":
        return this.#close(character);
      case ",":
        return this.#outsideString(
          this.#list.open === 0 ? nextItem(this.#list) : appended(this.#list, character),
        );
      default:
        return this.#outsideString(appended(this.#list, character));
    }
  }

  /** The same, quicker to go on with. */
  settled(): ItemMemory {
    return new ItemMemory(settledList(this.#list), this.#isInString, this.#isEscaped);
  }

  #close(character: string): ItemMemory | undefined {
    const { open, outer } = this.#list;
    if (open > 0) return this.#outsideString(opened(appended(this.#list, character), -1));
    if (outer === undefined) return undefined;
    return this.#outsideString(opened(appended(outer, character), -1));
  }

  #outsideString(list: List): ItemMemory {
    return new ItemMemory(list, false, false);
  }
}

function mayRepeat({ item, items, recent }: List): boolean {
  if (items.size === 0 && recent.length === 0) return false;
  const beginning = plainForm(item);
  return (
    items.mayBeginAs(beginning) || recent.some((other) => mayBeginAs(plainForm(other), beginning))
  );
}

/** The lists around it have the byte in their items too. */
function appended(list: List, character: string): List {
  const outer = list.outer && appended(list.outer, character);
  return { ...list, outer, item: list.item + character };
}

function opened(list: List, more: number): List {
  return { ...list, open: list.open + more };
}

/** Behind a comma, which stands in the items of the lists around it. */
function nextItem(list: List): List {
  const outer = list.outer && appended(list.outer, ",");
  return { ...list, outer, item: "", recent: [list.item, ...list.recent], differs: false };
}

function settledList(list: List): List {
  const outer = list.outer && settledList(list.outer);
  const items = list.recent.reduceRight(
    (set, item) => set.with({ key: keyOf(item), plain: plainForm(item) }),
    list.items,
  );
  const settled = { ...list, outer, items, recent: [] };
  return { ...settled, differs: list.differs || !mayRepeat(settled) };
}
