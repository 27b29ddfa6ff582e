/**
 * Reads command-line options out of tables, and prints the tables as help.
 *
 * A flag may be shortened to any prefix that leaves one row: `--model` and `--model-path` name the
 * same row, so `--mod` is clear. A prefix that is another server's option in full is none: `--device`
 * does not mean `--device-memory`.
 *
 * @module
 */

import { EngineError } from "../../errors.ts";
import { insteadOf } from "./foreign_options.ts";

/** The command line is wrong. The process ends with exit code 2. */
export class OptionError extends EngineError {
  readonly code = "invalid_option";
}

interface KindValues {
  readonly flag: boolean;
  readonly string: string;
  readonly integer: number;
  readonly number: number;
  /** A size, with an optional suffix K, M, G or T: powers of 1024. */
  readonly bytes: number;
  readonly integers: readonly number[];
  readonly strings: readonly string[];
  /** Written as JSON on the command line. */
  readonly object: Readonly<Record<string, unknown>>;
}

export interface OptionRow {
  /** All spellings; the first is the one that messages use. */
  readonly flags: readonly [string, ...string[]];
  readonly kind: keyof KindValues;
  readonly help: string;
  /** Heading in the help. */
  readonly group: string;
  /** What stands for the value in the help. */
  readonly value?: string;
  readonly default?: string | number | boolean;
  /** Says what happens without the option where there is no fixed default. */
  readonly defaultText?: string;
  readonly choices?: readonly string[];
  readonly min?: number;
  readonly max?: number;
  /** Of a list: whether the option may be given again, and adds to it then. Default false. */
  readonly repeats?: boolean;
  /** Set where the capability does not exist yet: the values that change nothing. */
  readonly neutral?: readonly (string | number | boolean)[];
}

export type OptionTable = Readonly<Record<string, OptionRow>>;

type RowValue<R> = R extends { readonly choices: readonly (infer Choice)[] }
  ? Choice
  : R extends { readonly kind: infer Kind extends keyof KindValues }
    ? KindValues[Kind]
    : never;

/** What a table's options parse to. A row without a default may be `undefined`. */
export type OptionValues<T extends OptionTable> = {
  readonly [K in keyof T]: T[K] extends { readonly default: unknown }
    ? RowValue<T[K]>
    : RowValue<T[K]> | undefined;
};

export interface ParsedOptions<T extends OptionTable> {
  readonly values: OptionValues<T>;
  /** Arguments that are neither options nor their values. */
  readonly positionals: readonly string[];
}

/**
 * @param configured Values in place of the defaults, by the keys of the table.
 * @throws {OptionError} for an unknown or ambiguous option, a bad or missing value, and an option
 * whose capability does not exist yet.
 */
export function parseOptions<const T extends OptionTable>(
  table: T,
  args: readonly string[],
  configured: Readonly<Record<string, unknown>> = {},
): ParsedOptions<T> {
  const values: Record<string, unknown> = {};
  for (const [key, row] of Object.entries(table)) values[key] = configured[key] ?? row.default;
  const positionals: string[] = [];
  /** Options that the command line has. */
  const repeated = new Set<string>();
  const rest = [...args];
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    if (arg === "--") {
      for (const positional of rest.splice(0)) positionals.push(positional);
    } else if (arg.startsWith("--")) {
      const equals = arg.indexOf("=");
      const flag = equals < 0 ? arg : arg.slice(0, equals);
      const key = findRow(table, flag);
      const given = equals < 0 ? undefined : arg.slice(equals + 1);
      const row = table[key]!;
      const whole = row.flags.find((known) => known.startsWith(flag));
      const shown = row.flags.includes(flag) ? flag : `${flag} (${whole})`;
      const value = readValue(row, shown, given, rest);
      const before = repeated.has(key) ? (values[key] as readonly string[]) : [];
      values[key] = row.repeats ? [...before, ...(value as readonly string[])] : value;
      repeated.add(key);
    } else {
      positionals.push(arg);
    }
  }
  return { values: values as OptionValues<T>, positionals };
}

