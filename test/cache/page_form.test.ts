/** Pages of ranks as one rank would have them, and back. */
import { describe, expect, test } from "vitest";
import {
  type EntryShares,
  ownersOf,
  PageForm,
  partOfRank,
  rankFields,
} from "../../src/cache/page_form.ts";
import {
  allocatePacked,
  openPacked,
  type PageLayout,
  seal,
  splitPacked,
} from "../../src/cache/page_header.ts";

const COUNTS = { firstLayer: 0, layerCount: 2, pageCount: 3 };
const NUMERICS = { classes: "exact" };

interface Case extends EntryShares {
  readonly dtype: PageLayout["dtype"];
  /** Elements of a head's vector in a part; of FP8 its bytes, the scale included. */
  readonly vector: number;
}

const ELEMENT = { f32: 4, bf16: 2, fp8_e4m3: 1, fp8_e5m2: 1 } as const;

function layoutOf({ vector, dtype, ...shares }: Case, own: number): PageLayout {
  const { parts } = shares;
  const numerics = JSON.stringify({ ...NUMERICS, ...rankFields(shares, 0) });
  return {
    modelHash: "m",
    numerics,
    dtype,
    entryWidth: parts * own * vector,
    pageSize: 4,
    layers: 2,
  };
}

/** A byte of which each tells where it is from. */
const byteAt = (entry: number, part: number, head: number, byte: number) =>
  (entry * 31 + part * 17 + head * 7 + byte) % 251;

/** Pages with the vectors of these heads. */
function pagesOf(layout: PageLayout, { parts, vector, dtype }: Case, heads: readonly number[]) {
  const { bytes, payload } = allocatePacked({ ...layout, ...COUNTS });
  const length = vector * ELEMENT[dtype];
  const entries = COUNTS.layerCount * COUNTS.pageCount * layout.pageSize;
  let at = 0;
  for (let entry = 0; entry < entries; entry++) {
    for (let part = 0; part < parts; part++) {
      for (const head of heads) {
        for (let byte = 0; byte < length; byte++) payload[at++] = byteAt(entry, part, head, byte);
      }
    }
  }
  expect(at).toBe(payload.length);
  seal(bytes);
  return bytes;
}

const range = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i);

/** Heads of each rank, as the models' own code shares them out. */
const SHARES: readonly (readonly [string, Case, readonly (readonly number[])[]])[] = [
  [
    "keys and values of four heads on two ranks",
    { ranks: 2, heads: 4, parts: 2, dtype: "bf16", vector: 6 },
    [range(0, 2), range(2, 2)],
  ],
  [
    "those in FP8, each with its scale",
    { ranks: 3, heads: 3, parts: 2, dtype: "fp8_e4m3", vector: 12 },
    [[0], [1], [2]],
  ],
  [
    "two heads on four ranks",
    { ranks: 4, heads: 2, parts: 2, dtype: "f32", vector: 3 },
    [[0], [0], [1], [1]],
  ],
  [
    "a latent on three ranks",
    { ranks: 3, heads: 1, parts: 1, dtype: "bf16", vector: 10 },
    [[0], [0], [0]],
  ],
];

describe.each(SHARES)("%s", (_, given, heads) => {
  const own = layoutOf(given, heads[0]!.length);
  const form = new PageForm({ ...own, shares: given });
  const ofRanks = () => {
    const parts = ownersOf(given).map((rank) => {
      const numerics = JSON.stringify({ ...NUMERICS, ...rankFields(given, rank) });
      return pagesOf({ ...own, numerics }, given, heads[rank]!);
    });
    const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
    parts.reduce((at, part) => {
      all.set(part, at);
      return at + part.length;
    }, 0);
    return all;
  };
  const numerics = JSON.stringify(NUMERICS);
  const whole = { ...own, numerics, entryWidth: given.parts * given.heads * given.vector };

  test("is whole as one rank would have it, and cut again", () => {
    expect(form.whole).toEqual(whole);
    expect(form.isDivided).toBe(given.heads >= given.ranks);
    const right = pagesOf(whole, given, range(0, given.heads));
    expect(form.join(ofRanks())).toEqual(right);
    expect(form.cut(right)).toEqual(ofRanks());
  });

  test("is read of the first rank of those that have the same", () => {
    const owners = ownersOf(given);
    for (const [rank, one] of heads.entries()) {
      const owner = owners[partOfRank(given, rank)]!;
      expect([owner, heads[owner]]).toEqual([
        heads.indexOf(heads.find((of) => of[0] === one[0])!),
        one,
      ]);
      expect(rankFields(given, rank)).toEqual(rankFields(given, owner));
    }
    const fields = owners.map((rank) => JSON.stringify(rankFields(given, rank)));
    expect(new Set(fields).size).toBe(owners.length);
  });

  // One that is whole already the codec looks at.
  test.skipIf(ownersOf(given).length === 1)(
    "is not cut where bytes have changed, or are of another layout",
    () => {
      const joined = form.join(ofRanks());
      expect(openPacked(joined, whole).header).toEqual(splitPacked(joined).header);
      const changed = joined.slice();
      changed[changed.length - 1]! ^= 1;
      expect(() => form.cut(changed)).toThrow("their bytes have changed");
      const other = pagesOf({ ...whole, modelHash: "n" }, given, range(0, given.heads));
      expect(() => form.cut(other)).toThrow("modelHash");
      expect(() => form.cut(joined.subarray(0, joined.length - 4))).toThrow("length");
    },
  );
});

test("pages of one rank are whole as they are", () => {
  const layout = { ...layoutOf(SHARES[0]![1], 4), numerics: "{}" };
  const form = new PageForm(layout);
  expect([form.whole, form.isDivided]).toEqual([layout, true]);
  const bytes = pagesOf(layout, SHARES[0]![1], range(0, 4));
  expect([form.join(bytes), form.cut(bytes)]).toEqual([bytes, bytes]);
});
