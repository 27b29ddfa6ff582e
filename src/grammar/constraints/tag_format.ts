/**
 * The formats of which a structural tag consists, and how they are read from JSON.
 *
 * | `type` | fields | texts |
 * |---|---|---|
 * | `const_string` | `value` | this text |
 * | `json_schema` | `json_schema` | JSON that fits |
 * | `regex` | `pattern` | a match |
 * | `grammar` | `grammar` | what its rule `root` matches, in EBNF |
 * | `any_text` | `excludes`, `max_chars` | any text without these words |
 * | `token` | `token` | a special token, by name or id |
 * | `sequence`, `or` | `elements` | one after another, any of them |
 * | `optional`, `star`, `plus`, `repeat` | `content`, `min`, `max` (-1: no bound) | repetitions |
 * | `tag` | `begin`, `content`, `end` (a text, a list, a token) | one behind another |
 * | `triggered_tags` | `triggers`, `tags`, `at_least_one`, `stop_after_first`, `excludes` | free text with tags |
 * | `dispatch` | `rules`, `loop`, `excludes` | free text with formats behind words |
 * | `tags_with_separator` | `tags`, `separator`, `at_least_one`, `stop_after_first` | a list of tags |
 *
 * @module
 */

import { spendEffort } from "../effort.ts";
import { GrammarError } from "../grammar_error.ts";
import { MAX_REPETITIONS } from "../text_scanner.ts";
import type { Marks } from "./marks.ts";

export type TagFormat = { readonly path: string } & (
  | { readonly kind: "text"; readonly value: string }
  | { readonly kind: "schema"; readonly schema: unknown }
  | { readonly kind: "grammar" | "regex"; readonly source: string }
  | FreeFormat
  | { readonly kind: "sequence" | "or"; readonly elements: readonly TagFormat[] }
  | RepeatFormat
  | TagsFormat
  | Tag
  | TriggeredFormat
);

export interface FreeFormat {
  readonly kind: "free";
  readonly excludes: readonly string[];
  /** Code points. */
  readonly maxChars: number | undefined;
}

export interface RepeatFormat {
  readonly kind: "repeat";
  readonly content: TagFormat;
  readonly min: number;
  /** May be Infinity. */
  readonly max: number;
}

export interface Tag {
  readonly kind: "tag";
  readonly begin: string;
  readonly content: TagFormat;
  /** One of them ends it. */
  readonly ends: readonly string[];
}

/** Free text in which every trigger begins a part. */
export interface TriggeredFormat {
  readonly kind: "triggered";
  readonly triggers: readonly string[];
  readonly excludes: readonly string[];
  /** Each begins with a trigger. */
  readonly tags: readonly Tag[];
  /** Whether a tag comes first, without text before it. */
  readonly atLeastOne: boolean;
  readonly stopAfterFirst: boolean;
}

/** Tags and nothing else. */
export interface TagsFormat {
  readonly kind: "tags";
  readonly tags: readonly Tag[];
  readonly separator: string;
  readonly atLeastOne: boolean;
  readonly stopAfterFirst: boolean;
}

/** Formats inside each other. */
export const MAX_DEPTH = 100;
const FORMAT_EFFORT = 5;
/** Code units of words of free text, as often as there are words: each has an automaton of its own. */
export const MAX_WORDS = 20_000;

type Value = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Value =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export function refuse(path: string, problem: string): never {
  throw new GrammarError(`Cannot use the structural tag: ${problem}`, { path: `/${path}` });
}

