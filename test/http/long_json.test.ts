import { expect, test } from "vitest";
import { eventStream, JsonText } from "../../src/http/event_stream.ts";
import {
  isLong,
  JsonList,
  jsonPieces,
  jsonResponse,
  PIECE_LENGTH,
} from "../../src/http/long_json.ts";
import { seeded } from "../support/seeded.ts";

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

/** A list of so many numbers that counts how many items were made. */
function counted(count: number) {
  const made = { items: 0 };
  const item = (i: number) => {
    made.items += 1;
    return [i, `"${i}"`, null];
  };
  return { made, list: new JsonList(numbers(count), item, () => 3) };
}

test("pieces are what JSON.stringify writes, wherever lists stand", () => {
  const random = seeded(5);
  const below = (end: number) => Math.floor(random() * end);
  const value = (depth: number): unknown => {
    const kind = below(depth > 3 ? 5 : 8);
    if (kind === 0) return counted(below(5)).list;
    if (kind < 5) return [null, 'te"xt\\\u2028', -0.5, true, undefined][kind];
    const parts = numbers(below(4)).map(() => value(depth + 1));
    if (kind === 5) return parts.map((part) => part ?? null);
    return Object.fromEntries(parts.map((part, i) => [`k"${i}`, part]));
  };
  for (let i = 0; i < 1000; i++) {
    const one = { first: value(0), second: value(0) };
    expect([...jsonPieces(one)].join("")).toBe(JSON.stringify(one));
  }
});

test("a long list is made as it is read, and the answer is over when all is", async () => {
  const { made, list } = counted(60_000);
  expect([isLong({ a: [{ list }] }), isLong({ a: counted(100).list })]).toEqual([true, false]);
  let sent = 0;
  const response = jsonResponse({ before: 1, list, behind: [2] }, () => {
    sent += 1;
  });
  expect(response.headers.get("content-type")).toBe("application/json");
  const reader = response.body!.getReader();
  await reader.read();
  await reader.read();
  expect(made.items).toBeLessThan(20_000);
  await reader.cancel();
  expect(sent).toBe(1);
  const whole = jsonResponse({ before: 1, list, behind: [2] }, () => {
    sent += 1;
  });
  expect(await whole.text()).toBe(JSON.stringify({ before: 1, list, behind: [2] }));
  expect(sent).toBe(2);
});

test("an item with long lists in it is written in pieces too", () => {
  const inner = Array.from({ length: 3000 }, (_, i) => i);
  const of = () =>
    new JsonList(
      [0, 1],
      (item) => ({ item, inner: new JsonList(inner, (i) => `text ${i}`) }),
      () => inner.length,
    );
  const list = of();
  for (const _ of [0, 1]) {
    const pieces = [...list.pieces()];
    expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThan(2 * PIECE_LENGTH);
    expect(pieces.join("")).toBe(JSON.stringify(of()));
  }
  // What is kept is whole items.
  expect([...list.pieces()].length).toBeGreaterThan(1);
  expect([...list.pieces()].join("")).toBe(JSON.stringify(of()));
});

test("of a list that grows, what was written before is not made again", () => {
  const made = { items: 0 };
  const sources: number[] = [];
  const list = new JsonList(
    sources,
    (i) => {
      made.items += 1;
      return i;
    },
    () => 1,
  );
  for (let i = 0; i < 30; i++) {
    for (let j = 0; j < 1000; j++) sources.push(sources.length);
    expect([...list.pieces()].join("")).toBe(JSON.stringify(sources));
  }
  // Each once, what is not a whole piece again each time, and all once more to keep it.
  expect(made.items).toBeLessThan(8 * sources.length);
});

test("other work has its turns while a long list is written", async () => {
  const { list } = counted(60_000);
  let turns = 0;
  const timer = setInterval(() => {
    turns += 1;
  });
  await jsonResponse({ list }).text();
  clearInterval(timer);
  expect(turns).toBeGreaterThan(1);
});

test("events with long lists are frames like others", async () => {
  async function* items() {
    yield 1;
    yield 2;
  }
  const { list } = counted(5000);
  let sent = 0;
  const response = eventStream(items(), {
    events: (n) => (n === 1 ? [{ n }, { n, list }] : [new JsonText('{"a":1,', { n, list }), { n }]),
    last: () => [new JsonText('{"b":2}')],
    failure: String,
    ended: () => {
      sent += 1;
    },
  });
  const json = JSON.stringify(list);
  expect(await response.text()).toBe(
    [`{"n":1}`, `{"n":1,"list":${json}}`, `{"a":1,"n":2,"list":${json}}`, `{"n":2}`, `{"b":2}`]
      .concat("[DONE]")
      .map((event) => `data: ${event}\n\n`)
      .join(""),
  );
  expect(sent).toBe(1);
});
