/**
 * Where a text stands in a grammar, together with the items that it must not repeat.
 *
 * @module
 */

import type { Configuration, Configurations } from "../automaton/configurations.ts";
import { ITEM_BYTE, isSign, LIST_BYTE } from "./distinct_bytes.ts";
import { ItemMemory } from "./item_memory.ts";

export interface Position {
  readonly configuration: Configuration;
  /** Absent outside of lists whose items must differ. */
  readonly memory: ItemMemory | undefined;
  /** Whether the last byte may have ended an item that differs from those before it. */
  readonly hasItem: boolean;
}

const SIGN_BYTES = { list: LIST_BYTE, item: ITEM_BYTE } as const;

type Sign = keyof typeof SIGN_BYTES;

interface Behind {
  readonly configuration: Configuration | null;
}

/**
 * Bytes that one search for the rest of an item tries. Longer items are taken to exist, but not others of
 * a list inside another one: many short ones that all are there already are no sign of them.
 */
export const MAX_TRIED = 4_096;
/** Bytes of an item that are read in the time in which a thread is followed. */
const UNITS_OF_WORK = 64;

const WHITE_SPACE: ReadonlySet<number> = new Set([0x20, 0x0a, 0x09, 0x0d]);

/** What ends items comes first, then what makes them differ; white space comes last. */
const SEARCH_ORDER: readonly number[] = (() => {
  // A number stays the same with any zeros behind it.
  const first = Array.from('"}]1234567890,:', (character) => character.charCodeAt(0));
  const listed = new Set([...first, ...WHITE_SPACE]);
  const others = Array.from({ length: 256 }, (_, byte) => byte).filter(
    (byte) => !listed.has(byte) && !isSign(byte),
  );
  return [...first, ...others, ...WHITE_SPACE];
})();

/** A place of the search for the rest of an item. */
interface Tried {
  readonly at: Position;
  /** What was added to the item on the way there, without the white space around values. */
  readonly added: string;
  /** Index of the byte to try next. */
  next: number;
}

export class Positions {
  readonly configurations: Configurations;
  /** Whether the grammar has lists whose items must differ. */
  readonly hasLists: boolean;
  /** What stands behind each sign, by the configuration in front of it. */
  readonly #behindSigns = {
    list: new WeakMap<Configuration, Behind>(),
    item: new WeakMap<Configuration, Behind>(),
  };
  readonly #goesOn = new WeakMap<Configuration, boolean>();

  constructor(configurations: Configurations) {
    this.configurations = configurations;
    this.hasLists = configurations.automaton.nodes.hasFirst(LIST_BYTE);
  }

  /** Where every text begins. */
  get start(): Position {
    return { configuration: this.configurations.start, memory: undefined, hasItem: false };
  }

  /** Goes on by one byte; null when no text goes on so. */
  step({ configuration, memory: before }: Position, byte: number): Position | null {
    const { configurations } = this;
    const next = configurations.step(configuration, configurations.automaton.classOf[byte]!);
    if (next === null || !this.hasLists) return next && here(next);
    const memory = before?.push(byte);
    const begun = this.#behind(next, "list");
    if (begun !== null) return here(begun, ItemMemory.begin(memory, byte));
    const behindItem = memory === undefined ? null : this.#behind(next, "item");
    if (behindItem === null) return here(next, memory);
    configurations.spend(1 + memory!.length / UNITS_OF_WORK);
    if (!memory!.isRepeated()) return here(behindItem, memory, true);
    return this.#canGoOn(next) ? here(next, memory) : null;
  }

  /** Goes on by some bytes; null when no text goes on so. */
  follow(position: Position, bytes: Uint8Array): Position | null {
    let at: Position | null = position;
    for (let i = 0; i < bytes.length && at !== null; i++) at = this.step(at, bytes[i]!);
    return at;
  }

  /** Whether the text may end here. */
  isAccepting({ configuration }: Position): boolean {
    return configuration.accepting;
  }

  /** Whether a sign may stand behind what leads to a configuration. */
  hasSign(configuration: Configuration): boolean {
    const [list, item] = [this.#behind(configuration, "list"), this.#behind(configuration, "item")];
    return list !== null || item !== null;
  }

  /** Whether the current item can still become one that differs from those before it. */
  canDiffer(position: Position): boolean {
    const { memory } = position;
    const list = memory?.repeatable;
    if (memory === undefined || list === undefined) return true;
    if (position.hasItem && memory.lists <= list.count) return true;
    this.configurations.spend(1 + memory.length / UNITS_OF_WORK);
    const { count: lists, size } = list;
    const { classOf } = this.configurations.automaton;
    const path: Tried[] = [{ at: position, added: "", next: 0 }];
    const seen = new Places();
    for (let left = MAX_TRIED; path.length > 0; ) {
      const top = path.at(-1)!;
      const byte = SEARCH_ORDER[top.next++];
      if (byte === undefined) {
        path.pop();
        continue;
      }
      // Most bytes are known to lead nowhere.
      if (top.at.configuration.next(classOf[byte]!) === null) continue;
      // Each place has all lists around it, whose items are looked at.
      this.configurations.spend(1 + top.at.memory!.lists);
      const next = this.step(top.at, byte);
      if (next === null) continue;
      const there = next.memory;
      if (there === undefined || there.lists < lists) return true;
      if (there.lists === lists && (next.hasItem || there.size > size)) return true;
      // However the item goes on, it is another, and nothing leads to a dead end.
      if (!there.mayRepeat()) return true;
      const isSpace = WHITE_SPACE.has(byte) && !top.at.memory!.isInString;
      const added = isSpace ? top.added : top.added + String.fromCharCode(byte);
      if (!seen.isNew(next, added)) continue;
      left -= 1;
      // The schema has counted the items of a list that is in no other.
      if (left === 0) return path.length > MAX_TRIED / 2 || memory.lists === 1;
      path.push({ at: next, added, next: 0 });
    }
    return false;
  }

  /** The configuration with what stands behind a sign; null where there is none. */
  #behind(configuration: Configuration, sign: Sign): Configuration | null {
    const known = this.#behindSigns[sign].get(configuration);
    if (known !== undefined) return known.configuration;
    const { configurations } = this;
    const byteClass = configurations.automaton.classOf[SIGN_BYTES[sign]]!;
    const behind = configurations.step(configuration, byteClass);
    const joined = behind && configurations.joined(configuration, behind);
    this.#behindSigns[sign].set(configuration, { configuration: joined });
    return joined;
  }

  /** Whether any byte of a text follows. */
  #canGoOn(configuration: Configuration): boolean {
    let known = this.#goesOn.get(configuration);
    if (known === undefined) {
      const { classes } = this.configurations.automaton;
      known =
        configuration.accepting ||
        classes.some(
          (byte, i) => !isSign(byte) && this.configurations.step(configuration, i) !== null,
        );
      this.#goesOn.set(configuration, known);
    }
    return known;
  }
}

/** Places of a search. White space around values tells none apart: it makes no item another. */
class Places {
  readonly #added = new Map<Configuration, Set<string>>();

  /** Whether none was there before; it is from now on. */
  isNew({ configuration, memory }: Position, added: string): boolean {
    let known = this.#added.get(configuration);
    if (known === undefined) {
      known = new Set();
      this.#added.set(configuration, known);
    }
    const { size } = known;
    known.add(`${memory!.lists} ${added}`);
    return known.size > size;
  }
}

function here(
  configuration: Configuration,
  memory: ItemMemory | undefined = undefined,
  hasItem = false,
): Position {
  return { configuration, memory, hasItem };
}