/** @throws {GrammarError} when there are others than the known fields. */
export function requireFields(object: object, path: string, known: readonly string[]): void {
  const unknown = Object.keys(object).find((name) => !known.includes(name));
  if (unknown !== undefined)
    refuse(`${path}/${unknown}`.replace(/^\//, ""), "there is no such field");
}

/** @throws {GrammarError} when it is no list of words, or there are too many. */
export function readWords(value: unknown, path: string): readonly string[] {
  const isWord = (one: unknown): one is string => typeof one === "string" && one !== "";
  if (!Array.isArray(value) || !value.every(isWord)) {
    return refuse(path, "it must be a list of texts, none of them empty");
  }
  if (value.some((word) => /\p{Surrogate}/u.test(word))) {
    refuse(path, "UTF-8 cannot spell half a surrogate pair");
  }
  limitWords(value, path);
  return value;
}

/** @throws {GrammarError} when there are too many words, or they are too long. */
export function limitWords(words: readonly string[], path: string): void {
  const units = words.reduce((sum, word) => sum + word.length, 0);
  if (units * words.length > MAX_WORDS) refuse(path, "they are too many or too long");
}

export class TagFormatReader {
  readonly #marks: Marks;
  #depth = 0;

  constructor(marks: Marks) {
    this.#marks = marks;
  }

  /** @throws {GrammarError} naming what is missing, unknown or of another type. */
  read(value: unknown, path: string): TagFormat {
    spendEffort(FORMAT_EFFORT);
    if (!isObject(value)) return refuse(path, "it must be an object");
    if (this.#depth === MAX_DEPTH) refuse(path, `more than ${MAX_DEPTH} nest in each other`);
    this.#depth += 1;
    const format = this.#readKind(value, path);
    this.#depth -= 1;
    return format;
  }

  #readKind(value: Value, path: string): TagFormat {
    const fields = (...names: string[]) => requireFields(value, path, ["type", ...names]);
    switch (value.type) {
      case "const_string":
        fields("value");
        return { path, kind: "text", value: requireText(value.value, `${path}/value`) };
      case "json_schema":
        fields("json_schema", "style", "any_order");
        return { path, kind: "schema", schema: readSchema(value, path) };
      case "regex":
        fields("pattern");
        return { path, kind: "regex", source: requireText(value.pattern, `${path}/pattern`) };
      case "grammar":
        fields("grammar");
        return { path, kind: "grammar", source: requireText(value.grammar, `${path}/grammar`) };
      case "any_text":
        fields("excludes", "max_chars", "max_tokens");
        return { path, ...this.#readFree(value, path) };
      case "token":
        return { path, kind: "text", value: this.#token(value, path) };
      case "sequence":
      case "or":
        fields("elements");
        return { path, kind: value.type, elements: this.#list(value, path, "elements") };
      case "optional":
      case "star":
      case "plus":
      case "repeat":
        return this.#readRepeat(value, path);
      case "tag":
        return { path, ...this.#readTag(value, path) };
      case "triggered_tags":
        fields("triggers", "tags", "at_least_one", "stop_after_first", "excludes");
        return { path, ...this.#readTriggered(value, path) };
      case "dispatch":
        fields("rules", "loop", "excludes");
        return { path, ...this.#readDispatch(value, path) };
      case "tags_with_separator":
        fields("tags", "separator", "at_least_one", "stop_after_first");
        return { path, ...this.#readTags(value, path) };
      default:
        return refuseKind(value.type, path);
    }
  }

  #list(value: Value, path: string, name: string): readonly TagFormat[] {
    const list = value[name];
    if (!Array.isArray(list) || list.length === 0) {
      return refuse(`${path}/${name}`, "it must be a list, and not empty");
    }
    return list.map((one, i) => this.read(one, `${path}/${name}/${i}`));
  }

  /** The name of a special token. */
  #token(value: Value, path: string): string {
    requireFields(value, path, ["type", "token"]);
    const { token } = value;
    if (typeof token !== "string" && typeof token !== "number") {
      return refuse(`${path}/token`, "it must be a text or a number");
    }
    const name = this.#marks.nameOf(token);
    return name ?? refuse(`${path}/token`, "the vocabulary has no such special token");
  }

  #readFree(value: Value, path: string): FreeFormat {
    const { excludes = [], max_chars: maxChars, max_tokens: maxTokens } = value;
    if (maxTokens !== undefined && maxTokens !== null) {
      refuse(`${path}/max_tokens`, "tokens of a part cannot be counted, use max_chars");
    }
    const isCount = Number.isSafeInteger(maxChars) && (maxChars as number) >= 0;
    if (!isCount && maxChars !== undefined && maxChars !== null) {
      refuse(`${path}/max_chars`, "it must be a whole number from 0");
    }
    return {
      kind: "free",
      excludes: readWords(excludes, `${path}/excludes`),
      maxChars: isCount ? (maxChars as number) : undefined,
    };
  }

  #readRepeat(value: Value, path: string): TagFormat {
    const isBounded = value.type === "repeat";
    requireFields(value, path, ["type", "content", ...(isBounded ? ["min", "max"] : [])]);
    const content = this.read(value.content, `${path}/content`);
    if (!isBounded) {
      const max = value.type === "optional" ? 1 : Number.POSITIVE_INFINITY;
      return { path, kind: "repeat", content, min: value.type === "plus" ? 1 : 0, max };
    }
    const isBound = (bound: unknown): bound is number =>
      Number.isSafeInteger(bound) && (bound as number) >= 0 && (bound as number) <= MAX_REPETITIONS;
    const { min, max } = value;
    const most = `a whole number from 0 to ${MAX_REPETITIONS}`;
    if (!isBound(min)) return refuse(`${path}/min`, `it must be ${most}`);
    if (!isBound(max) && max !== -1) return refuse(`${path}/max`, `it must be -1 or ${most}`);
    if (max !== -1 && max < min) refuse(`${path}/max`, "it must be at least min, or -1");
    return { path, kind: "repeat", content, min, max: max === -1 ? Number.POSITIVE_INFINITY : max };
  }

  #readTag(value: unknown, path: string): Tag {
    if (!isObject(value)) return refuse(path, "it must be an object");
    requireFields(value, path, ["type", "begin", "content", "end"]);
    if ((value.type ?? "tag") !== "tag") refuse(`${path}/type`, 'it must be "tag"');
    const content = this.read(value.content, `${path}/content`);
    const ends = Array.isArray(value.end) ? value.end : [value.end];
    if (ends.length === 0) refuse(`${path}/end`, "it must not be an empty list");
    const texts = ends.map((end) => this.#edge(end, `${path}/end`));
    if (texts.length > 1) limitWords(texts, `${path}/end`);
    return { kind: "tag", begin: this.#edge(value.begin, `${path}/begin`), content, ends: texts };
  }

  /** A text or a token around a tag. */
  #edge(value: unknown, path: string): string {
    if (isObject(value) && value.type === "token") return this.#token(value, path);
    return requireText(value, path);
  }

  #tags(value: Value, path: string): readonly Tag[] {
    const { tags } = value;
    if (!Array.isArray(tags) || tags.length === 0) {
      return refuse(`${path}/tags`, "it must be a list, and not empty");
    }
    return tags.map((tag, i) => this.#readTag(tag, `${path}/tags/${i}`));
  }

  #readTriggered(value: Value, path: string): TriggeredFormat {
    const triggers = readWords(value.triggers, `${path}/triggers`);
    const tags = this.#tags(value, path);
    const other = tags.findIndex(({ begin }) => !triggers.some((word) => begin.startsWith(word)));
    if (other >= 0) refuse(`${path}/tags/${other}/begin`, "no trigger begins it");
    return {
      kind: "triggered",
      triggers,
      tags,
      excludes: readWords(value.excludes ?? [], `${path}/excludes`),
      atLeastOne: readFlag(value, path, "at_least_one"),
      stopAfterFirst: readFlag(value, path, "stop_after_first"),
    };
  }

  /** Each word is a trigger, and a tag without an end begins with it. */
  #readDispatch(value: Value, path: string): TriggeredFormat {
    const { rules } = value;
    if (!Array.isArray(rules) || !rules.every((one) => Array.isArray(one) && one.length === 2)) {
      return refuse(`${path}/rules`, "it must be a list of pairs of a text and a format");
    }
    const tags = rules.map(([begin, format], i): Tag => {
      const content = this.read(format, `${path}/rules/${i}/1`);
      return { kind: "tag", begin, content, ends: [""] };
    });
    const words = readWords([...new Set(tags.map(({ begin }) => begin))], `${path}/rules`);
    return {
      kind: "triggered",
      triggers: words,
      tags,
      excludes: readWords(value.excludes ?? [], `${path}/excludes`),
      atLeastOne: false,
      stopAfterFirst: !readFlag(value, path, "loop", true),
    };
  }

  #readTags(value: Value, path: string): TagsFormat {
    return {
      kind: "tags",
      tags: this.#tags(value, path),
      separator: requireText(value.separator, `${path}/separator`),
      atLeastOne: readFlag(value, path, "at_least_one"),
      stopAfterFirst: readFlag(value, path, "stop_after_first"),
    };
  }
}

function requireText(text: unknown, path: string): string {
  if (typeof text !== "string") return refuse(path, "it must be a text");
  if (/\p{Surrogate}/u.test(text)) refuse(path, "UTF-8 cannot spell half a surrogate pair");
  return text;
}

function readFlag(value: Value, path: string, name: string, byDefault = false): boolean {
  const flag = value[name] ?? byDefault;
  return typeof flag === "boolean" ? flag : refuse(`${path}/${name}`, "it must be true or false");
}

function readSchema(value: Value, path: string): unknown {
  const { json_schema: schema, style = "json", any_order: anyOrder = false } = value;
  if (style !== "json") refuse(`${path}/style`, 'only "json" can be enforced');
  if (anyOrder !== false) refuse(`${path}/any_order`, "properties are in the order of the schema");
  return schema ?? refuse(`${path}/json_schema`, "it is missing");
}

const KINDS =
  "const_string, json_schema, regex, grammar, any_text, token, sequence, or, optional, star, plus, " +
  "repeat, tag, triggered_tags, dispatch, tags_with_separator";
/** Kinds of other servers that say something about tokens, or are another way to write values. */
const OTHERS: ReadonlySet<unknown> = new Set([
  "any_tokens",
  "exclude_token",
  "qwen_xml_parameter",
  "token_dispatch",
  "token_triggered_tags",
]);

function refuseKind(kind: unknown, path: string): never {
  if (OTHERS.has(kind)) return refuse(`${path}/type`, `${kind} cannot be enforced`);
  return refuse(`${path}/type`, `it must be one of ${KINDS}`);
}
