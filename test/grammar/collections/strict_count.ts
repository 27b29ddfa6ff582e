/**
 * The strict count: a schema is right when every value that fits it is accepted and every other one
 * rejected; one that is refused is wrong.
 *
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { compileGrammar } from "../../../src/grammar/library.ts";
import { ALL_COLLECTIONS } from "./all_collections.ts";
import type { CollectedSchema } from "./collection.ts";

const WRITTEN = fileURLToPath(new URL("./written/", import.meta.url));

/** Schemas by their collection. Those of a file are a line each. */
export function writtenCollections(): ReadonlyMap<string, readonly CollectedSchema[]> {
  const files = readdirSync(WRITTEN).filter((name) => name.endsWith(".jsonl"));
  const read = (file: string) =>
    readFileSync(WRITTEN + file, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as CollectedSchema);
  return new Map([
    ["by hand, with orders of members", ALL_COLLECTIONS],
    ...files.map((file) => [file.replace(/\.jsonl$/, ""), read(file)] as const),
  ]);
}

/** What is wrong with a schema: its refusal, or its values that are judged wrongly. */
export function wrongs({ schema, valid, invalid }: CollectedSchema): readonly string[] {
  let grammar: ReturnType<typeof compileGrammar>;
  try {
    grammar = compileGrammar({ jsonSchema: JSON.stringify(schema) });
  } catch (error) {
    return [`refused: ${(error as Error).message}`];
  }
  const texts = (values: readonly unknown[]) => values.map((value) => JSON.stringify(value));
  return [
    ...texts(valid).flatMap((text) => (grammar.accepts(text) ? [] : [`rejects ${text}`])),
    ...texts(invalid).flatMap((text) => (grammar.accepts(text) ? [`accepts ${text}`] : [])),
  ];
}
