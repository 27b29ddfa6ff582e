import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { PrefixTree, unitsOf } from "../../../src/parallel/balance/prefix_tree.ts";

/** UTF-16 units that a mark counts for beside its text. */
const MARK = 128;
const any = () => true;

function matched(
  tree: PrefixTree<string>,
  text: string,
  isUsable: (owner: string) => boolean = any,
) {
  const { length, owners } = tree.match(unitsOf(text), isUsable);
  return { length, owners: [...owners].sort() };
}

const commonLength = (a: string, b: string): number => {
  let length = 0;
  while (length < Math.min(a.length, b.length) && a[length] === b[length]) length++;
  return length;
};

describe("a prefix tree", () => {
  test("knows for any texts the longest beginning that a usable owner was sent, and who was", () => {
    const owner = fc.constantFrom("x", "y", "z");
    const text = fc.string({ unit: fc.constantFrom("a", "b", "\ud800"), maxLength: 12 });
    fc.assert(
      fc.property(
        fc.array(fc.tuple(text, owner), { maxLength: 30 }),
        text,
        fc.subarray(["x", "y", "z"]),
        (sent, asked, usable) => {
          const tree = new PrefixTree<string>(2 ** 20);
          for (const [one, to] of sent) tree.insert(unitsOf(one), to);
          const common = sent
            .filter(([, to]) => usable.includes(to))
            .map(([one, to]) => [commonLength(one, asked), to] as const);
          const length = common.reduce((most, [one]) => Math.max(most, one), 0);
          const owners = common.filter(([one]) => length > 0 && one === length).map(([, to]) => to);
          expect(matched(tree, asked, (to) => usable.includes(to))).toEqual({
            length,
            owners: [...new Set(owners)].sort(),
          });
        },
      ),
      { numRuns: 500 },
    );
  });

  test("never keeps more of an owner's texts than it may, and forgets what was used longest ago", () => {
    const tree = new PrefixTree<string>(4 * (MARK + 10));
    for (const begin of ["a", "b", "c", "d"]) tree.insert(unitsOf(begin.repeat(10)), "x");
    tree.insert(unitsOf("a".repeat(10)), "x");
    tree.insert(unitsOf("e".repeat(10)), "x");
    expect(tree.size("x")).toBe(4 * (MARK + 10));
    expect(matched(tree, "a".repeat(10)).length).toBe(10);
    expect(matched(tree, "b".repeat(10)).length).toBe(0);
    // Others have memory of their own.
    tree.insert(unitsOf("b".repeat(10)), "y");
    expect(matched(tree, "c".repeat(10)).owners).toEqual(["x"]);
  });

  test("counts what it keeps, whatever is sent, and is empty once its owners are forgotten", async () => {
    const most = 2000;
    const text = fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(text, fc.constantFrom("x", "y")), { maxLength: 60 }),
        async (sent) => {
          const tree = new PrefixTree<string>(most);
          for (const [one, to] of sent) {
            tree.insert(unitsOf(one), to);
            // Parts of a beginning may become two for others too.
            for (const each of ["x", "y"]) expect(tree.size(each)).toBeLessThanOrEqual(most);
            // The newest text is kept whole.
            expect(matched(tree, one).length).toBe(one.length);
          }
          await tree.forget("x");
          await tree.forget("y");
          expect(tree.size("x") + tree.size("y")).toBe(0);
          for (const [one] of sent) expect(matched(tree, one)).toEqual({ length: 0, owners: [] });
        },
      ),
      { numRuns: 200 },
    );
  });

  test("knows what came while an owner was being forgotten, twice", async () => {
    const tree = new PrefixTree<string>(2 ** 26);
    // So many that forgetting takes more than one slice of time.
    for (let text = 0; text < 150_000; text++)
      tree.insert(unitsOf(`p${(text * 7919) % 150_001}`), "r");
    const [first, second] = [tree.forget("r"), tree.forget("r")];
    await Promise.race([first, second]);
    tree.insert(unitsOf("fresh"), "r");
    const size = tree.size("r");
    await Promise.all([first, second]);
    expect(size).toBeGreaterThan(0);
    expect([tree.size("r"), tree.match(unitsOf("fresh"), () => true).length]).toEqual([size, 5]);
  });

  test("takes a text that is larger than its memory, and one that ends within each other", () => {
    const tree = new PrefixTree<string>(1000);
    tree.insert(unitsOf("long".repeat(1000)), "x");
    expect(tree.size("x")).toBeLessThanOrEqual(1000);
    const deep = new PrefixTree<string>(2 ** 26);
    for (let length = 1; length <= 3000; length++) deep.insert(unitsOf("a".repeat(length)), "x");
    // 1024 nodes of a path are looked at.
    expect(matched(deep, "a".repeat(3000)).length).toBe(1024);
  });
});
