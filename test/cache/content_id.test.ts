import { expect, test } from "vitest";
import { ContentIds } from "../../src/cache/content_id.ts";
import { RadixCache } from "../../src/cache/radix_cache.ts";

/** The bytes 0, 1, 2, .. as words. */
const counting = (bytes: number) =>
  new Uint32Array(Uint8Array.from({ length: bytes }, (_, i) => i).buffer);

// The authors' published test vectors, for a key of the bytes 0 to 7.
test.each([
  [0, "218d1f59b9b83cc8"],
  [4, "d5e78a175be52ea1"],
  [8, "edfee820bce4858c"],
  [60, "d6762890bf26e460"],
])("ContentIds hashes %i bytes as HalfSipHash does", (bytes, digest) => {
  const [k0, k1] = counting(8);
  const hash = new ContentIds([k0!, k1!]).hash(counting(bytes));
  const written = Buffer.from(Uint32Array.from(hash).buffer).toString("hex");
  expect(written).toBe(digest);
});

test("ContentIds.of() is exact, beyond every token, and told by one bit anywhere", () => {
  const ids = new ContentIds();
  const words = Uint32Array.from({ length: 300 }, (_, i) => Math.imul(i + 1, 0x9e3779b9));
  const seen = new Set([ids.of(words)]);
  for (let bit = 0; bit < words.length * 32; bit += 7) {
    const other = words.slice();
    other[bit >> 5]! ^= 1 << (bit & 31);
    const id = ids.of(other);
    expect(id).toBeGreaterThanOrEqual(2 ** 52);
    expect(Number.isSafeInteger(id)).toBe(true);
    expect(seen.has(id)).toBe(false);
    seen.add(id);
  }
  expect(ids.of(words.slice())).toBe(ids.of(words));
  expect(new ContentIds().of(words)).not.toBe(ids.of(words));
});

test.each([1, 4])(
  "RadixCache tells ids apart that share their lower 32 bits (pages of %i)",
  (pageSize) => {
    const radix = new RadixCache({ pageSize });
    const key = Array.from({ length: 8 }, (_, i) => 2 ** 52 + 5 + i);
    const pages = Array.from({ length: 8 / pageSize }, (_, i) => i);
    radix.insert(key, pages);
    expect(radix.match(key).tokens).toBe(8);
    expect(radix.match(key.map((id) => id + 2 ** 32)).tokens).toBe(0);
    expect(radix.match(key.map((id) => id - 2 ** 52)).tokens).toBe(0);
    expect(radix.match([...key.slice(0, 4), 3, 4, 5, 6]).tokens).toBe(4);
  },
);
