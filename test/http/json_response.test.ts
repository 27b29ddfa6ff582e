import fc from "fast-check";
import { expect, test } from "vitest";
import { jsonPieces, jsonResponse } from "../../src/http/json_response.ts";

const PAIRS = "\ud83d\ude00".repeat(200_000);

test("an answer is written in pieces as JSON.stringify writes it", () => {
  const text = fc.string({ unit: "binary", maxLength: 20 });
  const value = fc.oneof(fc.jsonValue(), fc.dictionary(text, fc.array(fc.double())));
  fc.assert(
    fc.property(value, (any) => {
      expect([...jsonPieces(any)].join("")).toBe(JSON.stringify(any));
    }),
    { numRuns: 500, seed: 1 },
  );
});

test.each<[string, object]>([
  ["token ids", { tokens: Array.from({ length: 300_000 }, (_, i) => i), count: 300_000 }],
  ["lists of them", [[1, 2], [], Array.from({ length: 9000 }, (_, i) => i)]],
  ["a text", { text: `a${PAIRS}\ud83d`, other: undefined }],
  ["texts", { text: Array.from({ length: 9000 }, (_, i) => `text "${i}"\n`) }],
  [
    "objects",
    { calls: Array.from({ length: 9000 }, (_, i) => ({ name: "f", index: i, all: {} })) },
  ],
])("a large answer is the one of Response.json, in short pieces: %s", async (_, value) => {
  const expected = Response.json(value);
  const found = await jsonResponse(value);
  expect(found.headers.get("content-type")).toBe(expected.headers.get("content-type"));
  expect(found.status).toBe(200);
  expect(await found.text()).toBe(await expected.text());
  const longest = Math.max(...[...jsonPieces(value)].map(({ length }) => length));
  expect(longest).toBeLessThan(128 * 1024);
});
