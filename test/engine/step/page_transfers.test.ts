import { describe, expect, test } from "vitest";
import { PagePool } from "../../../src/cache/page_pool.ts";
import { RadixCache } from "../../../src/cache/radix_cache.ts";
import { RetractionMemory } from "../../../src/engine/schedule/retraction_memory.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import { SequencePages } from "../../../src/engine/schedule/sequence_pages.ts";
import { carryOut, type PageTransfers } from "../../../src/engine/step/page_transfers.ts";
import { CapacityError, DeviceError } from "../../../src/errors.ts";
import { sequence, slotCarrier, slotCopier } from "../../support/engines/sequences.ts";

const PAGE_SIZE = 2;

/** Pages whose slots hold 100 times their page's number, and more. */
function setUp() {
  const slots = new Map(Array.from({ length: 20 }, (_, i) => [i, 100 * Math.floor(i / 2) + i]));
  const carrier = slotCarrier(slots, PAGE_SIZE);
  const retractionMemory = new RetractionMemory(1000, carrier);
  const movers = { retractionMemory, copier: slotCopier(slots, PAGE_SIZE) };
  const page = (number: number) => [slots.get(2 * number), slots.get(2 * number + 1)];
  return { carrier, retractionMemory, movers, page };
}

/** A sequence whose pages host memory is to keep, as far as it has got by now. */
function retracted(memory: RetractionMemory, pages: readonly number[], errors: unknown[] = []) {
  const made = sequence(8, 4, {}, { onError: (error) => errors.push(error) }).sequence;
  memory.save(made, { start: 0, end: pages.length * PAGE_SIZE, pages });
  return made;
}

const copying = (memory: RetractionMemory, copies: PageTransfers["copies"] = []) => ({
  ...memory.take(),
  copies,
});

describe("carryOut()", () => {
  test("pages leave and are copied before anything overwrites them", async () => {
    const { retractionMemory, movers, page } = setUp();
    const [one, three, four] = [page(1), page(3), page(4)];
    const back = retracted(retractionMemory, [1, 2]);
    await carryOut(copying(retractionMemory), movers);
    // Page 3 leaves and is copied to; 4 is copied, and restored to.
    const leaving = retracted(retractionMemory, [3]);
    retractionMemory.restore(back, [4], 1);
    const copies = [
      { from: 4, to: 3 },
      { from: 3, to: 5 },
    ];
    const two = page(2);
    await carryOut(copying(retractionMemory, copies), movers);
    expect([page(3), page(5), page(4)]).toEqual([four, four, two]);
    retractionMemory.restore(leaving, [6], 0);
    await carryOut(copying(retractionMemory), movers);
    expect([page(6), page(1)]).toEqual([three, one]);
    expect(retractionMemory.usedBytes).toBe(0);
  });

  test("pages that cannot be read are computed again, and take no room on the host", async () => {
    const { carrier, retractionMemory, movers } = setUp();
    const errors: unknown[] = [];
    const gone = retracted(retractionMemory, [1], errors);
    const kept = retracted(retractionMemory, [2], errors);
    const { readPages } = carrier;
    carrier.readPages = (pages) =>
      pages[0] === 1 ? Promise.reject(new RangeError("no memory")) : readPages(pages);
    await carryOut(copying(retractionMemory), movers);
    expect([gone.saved, kept.saved?.bytes?.byteLength, errors]).toEqual([undefined, 8, []]);
    expect(retractionMemory.usedBytes).toBe(8);
  });

  test("a sequence that was to go on from pages that could not be read fails", async () => {
    const { carrier, retractionMemory, movers } = setUp();
    const errors: unknown[] = [];
    const made = retracted(retractionMemory, [1], errors);
    made.pageTable = [3];
    retractionMemory.restore(made, [3], 0);
    const problem = new RangeError("no memory");
    carrier.readPages = () => Promise.reject(problem);
    carrier.writePages = () => Promise.reject(new Error("nothing to write"));
    await carryOut(copying(retractionMemory), movers);
    expect(errors[0]).toBe(problem);
  });

  test("a sequence whose pages do not come back fails, and no other", async () => {
    const { carrier, retractionMemory, movers, page } = setUp();
    const errors: unknown[] = [];
    const [bad, good] = [[1], [2]].map((pages) => retracted(retractionMemory, pages, errors));
    await carryOut(copying(retractionMemory), movers);
    retractionMemory.restore(bad!, [3], 0);
    retractionMemory.restore(good!, [4], 0);
    const problem = new RangeError("checksum");
    const { writePages } = carrier;
    carrier.writePages = (bytes, pages, options) =>
      pages[0] === 3 ? Promise.reject(problem) : writePages(bytes, pages, options);
    await carryOut(copying(retractionMemory), movers);
    expect(errors).toEqual([problem]);
    expect([good!.saved, page(4)]).toEqual([undefined, page(2)]);
  });

  test("a lost device is every sequence's problem", async () => {
    const { carrier, retractionMemory, movers } = setUp();
    const lost = () => Promise.reject(new DeviceError("lost"));
    const made = retracted(retractionMemory, [1]);
    const { readPages } = carrier;
    carrier.readPages = lost;
    await expect(carryOut(copying(retractionMemory), movers)).rejects.toThrow("lost");
    retractionMemory.drop(made);
    carrier.readPages = readPages;
    const other = retracted(retractionMemory, [1]);
    await carryOut(copying(retractionMemory), movers);
    retractionMemory.restore(other, [2], 0);
    carrier.writePages = lost;
    await expect(carryOut(copying(retractionMemory), movers)).rejects.toThrow("lost");
  });
});

