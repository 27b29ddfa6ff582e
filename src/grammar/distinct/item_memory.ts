/**
 * The items of lists that are not closed yet and whose items must differ, and the keys of objects
 * whose keys must.
 *
 * Plain data that never changes: each byte gives another memory, so that taking back and branching
 * cost nothing.
 *
 * @module
 */

import { BYTE_SET_WORDS } from "../masks/utf8_bytes.ts";
import { Item, mayBeginAs, plainForm } from "./item_text.ts";

const NUMBER_END = /[\d.eE+-]$/;

/**
 * Entries of a stack where items must differ: each such list inside another takes some, and a byte
 * of the innermost one is one of all around it.
 */
export const MAX_DISTINCT_DEPTH = 100;
const OBJECT_BEGIN = 0x7b;

/** Items that differ. They share what they are kept in with those that came later. */
class ItemSet {
  readonly size: number;
  readonly #places: Map<string, number>;
  readonly #items: Item[];
  readonly #bytes: Uint32Array<ArrayBuffer>;

  constructor(
    items: Item[] = [],
    places = new Map<string, number>(),
    { size = 0, bytes = new Uint32Array(BYTE_SET_WORDS) } = {},
  ) {
    this.#items = items;
    this.#places = places;
    this.size = size;
    this.#bytes = bytes;
  }

