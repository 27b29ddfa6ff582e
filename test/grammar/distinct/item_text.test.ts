import { describe, expect, test } from "vitest";
import { Item, keyOf, mayBeginAs, plainForm } from "../../../src/grammar/distinct/item_text.ts";

/** As the follower of a grammar keeps texts: a unit for each byte. */
function bytesOf(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

describe("keyOf() is the same for", () => {
  test.each([
    ["1", "1.0"],
    ["100", "1e2"],
    ["0", "-0.0"],
    ['"a"', '"\\u0061"'],
    ['"é"', '"\\u00E9"'],
    ['"😀"', '"\\ud83d\\ude00"'],
    ['{"a":1,"b":[2]}', '{ "b": [2.0], "a": 1 }'],
    ['{"a":1,"a":2}', '{"a":2}'],
  ])("%s and %s", (one, other) => {
    expect(keyOf(bytesOf(one))).toBe(keyOf(bytesOf(` ${other}\n`)));
  });
});

describe("keyOf() differs for", () => {
  test.each([
    ["1", '"1"'],
    ["9007199254740993", "9007199254740992"],
    ["0.1", "0.10000000000000001"],
    ['"a"', '"A"'],
    ["[1,2]", "[2,1]"],
    ["[]", "{}"],
    ["null", '"null"'],
    ['{"a":1}', '{"a":"1"}'],
  ])("%s and %s", (one, other) => {
    expect(keyOf(bytesOf(one))).not.toBe(keyOf(bytesOf(other)));
  });
});

describe("every beginning of an item may begin it, in every spelling", () => {
  test.each([
    ['"abc"', ['"abc"', '"\\u0061b\\u0063"']],
    ['"é\\n"', ['"é\\n"', '"\\u00e9\\u000A"', '"\\u00E9\\n"']],
    ['"😀"', ['"😀"', '"\\ud83d\\ude00"', '"\\uD83D\\uDE00"']],
    ['"\\\\u"', ['"\\\\u"', '"\\u005cu"']],
    ["120", ["120", "120.0", "120.00e0"]],
    ["0", ["0", "-0", "0.0"]],
    [
      '{"a":[1,true],"b":"x"}',
      ['{ "a" : [ 1 , true ],\n"b": "x"}', '{"a":[1.0,true],"b":"x"}', '{"b":"x","a":[1,true]}'],
    ],
    [
      '[{"a":{"b":0,"c":[]}},"{"]',
      ['[{"a":{"c":[],"b":-0.0}},"{"]', '[{"\\u0061":{"c": [],"b":0}},"{"]'],
    ],
  ])("%s", (item, spellings) => {
    const whole = new Item(bytesOf(item));
    for (const spelling of spellings) {
      const bytes = bytesOf(spelling);
      for (let length = 0; length <= bytes.length; length++) {
        expect([length, mayBeginAs(whole, plainForm(bytes.slice(0, length)))]).toEqual([
          length,
          true,
        ]);
      }
    }
  });
});

test("what differs already does not begin an item", () => {
  const begins = (item: string, beginning: string) =>
    mayBeginAs(new Item(bytesOf(item)), plainForm(bytesOf(beginning)));
  expect(begins('"abc"', '"abd')).toBe(false);
  expect(begins('"abc"', '"\\u0062')).toBe(false);
  expect(begins("12", "13")).toBe(false);
  expect(begins('{"a":1}', '{"b"')).toBe(false);
  expect(begins("[1]", "[2")).toBe(false);
});

test("an exponent may make a number another one, so that its digits alone tell it apart", () => {
  const begins = (item: string, beginning: string) =>
    mayBeginAs(new Item(bytesOf(item)), plainForm(bytesOf(beginning)));
  for (const beginning of ["1", "1.", "1.5", "1.50", "0.01", "0", "150", "1.5e", "1.5e0", "15e-"]) {
    expect([beginning, begins("15", beginning)]).toEqual([beginning, true]);
    expect([beginning, begins("[1,15]", `[1,${beginning}`)]).toEqual([beginning, true]);
    expect([beginning, begins('{"a":15}', `{"a":${beginning}`)]).toEqual([beginning, true]);
  }
  for (const beginning of ["2", "1.6", "0.16", "151", "-1.5", "-"]) {
    expect([beginning, begins("15", beginning)]).toEqual([beginning, false]);
  }
  expect(begins("0", "-")).toBe(true);
  expect(begins("0", "-0.0")).toBe(true);
  expect(begins("0", "0.01")).toBe(false);
});

test("a number that no double holds is no null", () => {
  expect(keyOf("-1E2809")).not.toBe(keyOf("null"));
  expect(keyOf("[1E2809]")).not.toBe(keyOf("[null]"));
  expect(keyOf("1E2809")).not.toBe(keyOf("-1E2809"));
});

describe("what differs begins it in no order of its members", () => {
  test.each([
    ['{"a":1,"b":{"c":[1,2]}}', '{"b":{"c":[1,3'],
    ['{"a":1,"b":{"c":[1,2]}}', '{"b":{"c":[1]'],
    ['{"a":1,"b":{"c":[1,2]}}', '{"b":{"c":[1,2]}}'],
    ['{"a":1,"b":{"c":[1,2]}}', '{"b":[1'],
    ['{"a":1,"b":{"c":[1,2]}}', '{"b":{"c":[1,2,3'],
    ['{"a":1,"b":{"c":[1,2]}}', '{"a":1,"bc'],
    ['{"a":"x"}', '{"a":"xy'],
    ['{"a":"x"}', '{"a":nul'],
    ['{"a":"x"}', '{"a":"x","b"'],
    ['{"a":12}', '{"a":13'],
  ])("%s and %s", (item, beginning) => {
    const agrees = (end: number) =>
      mayBeginAs(new Item(bytesOf(item)), plainForm(bytesOf(beginning.slice(0, end))));
    expect(agrees(beginning.length)).toBe(false);
    expect(agrees(beginning.indexOf(":"))).toBe(true);
  });
});
