import { expect, test } from "vitest";
import { StopStrings } from "../../../src/engine/sample/stop.ts";

/** Pushes `text` in pieces of every length and returns what came out, the end included. */
function show(stops: string[], text: string, size: number) {
  const stop = new StopStrings(stops);
  let shown = "";
  for (let i = 0; i < text.length && stop.matched === undefined; i += size) {
    shown += stop.push(text.slice(i, i + size));
    for (const each of stops) expect(shown).not.toContain(each);
  }
  return { shown: shown + stop.flush(), matched: stop.matched };
}

test.each([1, 2, 3, 7, 100])("StopStrings cuts before the stop string (pieces of %i)", (size) => {
  expect(show(["END"], "one ENtwo END three", size)).toEqual({
    shown: "one ENtwo ",
    matched: "END",
  });
});

test.each([1, 2, 5, 100])("StopStrings lets go what never becomes a stop string (%i)", (size) => {
  expect(show(["END", "abab"], "ababENabaE", size).matched).toBe("abab");
  expect(show(["END"], "aEENxEN", size)).toEqual({ shown: "aEENxEN", matched: undefined });
});

test("StopStrings holds back only what may be part of one", () => {
  const stop = new StopStrings(["\n\n"]);
  expect(stop.push("a\n")).toBe("a");
  expect(stop.push("b")).toBe("\nb");
});

test.each([1, 2, 5, 100])(
  "StopStrings keeps the stop string where asked (pieces of %i)",
  (size) => {
    const stop = new StopStrings(["END", "N"], true);
    const text = "one ENtwo";
    let shown = "";
    for (let i = 0; i < text.length && stop.matched === undefined; i += size) {
      shown += stop.push(text.slice(i, i + size));
    }
    expect([shown, stop.matched]).toEqual(["one EN", "N"]);
  },
);

test.each([1, 2, 100])("StopStrings: the string complete first wins (pieces of %i)", (size) => {
  expect(show(["cd", "ab"], "xabcd", size)).toEqual({ shown: "x", matched: "ab" });
  expect(show(["bc", "abc"], "xabcd", size)).toEqual({ shown: "xa", matched: "bc" });
});
