/** Pages of one size as pages of another: cut and joined at tokens. */
import { describe, expect, test } from "vitest";
import { allocatePacked, openPacked, type PageLayout, seal } from "../../src/cache/page_header.ts";
import { PageSizes } from "../../src/cache/page_sizes.ts";

const LAYERS = 2;
/** Layers that come: those of the model, and that of a module that drafts. */
const COUNTS = { firstLayer: 0, layerCount: LAYERS + 1 };
const GARBAGE = 255;

const layoutOf = (pageSize: number): PageLayout => ({
  ...{ modelHash: "m", numerics: "{}", dtype: "bf16", entryWidth: 2, layers: LAYERS },
  pageSize,
});

/** The four bytes of a token in a layer. */
const entry = (layer: number, token: number) => [layer, token & 127, token >> 7, 9];

/** Pages of a prompt; `behind` is in each byte that no token has. */
function pagesOf(
  { pageSize, tokens }: { readonly pageSize: number; readonly tokens: number },
  { first, count, behind }: { readonly first: number; readonly count: number; behind: number },
) {
  const header = { ...layoutOf(pageSize), ...COUNTS, pageCount: count };
  const { bytes, payload } = allocatePacked(header);
  let at = 0;
  for (let layer = 0; layer < COUNTS.layerCount; layer++) {
    for (let token = first * pageSize; token < (first + count) * pageSize; token++) {
      payload.set(token < tokens ? entry(layer, token) : Array(4).fill(behind), at);
      at += 4;
    }
  }
  seal(bytes);
  return { first, count, bytes };
}

/** What becomes of all pages from `first` on, that come in runs of so many. */
function resized(
  { from, to, tokens }: { readonly from: number; readonly to: number; readonly tokens: number },
  { first, run }: { readonly first: number; readonly run: number },
) {
  const sizes = new PageSizes({ given: layoutOf(from), pageSize: to, tokens, first });
  const end = Math.ceil(tokens / from);
  const made = [];
  for (let next = sizes.first; next < end; next += run) {
    const count = Math.min(run, end - next);
    const given = pagesOf({ pageSize: from, tokens }, { first: next, count, behind: GARBAGE });
    const pages = sizes.take(given);
    if (pages !== undefined) made.push(pages);
  }
  return { asked: sizes.first, made };
}

const PAIRS = [
  [4, 16],
  [16, 3],
  [1, 64],
  [64, 1],
  [3, 5],
  [256, 7],
  [6, 4],
] as const;

describe.each(PAIRS)("pages of %i tokens as pages of %i", (from, to) => {
  test.each([1, 2, 7])("in runs of %i, whatever is there already", (run) => {
    for (const tokens of [1, to - 1, to, to + 1, from, 3 * from, 131, 255, 256, 300]) {
      const end = Math.ceil(tokens / to);
      for (let first = 0; first < end; first = 2 * first + 1) {
        const { made } = resized({ from, to, tokens }, { first, run });
        let next = first;
        for (const pages of made) {
          const { count } = pages;
          const right = pagesOf({ pageSize: to, tokens }, { first: next, count, behind: 0 });
          expect(pages.first).toBe(next);
          expect(Buffer.compare(pages.bytes, right.bytes)).toBe(0);
          expect(openPacked(pages.bytes, layoutOf(to)).header.pageCount).toBe(count);
          next += count;
        }
        expect(next).toBe(end);
      }
    }
  });

  test("asks for the page that the first wanted token is on, and for none where all is there", () => {
    for (const tokens of [1, 40, 131, 300]) {
      const end = Math.ceil(tokens / to);
      for (let first = 0; first < end; first++) {
        const { asked } = resized({ from, to, tokens }, { first, run: 1 });
        expect(asked * from).toBeLessThanOrEqual(first * to);
        expect((asked + 1) * from).toBeGreaterThan(first * to);
      }
      const none = resized({ from, to, tokens }, { first: end, run: 1 });
      expect(none).toEqual({ asked: Math.ceil(tokens / from), made: [] });
    }
  });
});

describe("pages are refused", () => {
  const sizes = () => new PageSizes({ given: layoutOf(4), pageSize: 3, tokens: 40, first: 2 });
  const given = (first: number, count = 1) =>
    pagesOf({ pageSize: 4, tokens: 40 }, { first, count, behind: 0 });

  test("out of their order, or where they are not as many as is said", () => {
    const one = sizes();
    expect(one.first).toBe(1);
    expect(() => one.take(given(0))).toThrow("they are 1 from page 0 on, and page 1 is next");
    expect(() => one.take({ ...given(1, 2), count: 1 })).toThrow("order");
    expect(one.take(given(1))).toBeUndefined();
    expect(() => one.take(given(1))).toThrow("page 2 is next");
    expect(one.take(given(2))).toMatchObject({ first: 2, count: 2 });
  });

  test("with bytes that have changed, of another size or with other layers", () => {
    const changed = given(1);
    changed.bytes[changed.bytes.length - 1]! ^= 1;
    expect(() => sizes().take(changed)).toThrow("their bytes have changed");
    const larger = pagesOf({ pageSize: 8, tokens: 40 }, { first: 1, count: 1, behind: 0 });
    expect(() => sizes().take(larger)).toThrow("pageSize");
    const one = sizes();
    one.take(given(1));
    const others = { firstLayer: 0, layerCount: LAYERS, pageCount: 1 };
    const { bytes } = allocatePacked({ ...layoutOf(4), ...others });
    seal(bytes);
    expect(() => one.take({ first: 2, count: 1, bytes })).toThrow("layerCount");
  });
});