describe("SequencePages, when the pool fails", () => {
  const failing = (pages: SequencePages, take: (one: Sequence) => unknown) => {
    const { pool } = pages;
    const { allocate } = pool;
    pool.allocate = () => {
      throw new CapacityError("pages of the KV cache", 0, "none is free");
    };
    const one = sequence(5, 4).sequence;
    expect(() => take(one)).toThrow(CapacityError);
    pool.allocate = allocate;
    return one;
  };
  const setUpPages = () => {
    const radix = new RadixCache({ pageSize: PAGE_SIZE });
    const pages = new SequencePages(new PagePool(8, PAGE_SIZE), { radix });
    const source = sequence(5, 4).sequence;
    pages.attach(source);
    pages.grow(source, 5);
    source.computed = 5;
    pages.share(source);
    return { pages, source };
  };

  test.each<[string, (pages: SequencePages, one: Sequence) => unknown]>([
    ["attachShared()", (pages, one) => pages.attachShared(one, 5)],
    ["grow()", (pages, one) => pages.grow(one, 5)],
  ])("%s leaves nothing behind", (_, take) => {
    const { pages, source } = setUpPages();
    const one = failing(pages, (made) => take(pages, made));
    expect([one.pageTable, one.prefix, one.computed]).toEqual([[], undefined, 0]);
    pages.release(source);
    expect(pages.available).toBe(8);
  });

  test("attach() leaves nothing behind when there is no page for a copy", () => {
    const { pages, source } = setUpPages();
    source.accept([9]);
    source.accept([9]);
    pages.grow(source, 7);
    source.computed = 6;
    const { allocate } = pages.pool;
    pages.pool.allocate = () => {
      throw new CapacityError("pages of the KV cache", 0, "none is free");
    };
    const twin = sequence([...source.tokens.slice(0, 6), 3], 4).sequence;
    expect(() => pages.attach(twin)).toThrow(CapacityError);
    pages.pool.allocate = allocate;
    expect([twin.pageTable, twin.prefix, twin.computed]).toEqual([[], undefined, 0]);
    expect(pages.takeTransfers().copies).toEqual([]);
    pages.release(source);
    expect(pages.available).toBe(8);
  });
});
