import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { StopStrings } from "../../../src/engine/sample/stop.ts";
import { MAX_STOP_UNITS, MAX_STOPS } from "../../../src/request_limits.ts";

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

/** What the text shows and which string ends it, from all of it at once. */
function expected(stops: readonly string[], text: string, keep: boolean) {
  const ends = stops.map((stop) => ({ stop, end: text.indexOf(stop) + stop.length }));
  const found = ends.filter(({ stop }) => text.includes(stop)).sort((a, b) => a.end - b.end)[0];
  if (found === undefined) return { shown: text, matched: undefined };
  const { stop, end } = found;
  return { shown: text.slice(0, keep ? end : end - stop.length), matched: stop };
}

test("StopStrings: any strings in any text, in pieces of any size, are found where they end first", () => {
  const word = fc.string({
    unit: fc.constantFrom("a", "b", "c", "\ud83d", "\ude00"),
    maxLength: 12,
  });
  const stops = fc.array(
    word.filter((text) => text !== ""),
    { minLength: 1, maxLength: 8 },
  );
  fc.assert(
    fc.property(stops, fc.array(word, { maxLength: 12 }), fc.boolean(), (strings, pieces, keep) => {
      const stop = new StopStrings(strings, keep);
      let shown = "";
      for (const piece of pieces) {
        if (stop.matched !== undefined) break;
        shown += stop.push(piece);
        const held = expected(strings, pieces.join(""), keep).shown;
        expect(held.startsWith(shown)).toBe(true);
      }
      if (stop.matched === undefined) shown += stop.flush();
      const { matched } = stop;
      expect({ shown, matched }).toEqual(expected(strings, pieces.join(""), keep));
    }),
    { numRuns: 2000, seed: 1 },
  );
});

test("StopStrings looks at each character a few times, however many strings there are", () => {
  const units = MAX_STOP_UNITS / MAX_STOPS;
  const strings = Array.from({ length: MAX_STOPS }, (_, i) =>
    `aaaaaaaaaaaa${i}`.padEnd(units, "x"),
  );
  const stop = new StopStrings(strings);
  const looks = [
    vi.spyOn(Map.prototype, "get"),
    vi.spyOn(String.prototype, "indexOf"),
    vi.spyOn(String.prototype, "endsWith"),
  ];
  try {
    const text = "aaaaaaaaaaaaaaab ".repeat(60);
    for (const character of text) stop.push(character);
    const count = looks.reduce((sum, { mock }) => sum + mock.calls.length, 0);
    expect(count).toBeLessThanOrEqual(2 * text.length);
    expect(count).toBeGreaterThanOrEqual(text.length);
  } finally {
    for (const look of looks) look.mockRestore();
  }
});

test("StopStrings of one list share what is made of it", () => {
  const list = () => Array.from({ length: MAX_STOPS }, (_, i) => `shared ${i} end`);
  new StopStrings(list());
  const set = vi.spyOn(Map.prototype, "set");
  try {
    for (let i = 0; i < 128; i++) new StopStrings(list());
    expect(set.mock.calls.length).toBeLessThanOrEqual(128);
  } finally {
    set.mockRestore();
  }
});
