/**
 * Hostile JSON schemas.
 *
 * @module
 */
import {
  type Family,
  type HostileSource,
  NAMES,
  NUMBERS,
  nested,
  STRANGE,
  wrongValue,
} from "./hostile_source.ts";
import { PATTERNS } from "./hostile_texts.ts";

const json = JSON.stringify;

/** Schemas of which each holds the next one, as text. */
const NESTINGS: readonly (readonly [string, string])[] = [
  ['{"properties":{"a":', "}}"],
  ['{"type":"object","required":["a"],"properties":{"a":', "}}"],
  ['{"items":', "}"],
  ['{"minItems":1,"type":"array","items":', "}"],
  ['{"allOf":[', "]}"],
  ['{"anyOf":[{"type":"null"},', "]}"],
  ['{"oneOf":[{"type":"null"},', "]}"],
  ['{"not":', "}"],
  ['{"if":{"type":"string"},"then":', "}"],
  ['{"contains":', "}"],
  ['{"additionalProperties":', "}"],
  ['{"const":[', "]}"],
  ['{"enum":[{"a":', "}]}"],
  ["[", "]"],
  ['{"a":', "}"],
];

function schemaOf(source: HostileSource): Record<string, unknown> {
  const { type = "object" } = source.schema();
  return { type };
}

const KEYWORDS =
  "type enum const allOf anyOf oneOf not if then else properties required additionalProperties patternProperties propertyNames minProperties maxProperties dependentRequired dependentSchemas items prefixItems contains minContains maxContains minItems maxItems uniqueItems minLength maxLength pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf $ref $defs $id $anchor $schema unevaluatedItems unevaluatedProperties contentEncoding unknown default".split(
    " ",
  );

