import { expect, test } from "vitest";
import { RadixCache } from "../../../src/cache/radix_cache.ts";
import { drawCacheTree } from "../../../src/engine/prefix/cache_tree.ts";
import { InvalidRequestError } from "../../../src/errors.ts";

const text = {
  vocabularySize: 100,
  decode: (tokens: readonly number[]) => tokens.map((token) => `<${token}>`).join(""),
};
const range = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i);

/** Two prompts that share 4 tokens, of which the second is held, and one with a salt. */
function filled(): RadixCache {
  const radix = new RadixCache({ pageSize: 2 });
  radix.insert(range(10, 8), range(0, 4));
  radix.lock(radix.insert([...range(10, 4), 50, 51], [0, 1, 9]).node);
  radix.insert([2 ** 52, 60], [20], { partition: "salt" });
  return radix;
}

test("drawCacheTree() draws each node behind its parent, those in use first", () => {
  const { pageSize, nodes, isComplete } = drawCacheTree(filled(), text);
  expect([pageSize, isComplete]).toEqual([2, true]);
  const shared = { partition: 0, tokens: 4, pages: 2, label: "<10><11><12><13>" };
  expect(nodes).toEqual([
    { ...shared, parent: -1, holders: 1 },
    { ...shared, parent: 0, tokens: 2, pages: 1, holders: 1, label: "<50><51>" },
    // Contents have ids beyond the vocabulary, and no text.
    { parent: -1, partition: 1, tokens: 2, pages: 1, holders: 0, label: "<60>" },
    { ...shared, parent: 0, holders: 0, label: "<14><15><16><17>" },
  ]);
});

test("drawCacheTree() leaves out what goes first when there is too much", () => {
  const all = drawCacheTree(filled(), text).nodes;
  for (const maxNodes of [0, 1, 3, 4]) {
    const { nodes, isComplete } = drawCacheTree(filled(), { ...text, maxNodes });
    expect(nodes).toEqual(all.slice(0, maxNodes));
    expect(isComplete).toBe(maxNodes >= all.length);
  }
  expect(drawCacheTree(undefined, text)).toEqual({ pageSize: 1, nodes: [], isComplete: true });
  for (const maxNodes of [-1, 1.5, Number.NaN]) {
    expect(() => drawCacheTree(filled(), { ...text, maxNodes })).toThrow(InvalidRequestError);
  }
});

test("drawCacheTree() is no use: it changes neither the pages nor what goes next", () => {
  const drawn = filled();
  drawCacheTree(drawn, text);
  expect(drawn.flush()).toEqual(filled().flush());
});

test("drawCacheTree() shortens a label to its first tokens and characters", () => {
  const radix = new RadixCache({ pageSize: 1 });
  radix.insert(range(10, 40), range(0, 40));
  const [node] = drawCacheTree(radix, text).nodes;
  expect(node!.label).toBe(text.decode(range(10, 12)));
  const [short] = drawCacheTree(radix, { vocabularySize: 100, decode: (ids) => `${ids}` }).nodes;
  expect(short!.label).toBe(`${range(10, 16)}`);
});
