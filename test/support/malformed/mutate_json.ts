/**
 * Changes to a JSON value by its structure: fields that are left out, of another type, out of range,
 * twice, moved, renamed, nested.
 *
 * @module
 */
import { Fields, Raw, writeJson } from "./json_text.ts";
import type { Random } from "./random.ts";

/** A place in a value: a field or an element. */
interface Place {
  readonly parent: Fields | unknown[];
  readonly index: number;
}

const NUMBERS: readonly unknown[] = [
  ...[0, -1, 1, 2, 3, 0.5, 1e-300, 255, 65_536, 2 ** 24, 2 ** 31 - 1, 2 ** 31, 2 ** 32],
  ...[2 ** 53 - 1, 2 ** 53, 1e300, -(2 ** 53), 1e9, 16_777_217, 1023, 7],
  ...["-0", "1e999", "-1e999", "1E+2", "123456789012345678901234567890"].map((one) => new Raw(one)),
];

const TEXTS = [
  ...["", " ", "\0", "\n\u001b[2J", "\ud800", "../../etc/passwd", "__proto__", "constructor"],
  ...["toString", "true", "0", "NaN", "re:(", "a".repeat(5000), "{{", "\u2581", "\u00e9\u0301"],
];

const OTHERS: readonly unknown[] = [
  ...[null, true, false, [], new Fields([])],
  ...[[null], [[]], [0, "a"], new Fields([["type", "Sequence"]])],
  ...["NaN", "-Infinity", "undefined", "0x10", "01", "'a'", "[1,]", "", '"\\ud800"', "/**/1"].map(
    (one) => new Raw(one),
  ),
];

const NAMES = ["__proto__", "constructor", "toString", "", "length", "type", "\u0000", "a.b"];
/** Levels around a value, some of them beyond every stack. */
const LEVELS = [1, 2, 12, 99, 101, 5000, 30_000];

/** Makes one change somewhere inside of `root`, in place where it can; returns the changed root. */
export function mutateJson(root: unknown, random: Random): unknown {
  const place = choosePlace(root, random);
  if (place === undefined) return random.pick(OTHERS);
  random.pick(CHANGES)(place, random);
  return root;
}

const CHANGES: readonly ((place: Place, random: Random) => void)[] = [
  removeAt,
  removeAt,
  (place, random) => write(place, random.pick(NUMBERS)),
  (place, random) => write(place, random.pick(NUMBERS)),
  (place, random) => write(place, random.pick(TEXTS)),
  (place, random) => write(place, random.pick(OTHERS)),
  (place, random) => write(place, nested(read(place), random)),
  (place, random) =>
    write(place, random.oneIn(2) ? [read(place)] : new Fields([["a", read(place)]])),
  repeat,
  rename,
  addField,
  swap,
  changeInKind,
  changeInKind,
];

/** Any place alike, fields near the root as often as all below them together. */
function choosePlace(root: unknown, random: Random): Place | undefined {
  let found: Place | undefined;
  let value = root;
  while (value instanceof Fields || Array.isArray(value)) {
    const length = value instanceof Fields ? value.entries.length : value.length;
    if (length === 0) break;
    found = { parent: value, index: random.below(length) };
    value = read(found);
    if (random.oneIn(3)) break;
  }
  return found;
}

function read({ parent, index }: Place): unknown {
  return parent instanceof Fields ? parent.entries[index]![1] : parent[index];
}

function write({ parent, index }: Place, value: unknown): void {
  if (parent instanceof Fields) parent.entries[index]![1] = value;
  else parent[index] = value;
}

function listOf({ parent }: Place): unknown[] {
  return parent instanceof Fields ? parent.entries : parent;
}

function removeAt(place: Place): void {
  listOf(place).splice(place.index, 1);
}

/** Characters that repeats may add. */
const MAX_ADDED = 100_000;

/** The same field or element once more, or many times. */
function repeat(place: Place, random: Random): void {
  const list = listOf(place);
  const room = Math.ceil(MAX_ADDED / (1 + writeJson(read(place)).length));
  const times = Math.min(random.pick([1, 1, 3, 100, 3000]), room);
  const { index } = place;
  const again = () =>
    place.parent instanceof Fields ? [...place.parent.entries[index]!] : place.parent[index];
  for (let i = 0; i < times; i++) list.push(again());
}

function rename({ parent, index }: Place, random: Random): void {
  if (!(parent instanceof Fields)) return;
  parent.entries[index]![0] = random.pick([...NAMES, parent.entries[index]![0].toUpperCase()]);
}

function addField({ parent, index }: Place, random: Random): void {
  const value = random.pick([...NUMBERS, ...TEXTS, ...OTHERS]);
  if (parent instanceof Fields) parent.entries.push([random.pick(NAMES), value]);
  else parent.splice(index, 0, value);
}

function swap(place: Place, random: Random): void {
  const other = { ...place, index: random.below(listOf(place).length) };
  const value = read(place);
  write(place, read(other));
  write(other, value);
}

/** Another value of the same type: near the old one, or far from it. */
function changeInKind(place: Place, random: Random): void {
  const value = read(place);
  if (typeof value === "number") {
    const near = [value + 1, value - 1, value * 2, value / 2, -value, value * 1024, value + 0.5];
    write(place, random.pick(near));
  } else if (typeof value === "string") {
    const half = Math.floor(value.length / 2);
    write(
      place,
      random.pick([value + value, value.slice(half), `${value}\n`, value.toUpperCase()]),
    );
  } else if (typeof value === "boolean") {
    write(place, !value);
  } else {
    write(place, random.pick(OTHERS));
  }
}

function nested(value: unknown, random: Random): Raw {
  const levels = random.pick(LEVELS);
  const inside = typeof value === "string" ? JSON.stringify(value) : "0";
  const [open, close] = random.pick([
    ["[", "]"],
    ['{"a":', "}"],
    ['{"type":"Sequence","normalizers":[', "]}"],
    ['{"type":"Sequence","pretokenizers":[', "]}"],
    ['{"type":"Sequence","processors":[', "]}"],
  ] as const);
  return new Raw(open.repeat(levels) + inside + close.repeat(levels));
}