export const SCHEMAS: readonly Family[] = [
  ["noise", (s) => s.noise(10_000)],
  ["mutated", (s) => s.mutate(json(s.schema()))],
  ["random", (s) => json(s.schema())],
  [
    "wrong types",
    (s) =>
      json({
        ...s.schema(),
        ...Object.fromEntries(s.list(3, () => [s.pick(KEYWORDS), wrongValue(s)])),
      }),
  ],
  [
    "prototype names",
    (s) => {
      const part = () => `{${s.list(3, () => `${json(s.pick(NAMES))}:{"type":"integer"}`).join()}}`;
      const names = json([...new Set(s.list(3, () => s.pick(NAMES)))]);
      return s.pick([
        `{"properties":${part()},"required":${names}}`,
        `{"properties":{"__proto__":{"const":1},"constructor":{}},"required":${names}}`,
        `{"$ref":"#/$defs/${s.pick(NAMES)}","$defs":${part()}}`,
        `{"__proto__":{"type":"string"},${json(s.pick(NAMES))}:1}`,
        `{"enum":[{"__proto__":1,"a":${names}}]}`,
        `{"dependentRequired":{"__proto__":${names}},"type":"object"}`,
        `{"type":"${s.pick(NAMES)}"}`,
        `{"format":"${s.pick(NAMES)}"}`,
      ]);
    },
  ],
  [
    "nested",
    (s) => {
      const [open, close] = s.pick(NESTINGS);
      const missing = s.below(4) === 0 ? s.below(3) : 0;
      return nested(s.size(100_000), open, close, "{}").slice(
        0,
        missing > 0 ? -missing : undefined,
      );
    },
  ],
  [
    "references in a row",
    (s) => {
      const length = s.size(20_000);
      const last = s.pick([
        '{"type":"null"}',
        '{"$ref":"#/$defs/d0"}',
        '{"$ref":"#/$defs/none"}',
        '{"$ref":"#"}',
      ]);
      const keyword = s.pick(["", '"type":"object",', '"minLength":1,']);
      const defs = s.list(length, (i) => `"d${i}":{${keyword}"$ref":"#/$defs/d${i + 1}"}`);
      return `{"$ref":"#/$defs/d0","$defs":{${[...defs, `"d${length}":${last}`].join()}}}`;
    },
  ],
  [
    "references doubled",
    (s) => {
      const length = s.size(2_000);
      const two = (i: number) => `{"$ref":"#/$defs/d${i + 1}"},{"$ref":"#/$defs/d${i + 1}"}`;
      const join = s.pick<(i: number) => string>([
        (i) => `{"allOf":[${two(i)}]}`,
        (i) => `{"anyOf":[${two(i)}]}`,
        (i) => `{"oneOf":[${two(i)}]}`,
        (i) => `{"prefixItems":[${two(i)}],"items":false,"minItems":2}`,
        (i) =>
          `{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/d${i + 1}"}},{"not":{"$ref":"#/$defs/d${i + 1}"}}]}`,
      ]);
      const defs = s.list(length, (i) => `"d${i}":${join(i)}`);
      return `{"$ref":"#/$defs/d0","$defs":{${[...defs, `"d${length}":{"type":"string"}`].join()}}}`;
    },
  ],
  [
    "products of choices",
    (s) => {
      const [width, height] = [2 + s.below(6), s.size(300)];
      const option = s.pick<(i: number, j: number) => unknown>([
        (i, j) => ({ properties: { [`k${i}`]: { const: j } }, required: [`k${i}`] }),
        (i, j) => ({ properties: { [`k${j}`]: { minimum: i } } }),
        (i, j) => ({ pattern: `^.{${i}}[${j}-9]` }),
        (i, j) => ({ not: { required: [`k${i}`, `k${j}`] } }),
        (i, j) => ({ multipleOf: 2 * i + j + 1 }),
        (i, j) => ({
          minLength: i,
          maxLength: i + 100 * j,
          type: ["string", "array"],
          minItems: j,
        }),
        (i, j) => ({ contains: { const: i * j }, items: { enum: s.list(width, (k) => i * k) } }),
        (i, j) => ({ patternProperties: { [`${i}.*${j}`]: { type: "string" } } }),
      ]);
      const choices = () => s.list(width, (j) => option(s.below(height + 1), j));
      const keyword = s.pick(["anyOf", "oneOf"]);
      const type = s.pick([
        {},
        { type: "object" },
        { type: "string" },
        { type: "number" },
        { type: "array" },
      ]);
      return json({ ...type, allOf: s.list(height, () => ({ [keyword]: choices() })) });
    },
  ],
  [
    "large lists",
    (s) => {
      const count = s.size(100_000);
      const value = s.pick<(i: number) => unknown>([
        (i) => `value ${i}`,
        (i) => i,
        (i) => ({ a: i }),
        (i) => [i, s.pick(STRANGE)],
        () => "same",
        (i) => "x".repeat(i % 100),
      ]);
      const list = s.list(count, value);
      return json(
        s.pick<unknown>([
          { enum: list },
          { not: { enum: list } },
          { type: "array", items: { enum: list }, uniqueItems: true },
          { const: list },
          { anyOf: list.map((one) => ({ const: one })) },
          { oneOf: list.map((one) => ({ const: one })) },
          { allOf: list.map((one) => ({ not: { const: one } })) },
          { required: [...new Set(list.map(String))] },
          {
            properties: Object.fromEntries(list.map((one) => [String(one), {}])),
            additionalProperties: false,
          },
          {
            properties: Object.fromEntries(list.map((one) => [String(one), { type: "integer" }])),
            minProperties: 2,
          },
          {
            properties: Object.fromEntries(list.map((one) => [String(one), {}])),
            patternProperties: { "^v.*1$": { type: "null" } },
          },
          {
            dependentRequired: Object.fromEntries(list.map((one) => [String(one), ["a"]])),
            type: "object",
          },
          { prefixItems: list.map((one) => ({ const: one })), uniqueItems: true },
          { prefixItems: list.map(() => ({})), contains: { type: "null" }, maxContains: 3 },
          {
            patternProperties: Object.fromEntries(
              s.list(Math.min(count, 300), (i) => [`a{${i}}`, { type: "string" }]),
            ),
          },
          {
            type: "string",
            allOf: s.list(Math.min(count, 100), (i) => ({ pattern: `^(a|b){${i}}` })),
          },
        ]),
      );
    },
  ],
  [
    "large bounds",
    (s) => {
      const bound = () =>
        s.pick([...NUMBERS, `${s.size(1e9)}`, `${s.size(100_000)}`, "1".repeat(s.size(40_000))]);
      const keyword = () =>
        s.pick([
          "minLength",
          "maxLength",
          "minItems",
          "maxItems",
          "minProperties",
          "maxProperties",
          "minimum",
          "maximum",
          "exclusiveMaximum",
          "multipleOf",
          "minContains",
          "maxContains",
          "const",
        ]);
      const more = s.pick([
        "",
        ',"pattern":"^(ab?)*$"',
        ',"format":"email"',
        ',"uniqueItems":true',
        ',"contains":{"type":"null"}',
        ',"not":{"multipleOf":7}',
        ',"type":"integer"',
        ',"type":"string"',
        ',"properties":{"a":{}}',
      ]);
      return `{${[...new Map(s.list(1 + s.below(3), () => [keyword(), bound()] as const))].map(([name, value]) => `"${name}":${value}`).join()}${more}}`;
    },
  ],
  [
    "patterns",
    (s) => {
      const pattern = s.pick([s.regex(), PATTERNS[s.below(PATTERNS.length)]![1](s)]);
      const other = s.pick([s.regex(), "^[^x]*$", "(a|b)*a(a|b){12}", "^.{0,100}$"]);
      return json(
        s.pick<unknown>([
          { type: "string", pattern },
          { type: "string", pattern, maxLength: s.size(1000) },
          { type: "string", not: { pattern } },
          { type: "string", allOf: [{ pattern }, { pattern: other }] },
          {
            type: "object",
            patternProperties: { [pattern]: { type: "integer" }, [other]: { minimum: 3 } },
          },
          { type: "object", propertyNames: { pattern }, properties: { a: {} } },
          {
            type: "object",
            patternProperties: { [pattern]: false },
            additionalProperties: schemaOf(s),
          },
        ]),
      );
    },
  ],
  [
    "strange texts",
    (s) =>
      json({
        enum: s.list(1 + s.size(200), () => s.noise()),
        properties: { [s.noise()]: { const: s.noise() } },
        required: [s.noise()],
      }),
  ],
];