  has(key: string): boolean {
    return (this.#places.get(key) ?? this.size) < this.size;
  }

  with(item: Item): ItemSet {
    const isNewest = this.#items.length === this.size;
    const items = isNewest ? this.#items : this.#items.slice(0, this.size);
    const places = isNewest ? this.#places : new Map(items.map(({ key }, i) => [key, i]));
    places.set(item.key, items.push(item) - 1);
    const bytes = this.#bytes;
    item.bytesOfPlain.forEach((word, i) => {
      bytes[i]! |= word;
    });
    return new ItemSet(items, places, { size: this.size + 1, bytes });
  }

  /** Whether one of the items, or of those that came later, has a byte in its plain form. */
  mayHave(byte: number): boolean {
    return ((this.#bytes[byte >>> 5]! >>> (byte & 31)) & 1) === 1;
  }

  mayBeginAs(beginning: string): boolean {
    for (let i = 0; i < this.size; i++) {
      if (mayBeginAs(this.#items[i]!, beginning)) return true;
    }
    return false;
  }
}

const NO_ITEMS = () => new ItemSet();

interface List {
  readonly outer: List | undefined;
  readonly count: number;
  /** Whether it is an object. Its items are its keys, without the values behind them. */
  readonly hasKeys: boolean;
  /** Whether a value of it is being written. */
  readonly isInValue: boolean;
  /** Objects and lists that are open in the current item. */
  readonly open: number;
  /** The current item so far, a unit for each byte. */
  readonly item: string;
  readonly items: ItemSet;
  /** Complete ones that the set does not have yet, from the last to the first. */
  readonly recent: readonly Item[];
  /** Whether the current item is known to be the beginning of none of them. */
  readonly differs: boolean;
}

export class ItemMemory {
  readonly #list: List;
  readonly #isInString: boolean;
  readonly #isEscaped: boolean;
  #mayRepeat: boolean | undefined;

  private constructor(list: List, isInString: boolean, isEscaped: boolean) {
    this.#list = list;
    this.#isInString = isInString;
    this.#isEscaped = isEscaped;
  }

  /** At the beginning of another list, or object, whose opening bracket was the last byte. */
  static begin(outer: ItemMemory | undefined, byte: number): ItemMemory {
    const around = outer === undefined ? undefined : outer.#list;
    const list = {
      outer: around,
      count: (around?.count ?? 0) + 1,
      hasKeys: byte === OBJECT_BEGIN,
      isInValue: false,
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

  /** Whether a value of the innermost object is being written: its end is no end of an item. */
  get isInValue(): boolean {
    return this.#list.isInValue;
  }

  /** Complete items of the innermost list. */
  get size(): number {
    return this.#list.items.size + this.#list.recent.length;
  }

  /** Whether the current item, which is complete, stands in the innermost list already. */
  isRepeated(): boolean {
    const { item, items, recent } = this.#list;
    if (items.size === 0 && recent.length === 0) return false;
    const { key } = new Item(item);
    return items.has(key) || recent.some((other) => other.key === key);
  }

  /** Whether the current item of a list that is open may become one that stands there already. */
  mayRepeat(): boolean {
    return this.repeatable !== undefined;
  }

  /** The outermost list whose current item may become one that stands there already. */
  get repeatable(): { readonly count: number; readonly size: number } | undefined {
    let found = this.#ownMayRepeat ? this.#list : undefined;
    for (let list = this.#list.outer; list !== undefined; list = list.outer) {
      if (!list.differs && mayRepeat(list)) found = list;
    }
    return found && { count: found.count, size: found.items.size + found.recent.length };
  }

  get #ownMayRepeat(): boolean {
    this.#mayRepeat ??= !this.#list.differs && mayRepeat(this.#list);
    return this.#mayRepeat;
  }

  /** The same text for what goes on alike, of memories that one has led to. */
  get likeness(): string {
    let text = "";
    for (let list: List | undefined = this.#list; list !== undefined; list = list.outer) {
      const { count, isInValue, item, items, recent } = list;
      text += `${count} ${isInValue} ${items.size} ${[item, ...recent.map(({ bytes }) => bytes)].join("\n,")}\n;`;
    }
    return text;
  }

  /** Behind one more byte; nothing when the last list is closed by it. */
  push(byte: number): ItemMemory | undefined {
    const character = String.fromCharCode(byte);
    if (this.#isInString) {
      const escapes = character === "\\" && !this.#isEscaped;
      const ends = character === '"' && !this.#isEscaped;
      return new ItemMemory(this.#appended(character), !ends, escapes);
    }
    switch (character) {
      case '"':
        return new ItemMemory(this.#appended(character), true, false);
      case "[":
      case "{":
        return this.#outsideString(opened(this.#appended(character), 1));
      case "]":
      case "}":
        return this.#close(character);
      case ",":
        return this.#outsideString(
          this.#list.open === 0 ? nextItem(this.#list) : this.#appended(character),
        );
      case ":":
        return this.#outsideString(inValue(appended(this.#list, character)));
      default:
        return this.#outsideString(this.#appended(character));
    }
  }

  /** What differs goes on to differ; a number may still become another spelling of one. */
  #appended(character: string): List {
    const list = appended(this.#list, character);
    const { item, isInValue } = this.#list;
    // Bytes of a value say nothing of its key.
    if (isInValue) return list;
    const differs =
      (this.#mayRepeat === false && !NUMBER_END.test(item)) ||
      (this.#isInString && isForeign(this.#list, character));
    return differs ? { ...list, differs } : list;
  }

  /** The same, quicker to go on with. */
  settled(): ItemMemory {
    return new ItemMemory(settledList(this.#list), this.#isInString, this.#isEscaped);
  }

  #close(character: string): ItemMemory | undefined {
    const { open, outer } = this.#list;
    if (open > 0) return this.#outsideString(opened(this.#appended(character), -1));
    if (outer === undefined) return undefined;
    return this.#outsideString(opened(appended(outer, character), -1));
  }

  #outsideString(list: List): ItemMemory {
    return new ItemMemory(list, false, false);
  }
}

/** Bytes of the longest escape without its last one. */
const LONGEST_ESCAPE = 5;

/** Whether a byte of a string, written as it is, stands in no item. */
function isForeign({ item, items, recent }: List, character: string): boolean {
  if (character === '"' || character === "\\") return false;
  if (item.includes("\\", Math.max(item.length - LONGEST_ESCAPE, 0))) return false;
  const byte = character.charCodeAt(0);
  return !items.mayHave(byte) && !recent.some((item) => item.has(byte));
}

function mayRepeat({ item, items, recent }: List): boolean {
  if (items.size === 0 && recent.length === 0) return false;
  const beginning = plainForm(item);
  return items.mayBeginAs(beginning) || recent.some((other) => mayBeginAs(other, beginning));
}

/** The lists around it have the byte in their items too. */
function appended(list: List, character: string): List {
  const { count, hasKeys, isInValue, open, items, recent, differs } = list;
  return {
    outer: list.outer && appended(list.outer, character),
    item: isInValue ? list.item : list.item + character,
    count,
    hasKeys,
    isInValue,
    open,
    items,
    recent,
    differs,
  };
}

/** Behind a colon, which is the last of a key. */
function inValue(list: List): List {
  const { hasKeys, open, isInValue, item } = list;
  if (!hasKeys || open > 0 || isInValue) return list;
  return { ...list, isInValue: true, differs: true, item: item.slice(0, -1) };
}

function opened(list: List, more: number): List {
  return { ...list, open: list.open + more };
}

/** Behind a comma, which stands in the items of the lists around it. */
function nextItem(list: List): List {
  const outer = list.outer && appended(list.outer, ",");
  const recent = [new Item(list.item), ...list.recent];
  return { ...list, outer, item: "", isInValue: false, recent, differs: false };
}

function settledList(list: List): List {
  const outer = list.outer && settledList(list.outer);
  const items = list.recent.reduceRight((set, item) => set.with(item), list.items);
  const settled = { ...list, outer, items, recent: [] };
  return { ...settled, differs: list.differs || !mayRepeat(settled) };
}
