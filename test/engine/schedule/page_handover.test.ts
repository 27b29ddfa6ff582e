import { describe, expect, test } from "vitest";
import { KernelError } from "../../../src/errors.ts";
import { scheduler, sequence } from "../../support/engines/sequences.ts";

const nine = (count: number) => new Uint32Array(count).fill(9);

describe("a sequence whose pages are held", () => {
  test("keeps them when it ends, in no sequence's place, until it is removed", () => {
    const { scheduler: s, pool } = scheduler(10, 4, { maxRunningRequests: 1 });
    const first = sequence(9, 1);
    s.hold(first.sequence);
    s.add(first.sequence);
    s.add(sequence(20, 3).sequence);
    for (let i = 0; i < 2; i++) s.commit(s.schedule()!, nine(1));
    expect(first.chunks.at(-1)!.finish).toEqual({ type: "length", length: 1 });
    expect(s.isHeld(first.sequence)).toBe(true);
    expect(first.sequence).toMatchObject({
      computed: 9,
      pageTable: expect.objectContaining({ length: 3 }),
    });
    // The other one has the place, and 7 of the 10 pages.
    expect(s.runningCount).toBe(0);
    s.schedule();
    expect(s.runningCount).toBe(1);
    const { pageTable } = first.sequence;
    expect(
      s
        .all()
        .every(
          (one) =>
            one === first.sequence || !one.pageTable.some((page) => pageTable.includes(page)),
        ),
    ).toBe(true);
    expect(pool.freeCount).toBeLessThanOrEqual(5);
    s.remove(first.sequence);
    expect(s.isHeld(first.sequence)).toBe(false);
    expect(s.all()).not.toContain(first.sequence);
    for (const one of s.all()) s.remove(one);
    expect(pool.freeCount).toBe(10);
  });

  test("that leaves before it ends keeps nothing", () => {
    const { scheduler: s, pool } = scheduler(10, 4);
    const { sequence: one } = sequence(9, 5);
    s.hold(one);
    s.add(one);
    s.schedule();
    s.remove(one);
    expect([s.isHeld(one), pool.freeCount]).toEqual([false, 10]);
  });

  test("is waited for by one that finds no page, and may not be taken from", () => {
    const { scheduler: s } = scheduler(4, 4, { conservativeness: 0 });
    const held = sequence(9, 1);
    s.hold(held.sequence);
    s.add(held.sequence);
    for (let i = 0; i < 2; i++) s.commit(s.schedule()!, nine(1));
    const other = sequence(3, 8);
    s.add(other.sequence);
    for (let i = 0; i < 2; i++) s.commit(s.schedule()!, nine(1));
    expect(s.schedule()).toBeUndefined();
    expect(other.sequence).toMatchObject({ finish: null, retractions: 0 });
    s.remove(held.sequence);
    while (s.hasWork) s.commit(s.schedule()!, nine(1));
    expect(other.sequence.completionLength).toBe(8);
  });
});

describe("a sequence that begins elsewhere", () => {
  test("waits with its pages for what is to be written to them, then decodes without a forward", () => {
    const { scheduler: s, pool } = scheduler(10, 4, { shared: true });
    const { sequence: one, chunks } = sequence(9, 3);
    one.accept([40]);
    const reserved = s.reserve(one, 9)!;
    expect(reserved).toEqual({ cachedTokens: 0, pages: one.pageTable });
    expect(reserved.pages).toHaveLength(3);
    expect(s.hasWork).toBe(true);
    expect(s.schedule()).toBeUndefined();
    s.admit(one, 9);
    const { batch, sampled } = s.schedule()!;
    expect(batch.sequences).toMatchObject([{ phase: "decode", position: 9, queryLength: 1 }]);
    expect([...batch.sources]).toEqual([40]);
    expect(sampled).toEqual([one]);
    s.remove(one);
    // What has arrived is cached for others: two whole pages of the prompt.
    const again = sequence(9, 3);
    again.sequence.accept([40]);
    expect(s.reserve(again.sequence, 9)).toMatchObject({ cachedTokens: 8, pages: { length: 1 } });
    s.remove(again.sequence);
    expect(s.hasWork).toBe(false);
    expect(pool.freeCount).toBe(8);
    expect(chunks.at(-1)!.tokens).toEqual([40]);
  });

  test("gets nothing where there is no place or no room, and may ask again", () => {
    const { scheduler: s, pool } = scheduler(4, 4, { maxRunningRequests: 1 });
    const [one, other] = [sequence(9, 3).sequence, sequence(9, 3).sequence];
    const large = sequence(20, 3).sequence;
    expect(s.reserve(large, 20)).toBeUndefined();
    expect(s.reserve(one, 9)).toBeDefined();
    expect(s.reserve(other, 3)).toBeUndefined();
    expect([pool.freeCount, large.pageTable, other.pageTable]).toEqual([1, [], []]);
    s.remove(one);
    expect(s.reserve(other, 9)).toBeDefined();
  });

  test("whose pages never came leaves nothing in the cache", () => {
    const { scheduler: s, pool, pages } = scheduler(10, 4, { shared: true });
    const { sequence: one } = sequence(9, 3);
    s.reserve(one, 9);
    s.remove(one);
    expect([pool.freeCount, pages.cachedPages]).toEqual([10, 0]);
    expect(() => s.admit(one, 9)).toThrow(KernelError);
  });
});
