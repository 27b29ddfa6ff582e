/**
 * How many schemas are right by the strict count: every value that fits is accepted, every other one
 * rejected, and what is refused is wrong. Over the collections of the tests and, where
 * `../shared/data` is there, the suite of JSON Schema, with and without those of its schemas that
 * lie at another address.
 *
 * @module
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { CollectedSchema } from "../../test/grammar/collections/collection.ts";
import { writtenCollections, wrongs } from "../../test/grammar/collections/strict_count.ts";
import { table } from "../support/table.ts";

const SUITE = "../shared/data/json-schema-test-suite";

interface Group {
  readonly description: string;
  readonly schema: CollectedSchema["schema"];
  readonly tests: readonly { readonly data: unknown; readonly valid: boolean }[];
}

/** The required part of a draft; formats are annotations there, and are left to its optional part. */
function suiteOf(folder: string): readonly CollectedSchema[] {
  const names = readdirSync(join(SUITE, folder)).filter(
    (name) => name.endsWith(".json") && name !== "format.json",
  );
  return names.flatMap((name) => {
    const groups = JSON.parse(readFileSync(join(SUITE, folder, name), "utf8")) as readonly Group[];
    return groups.map(({ description, schema, tests }) => {
      const values = (wanted: boolean) =>
        tests.filter(({ valid }) => valid === wanted).map(({ data }) => data);
      return { name: description, schema, valid: values(true), invalid: values(false) };
    });
  });
}

/** A schema that no value fits is refused, which is right where the suite has none that does. */
function isRight(one: CollectedSchema): boolean {
  const found = wrongs(one);
  return found.every((wrong) => one.valid.length === 0 && wrong.includes("no value fits it"));
}

function rowOf(name: string, schemas: readonly CollectedSchema[]): string[] {
  const right = schemas.filter(isRight).length;
  const values = schemas.reduce(
    (sum, { valid, invalid }) => sum + valid.length + invalid.length,
    0,
  );
  const share = `${((100 * right) / schemas.length).toFixed(1)} %`;
  return [name, String(schemas.length), String(values), String(right), share];
}

test("the strict count", () => {
  const collections = [...writtenCollections()];
  const rows = collections.map(([name, schemas]) => rowOf(name, schemas));
  rows.push(
    rowOf(
      "all collections",
      collections.flatMap(([, schemas]) => schemas),
    ),
  );
  for (const folder of existsSync(SUITE) ? ["draft2020-12", "draft7"] : []) {
    const all = suiteOf(folder);
    const near = all.filter(({ schema }) => !JSON.stringify(schema).includes("localhost:1234"));
    rows.push(rowOf(folder, all), rowOf(`${folder}, without other addresses`, near));
  }
  console.log(table(["schemas of", "schemas", "values", "right", "share"], rows));
  expect(rows.length).toBeGreaterThan(5);
}, 300_000);
