import fc from "fast-check";
import { expect, test } from "vitest";
import { GrowingJsonNumbers, GrowingJsonText } from "../../../src/server/wire/growing_json.ts";

test("GrowingJsonText writes what JSON.stringify writes, wherever the text was cut", () => {
  // Any code units: halves of pairs, quotes and control characters included.
  const unit = fc.oneof(
    fc.constantFrom("\ud83d", "\ude00", '"', "\\", "\n", "\u0000", "\u2028", "a", "é"),
    fc.string({ unit: "binary" }),
  );
  fc.assert(
    fc.property(fc.array(unit), (pieces) => {
      const growing = new GrowingJsonText();
      let text = "";
      expect(growing.write(text)).toBe('""');
      for (const piece of pieces) {
        text += piece;
        expect(growing.write(text)).toBe(JSON.stringify(text));
      }
    }),
    { numRuns: 500 },
  );
});

test("GrowingJsonNumbers writes what JSON.stringify writes", () => {
  const growing = new GrowingJsonNumbers();
  const numbers: number[] = [];
  expect(growing.write(numbers)).toBe("[]");
  for (const more of [[7], [], [0, 129279, 5], [1]]) {
    numbers.push(...more);
    expect(growing.write(numbers)).toBe(JSON.stringify(numbers));
  }
});
