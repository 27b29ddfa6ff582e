/**
 * Constraints of the kinds that requests bring, vocabularies of the sizes that models have, and what
 * is measured with them.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import type { Constraint } from "../../src/grammar/grammar.ts";
import { createTiktokenTokenizer } from "../../src/text/tiktoken.ts";
import { createTokenizer, type Tokenizer } from "../../src/text/tokenizer.ts";
import { EMBEDDED_MODEL } from "../../test/support/checkpoints/embedded_model.ts";
import { hasSharedData, sharedJson } from "../../test/text/shared_data.ts";

export interface GrammarSample extends Constraint {
  readonly name: string;
  /** It fits; a walk goes through its tokens. */
  readonly text: string;
}

const tool = {
  type: "object",
  properties: {
    city: { type: "string" },
    unit: { type: "string", enum: ["celsius", "fahrenheit"] },
    days: { type: "integer" },
    hourly: { type: "boolean" },
  },
  required: ["city", "unit"],
  additionalProperties: false,
};

const nested = {
  type: "object",
  properties: {
    id: { type: "string", format: "uuid" },
    contact: {
      type: "object",
      properties: {
        email: { type: "string", format: "email" },
        name: { type: "string", minLength: 1, maxLength: 64 },
      },
      required: ["email", "name"],
      additionalProperties: false,
    },
    notes: {
      type: "array",
      items: {
        type: "object",
        properties: { text: { type: "string", maxLength: 200 }, done: { type: "boolean" } },
        required: ["text", "done"],
        additionalProperties: false,
      },
    },
  },
  required: ["id", "contact", "notes"],
  additionalProperties: false,
};

const options = Array.from({ length: 200 }, (_, i) => `option number ${i} of the list`);

const person = { name: "Zoë", tags: ["a", "b c"], size: [1.5, -20, 0], ok: true, next: null };

const schema = (name: string, value: unknown, document: unknown): GrammarSample => ({
  name,
  kind: "json_schema",
  source: JSON.stringify(value),
  text: JSON.stringify(document),
});

export const GRAMMAR_SAMPLES: readonly GrammarSample[] = [
  schema("tool schema", tool, { city: "Saint-Étienne", unit: "celsius", days: 3, hourly: true }),
  schema("nested schema", nested, {
    id: "123e4567-e89b-12d3-a456-426614174000",
    contact: { email: "ada.lovelace@example.org", name: "Ada King, Countess of Lovelace" },
    notes: [
      { text: "The engine weaves algebraical patterns.", done: true },
      { text: "It has no pretensions to originate anything.", done: false },
    ],
  }),
  schema("200-way enum", { enum: options }, options[137]),
  schema("any JSON", true, [person, { nested: { deeper: [person, [[person]]] } }]),
  {
    name: "EBNF, identifiers",
    kind: "ebnf",
    source: String.raw`root ::= (statement "\n")+
statement ::= name " = " value ("." name arguments?)* ";"
value ::= name | number | arguments
arguments ::= "(" (value (", " value)*)? ")"
name ::= [a-zA-Z_] [a-zA-Z0-9_]*
number ::= [0-9]+`,
    text: "result = client.fetch_all(query, 25).filter(is_active);\ntotal_count = result.size();\n",
  },
];

export interface SizedTokenizer {
  readonly name: string;
  readonly tokenizer: Tokenizer;
}

/** From the smallest to the largest; those of models without the data of other projects. */
export async function sampleTokenizers(): Promise<SizedTokenizer[]> {
  const embedded: unknown = JSON.parse(readFileSync(`${EMBEDDED_MODEL}/tokenizer.json`, "utf8"));
  const shared = hasSharedData ? ["gpt-2", "deepseek-llm"] : [];
  return [
    { name: "embedded", tokenizer: createTokenizer(embedded) },
    ...shared.map((name) => ({
      name,
      tokenizer: createTokenizer(sharedJson(`tokenizers/${name}/tokenizer.json`)),
    })),
    { name: "o200k", tokenizer: await createTiktokenTokenizer("o200k_base") },
  ];
}

/** Milliseconds that some work takes, and what it gives. */
export function timed<T>(work: () => T): { readonly ms: number; readonly result: T } {
  const started = performance.now();
  const result = work();
  return { ms: performance.now() - started, result };
}

/** The value that a share of all is not above. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(Math.floor(values.length * share), values.length - 1)]!;
}

/** What was measured of one grammar and one vocabulary; masks in microseconds. */
export interface GrammarFigures {
  /** Milliseconds. */
  readonly compile: number;
  /** Milliseconds, compiling included. */
  readonly firstMask: number;
  /** Masks of the first walk. */
  readonly cold: readonly number[];
  /** Masks of later walks. */
  readonly warm: readonly number[];
}

export const FIGURE_NAMES = [
  "compile ms",
  "first mask ms",
  "cold us: p50",
  "p99",
  "warm us: p50",
  "p99",
];

export function figureCells({ compile, firstMask, cold, warm }: GrammarFigures): string[] {
  return [
    compile.toFixed(1),
    firstMask.toFixed(1),
    percentile(cold, 0.5).toFixed(0),
    percentile(cold, 0.99).toFixed(0),
    percentile(warm, 0.5).toFixed(1),
    percentile(warm, 0.99).toFixed(1),
  ];
}