/** Key of the one row that `flag` names, in full or by a prefix. */
function findRow(table: OptionTable, flag: string): string {
  const rows = Object.entries(table);
  const exact = rows.find(([, row]) => row.flags.includes(flag));
  if (exact !== undefined) return exact[0];
  if (insteadOf(flag) !== undefined) {
    throw new OptionError(`Cannot use option ${flag}: ${foreignProblem(table, flag)}`);
  }
  const matches = rows.filter(([, row]) => row.flags.some((known) => known.startsWith(flag)));
  if (matches.length === 1) return matches[0]![0];
  if (matches.length > 1) {
    const names = matches.map(([, row]) => row.flags.find((known) => known.startsWith(flag)));
    throw new OptionError(`Cannot use option ${flag}: it may mean ${joinOr(names as string[])}`);
  }
  const near = nearFlags(table, flag);
  const hint = near.length === 0 ? "" : ` (did you mean ${joinOr(near)}?)`;
  throw new OptionError(`Cannot use option ${flag}: there is no such option${hint}`);
}

/** What is wrong with another server's option, and what to use where the table has it. */
export function foreignProblem(table: OptionTable, flag: string): string | undefined {
  const instead = insteadOf(flag);
  if (instead === undefined) return undefined;
  const known = Object.values(table).flatMap(({ flags }) => flags);
  const named = instead.match(/--[a-z-]+/g) ?? [];
  return named.every((name) => known.includes(name)) ? instead : "there is no such option";
}

/** Flags that the caller may have meant, the nearest first. */
export function nearFlags(table: OptionTable, flag: string): string[] {
  const most = Math.max(2, Math.floor(flag.length / 4));
  return Object.values(table)
    .map((row) => {
      const ranked = row.flags.map((known) => ({ known, distance: editDistance(flag, known) }));
      return ranked.sort((a, b) => a.distance - b.distance)[0]!;
    })
    .filter(({ distance }) => distance <= most)
    .sort((a, b) => a.distance - b.distance)
    .slice(0, 3)
    .map(({ known }) => known);
}

/** Insertions, deletions and replacements between two words (Levenshtein). */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}

/** Takes the value from behind `=`, else from the following arguments. */
function readValue(
  row: OptionRow,
  flag: string,
  given: string | undefined,
  rest: string[],
): KindValues[keyof KindValues] {
  const value = row.kind === "flag" ? readFlag(flag, given) : readArgument(row, flag, given, rest);
  if (isSupported(row, value)) return value;
  const shown = row.kind === "flag" ? "" : ` ${value}`;
  throw new OptionError(`Cannot use option ${row.flags[0]}${shown}: it is not supported yet`);
}

/** Whether the capability exists, or the value does not ask for it. */
export function isSupported({ neutral }: OptionRow, value: unknown): boolean {
  return neutral === undefined || neutral.includes(value as string);
}

function readFlag(flag: string, given: string | undefined): boolean {
  if (given !== undefined) throw new OptionError(`Cannot use option ${flag}: it takes no value`);
  return true;
}

function readArgument(
  row: OptionRow,
  flag: string,
  given: string | undefined,
  rest: string[],
): Exclude<KindValues[keyof KindValues], boolean> {
  const isList = row.kind === "integers" || row.kind === "strings";
  const words = given === undefined ? [] : [given];
  while (given === undefined && rest.length > 0 && !rest[0]!.startsWith("--")) {
    words.push(rest.shift()!);
    if (!isList) break;
  }
  if (words.length === 0) throw new OptionError(`Cannot use option ${flag}: it needs a value`);
  if (!isList) return readWord(row, flag, words[0]!) as KindValues["object"] | string | number;
  const items = words.flatMap((word) => word.split(",")).map((item) => readWord(row, flag, item));
  return items as readonly string[] | readonly number[];
}

function readWord(row: OptionRow, flag: string, word: string): string | number | object {
  const value = parseWord(row, word);
  const wanted = wantedInstead(row, value);
  if (wanted === undefined) return value as string | number | object;
  throw new OptionError(`Cannot use option ${flag} ${word}: it must be ${wanted}`);
}

