/**
 * Hostile clients whose constraints take long to be compiled or followed.
 *
 * @module
 */
import type { Kind } from "./neighbours.ts";
import { many, post } from "./raw_requests.ts";

const constrained = (sampling: object, text = "Answer: ") =>
  post("/generate", { text, sampling_params: { max_new_tokens: 6, ...sampling } });

const schema = (value: object) => constrained({ json_schema: JSON.stringify(value) });

const properties = (count: number, name: (i: number) => string) =>
  Object.fromEntries(many(count, (i) => [name(i), { type: "string" }]));

function deep(levels: number): object {
  let inside: object = { type: "string" };
  for (let i = 0; i < levels; i++) inside = { type: "object", properties: { a: inside } };
  return inside;
}

export const CONSTRAINTS: readonly Kind[] = [
  {
    name: "regular expressions of catastrophe",
    isLong: true,
    connections: [
      ...[
        "(a+)+$",
        "(x+x+)+y",
        "(.*)*b",
        "(a|a)*b",
        "((a{0,99}){0,99}){0,99}",
        "(?:a?){900}a{900}",
      ],
      ...["(.{1,999}){1,999}", "[^]{9999}", "(\\w+\\s?){50,60}X", "(".repeat(5000)],
    ].map((regex) => constrained({ regex })),
  },
  {
    name: "huge schemas",
    isLong: true,
    connections: [
      schema({ type: "object", properties: properties(5000, (i) => `field_${i}`) }),
      schema({ enum: many(20_000, (i) => `value ${i}`) }),
      schema({ anyOf: many(3000, (i) => ({ type: "object", properties: { [`a${i}`]: {} } })) }),
      schema({ type: "string", pattern: "(a|b|ab)*c{1000}", minLength: 900 }),
      schema({ type: "array", items: { type: "integer" }, minItems: 1e6 }),
      schema({ type: "string", minLength: 1e9, maxLength: 2e9 }),
    ],
  },
  {
    name: "deep schemas",
    connections: [
      schema(deep(500)),
      constrained({ json_schema: `${'{"not":'.repeat(20_000)}{}${"}".repeat(20_000)}` }),
      schema({
        $ref: "#/$defs/a",
        $defs: { a: { anyOf: [{ $ref: "#/$defs/b" }, { $ref: "#/$defs/a" }] }, b: { $ref: "#" } },
      }),
    ],
  },
  {
    name: "a schema for each request",
    isLong: true,
    connections: many(48, (i) =>
      schema({
        type: "object",
        required: [`a${i}`],
        properties: properties(30, (field) => `field ${i} ${field}`),
      }),
    ),
    atOnce: 16,
  },
  {
    name: "grammars in EBNF",
    connections: [
      constrained({ ebnf: `root ::= ${"(".repeat(3000)}"a"${")".repeat(3000)}` }),
      constrained({ ebnf: 'root ::= root "a" | root root | ""' }),
      constrained({ ebnf: many(3000, (i) => `r${i} ::= r${i + 1} r${i + 1}`).join("\n") }),
      constrained({ ebnf: `root ::= ${many(5000, (i) => `"word ${i}"`).join(" | ")}` }),
    ],
  },
  {
    name: "choices and structural tags",
    connections: [
      post("/v1/chat/completions", {
        messages: [{ role: "user", content: "a" }],
        max_tokens: 4,
        guided_choice: many(2000, (i) => `choice ${i}`),
      }),
      constrained({
        structural_tag: JSON.stringify({
          structures: many(64, (i) => ({ begin: `<t${i}>`, schema: {}, end: `</t${i}>` })),
          triggers: many(64, (i) => `<t${i}`),
        }),
      }),
    ],
  },
];
