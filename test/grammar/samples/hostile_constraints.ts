/**
 * Constraints as a careless or malicious client brings them, the same for the same seed: malformed,
 * huge, deeply nested, exponential, or only strange.
 *
 * @module
 */

import { TOOL_FORMATS } from "../../../src/grammar/constraints/tool_grammar.ts";
import type { Constraint, ConstraintKind } from "../../../src/grammar/grammar.ts";
import { SCHEMAS } from "./hostile_schemas.ts";
import {
  type Family,
  type HostileOptions,
  HostileSource,
  NAMES,
  nested,
  wrongValue,
} from "./hostile_source.ts";
import { GRAMMARS, PATTERNS } from "./hostile_texts.ts";

export interface HostileConstraint extends Constraint {
  /** For the messages of failing tests. */
  readonly family: string;
}

const json = JSON.stringify;

/** Stands for a schema in other JSON. */
const SCHEMA = "a schema";

/** JSON with a hostile schema in it, which may nest too deep to be written as a value. */
function withSchema(source: HostileSource, outside: string): string {
  const [, draw] = source.pick(SCHEMAS);
  let schema = draw(source);
  try {
    JSON.parse(schema);
  } catch {
    schema = json(source.schema());
  }
  return outside.replace(json(SCHEMA), () => schema);
}

const TAGS: readonly Family[] = [
  ["noise", (s) => s.noise(10_000)],
  [
    "mutated",
    (s) => s.mutate(tag([{ begin: "<a>", schema: { type: "integer" }, end: "</a>" }], ["<"])),
  ],
  [
    "hostile schemas",
    (s) => withSchema(s, tag([{ begin: "<a>", schema: SCHEMA, end: "" }], ["<a"])),
  ],
  [
    "long triggers",
    (s) => {
      const unit = s.pick(["a", "ab", "aab", s.noise(10) || "x"]);
      const trigger = unit.repeat(s.size(50_000));
      return tag([{ begin: trigger, schema: true, end: "" }], [trigger]);
    },
  ],
  [
    "many triggers",
    (s) => {
      const names = s.list(s.size(20_000), (i) =>
        s.pick([`<${i}>`, "a".repeat(i % 200), `${i}`, s.noise(5)]),
      );
      return tag(
        names.map((begin) => ({ begin, schema: { const: 1 }, end: begin })),
        s.pick([names, ["<"], [...new Set(names)]]),
      );
    },
  ],
  ["formats", (s) => json({ format: format(s, 1 + s.below(6)) })],
  [
    "formats inside each other",
    (s) => {
      const [open, close] = s.pick([
        ['{"type":"star","content":', "}"],
        ['{"type":"or","elements":[', "]}"],
        ['{"type":"tag","begin":"a","end":"b","content":', "}"],
      ] as const);
      const inner = json(s.pick<unknown>([{ type: "any_text" }, { type: "star" }, 1]));
      return `{"format":${nested(s.size(50_000), open, close, inner)}}`;
    },
  ],
  [
    "wrong types",
    (s) =>
      json({
        structures: s.pick<unknown>([[wrongValue(s)], wrongValue(s)]),
        triggers: s.pick<unknown>([["a"], wrongValue(s)]),
        ...(s.below(2) ? { [s.pick(NAMES)]: 1 } : {}),
      }),
  ],
];

function tag(structures: readonly unknown[], triggers: readonly string[]): string {
  return json({ structures, triggers });
}

/** Formats of all kinds, large and small, some of them wrong. */
function format(s: HostileSource, depth: number): unknown {
  const words = () => s.list(s.below(4), () => s.noise(5) || "x");
  const inner = () => format(s, depth - 1);
  const someTag = () => ({
    begin: s.noise(4),
    content: inner(),
    end: s.pick([">", "", [">", "a"]]),
  });
  if (depth === 0) {
    return s.pick<unknown>([
      { type: "const_string", value: s.noise() },
      { type: "any_text", excludes: words(), max_chars: s.pick([null, s.size(100_000)]) },
      { type: "regex", pattern: s.regex() },
      { type: "json_schema", json_schema: s.schema() },
      { type: "grammar", grammar: 'root ::= root "a" | "b"' },
      { type: "token", token: s.pick([1, "<unused>"]) },
      wrongValue(s),
    ]);
  }
  const elements = s.list(1 + s.below(3), inner);
  const tags = s.list(1 + s.below(3), someTag);
  const [at_least_one, stop_after_first] = [s.below(2) === 0, s.below(2) === 0];
  return s.pick<unknown>([
    { type: "sequence", elements },
    { type: "or", elements },
    { type: s.pick(["optional", "star", "plus"]), content: inner() },
    { type: "repeat", min: s.below(3), max: s.pick([-1, s.size(1_000_000)]), content: inner() },
    { type: "tag", ...someTag() },
    { type: "triggered_tags", triggers: tags.map(({ begin }) => begin), tags, at_least_one },
    { type: "triggered_tags", triggers: words(), tags, stop_after_first, excludes: words() },
    { type: "dispatch", rules: words().map((word) => [word, inner()]), loop: at_least_one },
    { type: "tags_with_separator", tags, separator: s.noise(3), at_least_one, stop_after_first },
  ]);
}

const CHOICES: readonly Family[] = [
  ["noise", (s) => s.noise(10_000)],
  ["mutated", (s) => s.mutate(json(["yes", "no", "é\n\u2028"]))],
  [
    "many",
    (s) => json(s.list(s.size(20_000), (i) => s.pick([`${i}`, "a".repeat(i % 50), s.noise(5)]))),
  ],
  ["long", (s) => json([s.noise(60_000), "a".repeat(s.size(200_000)), ""])],
  ["wrong types", (s) => json(s.pick<unknown>([[wrongValue(s)], wrongValue(s), []]))],
];

/** The servers write these, so only names and schemas are strange. */
const TOOLS: readonly Family[] = [
  ["hostile schemas", (s) => withSchema(s, tools(s, [{ name: s.noise(), parameters: SCHEMA }]))],
  [
    "many",
    (s) =>
      tools(
        s,
        s.list(s.size(5_000), (i) => ({
          name: s.pick([`f${i}`, s.noise(20), s.pick(NAMES)]),
          parameters: { type: "object", properties: { a: { type: "string" } } },
        })),
      ),
  ],
  [
    "long names",
    (s) => tools(s, [{ name: s.noise(100_000) }, { name: s.noise(100_000), parameters: false }]),
  ],
];

function tools(s: HostileSource, functions: readonly unknown[]): string {
  const [required, parallel] = [s.below(2) === 0, s.below(2) === 0];
  return json({ format: s.pick(TOOL_FORMATS), functions, required, parallel });
}

const FAMILIES: readonly (readonly [ConstraintKind, Family])[] = (
  [
    ["json_schema", SCHEMAS],
    ["regex", PATTERNS],
    ["ebnf", GRAMMARS],
    ["structural_tag", TAGS],
    ["choice", CHOICES],
    ["tools", TOOLS],
  ] as const
).flatMap(([kind, families]) => families.map((family) => [kind, family] as const));

/** Kinds of trouble. */
export const FAMILY_COUNT = FAMILIES.length;

/** One for each seed, of one family after the other. */
export function hostileConstraint(seed: number, options: HostileOptions): HostileConstraint {
  const [kind, [name, draw]] = FAMILIES[seed % FAMILY_COUNT]!;
  return { kind, family: `${kind}: ${name}`, source: draw(new HostileSource(seed, options)) };
}