function parseWord({ kind }: OptionRow, word: string): unknown {
  switch (kind) {
    case "bytes":
      return readBytes(word);
    case "integer":
    case "integers":
    case "number":
      return readNumber(word);
    case "object":
      return readJson(word);
    case "flag":
    case "string":
    case "strings":
      return word;
    default:
      return kind satisfies never;
  }
}

/** What a value, or one item of a list, must be instead; `undefined` when it is fine. */
export function wantedInstead(row: OptionRow, value: unknown): string | undefined {
  switch (row.kind) {
    case "flag":
      return typeof value === "boolean" ? undefined : "true or false";
    case "object": {
      const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
      return isObject ? undefined : "a JSON object";
    }
    case "string":
    case "strings":
      if (typeof value !== "string" || value === "") return "a text that is not empty";
      return row.choices?.includes(value) === false ? joinOr(row.choices) : undefined;
    default:
      return wantedNumber(row, value);
  }
}

function wantedNumber(row: OptionRow, value: unknown): string | undefined {
  const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = row;
  const isWhole = row.kind !== "number";
  const fits = typeof value === "number" && value >= min && value <= max;
  if (fits && (!isWhole || Number.isSafeInteger(value))) return undefined;
  return `a ${isWhole ? "whole " : ""}number${rangeText(row)}`;
}

function readJson(word: string): unknown {
  try {
    return JSON.parse(word);
  } catch {
    return undefined;
  }
}

function readNumber(word: string): number {
  return /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(word) ? Number(word) : Number.NaN;
}

/** `NaN` for what is no size. */
export function readBytes(word: string): number {
  const match = /^(\d+(?:\.\d+)?)([KMGT])?(?:i?B)?$/i.exec(word);
  if (match === null) return Number.NaN;
  const power = match[2] === undefined ? 0 : "KMGT".indexOf(match[2].toUpperCase()) + 1;
  return Math.floor(Number(match[1]) * 1024 ** power);
}

function rangeText({ kind, min, max }: OptionRow): string {
  const suffix = kind === "bytes" ? " of bytes, as 8G or 512M" : "";
  if (min !== undefined && max !== undefined) return `${suffix} from ${min} to ${max}`;
  if (min !== undefined) return `${suffix}, ${min} or more`;
  return max === undefined ? suffix : `${suffix}, ${max} at most`;
}

export function joinOr(words: readonly string[]): string {
  if (words.length < 2) return words.join();
  return `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

const HELP_COLUMN = 32;
const HELP_WIDTH = 100;

/** The rows as aligned text, one paragraph a group, in the order of the table. */
export function formatOptions(table: OptionTable): string {
  const groups = new Map<string, string[]>();
  for (const row of Object.values(table)) {
    groups.set(row.group, [...(groups.get(row.group) ?? []), ...formatRow(row)]);
  }
  return [...groups].map(([group, lines]) => `${group}:\n${lines.join("\n")}`).join("\n\n");
}

function formatRow(row: OptionRow): string[] {
  const value = row.kind === "flag" ? "" : ` ${row.value ?? row.choices?.join("|") ?? "N"}`;
  const left = `  ${row.flags.join(", ")}${value}`;
  const lines = wrap(row.help + defaultOf(row), HELP_WIDTH - HELP_COLUMN);
  const indent = " ".repeat(HELP_COLUMN);
  if (left.length > HELP_COLUMN - 2) return [left, ...lines.map((line) => indent + line)];
  return lines.map((line, i) => (i === 0 ? left.padEnd(HELP_COLUMN) : indent) + line);
}

function defaultOf(row: OptionRow): string {
  const text = row.defaultText ?? (row.kind === "flag" ? undefined : row.default);
  return text === undefined ? "" : ` (default: ${text})`;
}

function wrap(text: string, width: number): string[] {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1)!;
    if (line !== "" && line.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = line === "" ? word : `${line} ${word}`;
  }
  return lines;
}
