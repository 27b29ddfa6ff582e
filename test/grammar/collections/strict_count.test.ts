/** Schemas of many kinds by the strict count, their values judged by another implementation too. */
import Ajv from "ajv";
import Ajv2019 from "ajv/dist/2019.js";
import Ajv2020 from "ajv/dist/2020.js";
import draft06 from "ajv/dist/refs/json-schema-draft-06.json" with { type: "json" };
import addFormats from "ajv-formats";
import { describe, expect, test } from "vitest";
import type { CollectedSchema } from "./collection.ts";
import { writtenCollections, wrongs } from "./strict_count.ts";

/** Nothing for dialects that it does not know. */
function validatorOf({ schema }: CollectedSchema) {
  const {
    $schema = "2020-12",
    id: _,
    ...rest
  } = schema as {
    readonly $schema?: string;
    readonly id?: string;
  };
  if (/draft-0[34]/.test($schema)) return undefined;
  const options = { strict: false, logger: false } as const;
  const ajv = /draft-0[67]/.test($schema)
    ? new Ajv(options).addMetaSchema(draft06)
    : $schema.includes("2019")
      ? new Ajv2019(options)
      : new Ajv2020(options);
  (addFormats as unknown as (ajv: Ajv | Ajv2019 | Ajv2020) => void)(ajv);
  return ajv.compile(rest);
}

/**
 * Where that implementation has another opinion than JSON Schema, or than the registry of formats: it
 * divides as doubles, knows no `uint8`, looks up "constructor" in prototypes, reads what stands
 * beside `$ref` in draft-07, compiles patterns with the flag `u` where nothing is a string, too, has
 * no formats of names beyond ASCII, asks for `type` beside `nullable`, and finds an anchor in the
 * resource at hand before one of the resource that refers to it.
 */
const ITS_OWN = new Set([
  ...["openapi money numbers", "event ecommerce transaction", "odd decimal steps"],
  ...["openapi Order", "tool proto keys", "odd reference siblings of draft 7"],
  ...["registry words of prototypes", "registry quantity of a record"],
  ...["messy pattern with needless escapes", "hosts beyond ascii"],
  ...["openapi 3.0 nullable beside ref", "page of results generic by dynamic reference"],
]);

describe.each([...writtenCollections()])("%s", (name, collection) => {
  test.each(collection.map((one) => [one.name, one] as const))("%s", (_, one) => {
    expect(wrongs(one)).toEqual([]);
    if (ITS_OWN.has(one.name)) return;
    const fits = validatorOf(one);
    if (fits === undefined) return;
    expect(one.valid.filter((value) => !fits(value))).toEqual([]);
    expect(one.invalid.filter((value) => fits(value))).toEqual([]);
  });

  test("names are told apart", () => {
    expect(new Set(collection.map((one) => one.name)).size, name).toBe(collection.length);
  });
});
