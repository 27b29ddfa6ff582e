/**
 * What a simulated engine needs to store prefixes: a codec that takes its time, and an eye on who
 * has borrowed pages.
 *
 * @module
 */
import type { PageCarrier } from "../../../src/engine/schedule/retraction_memory.ts";
import type { PageHolder, SequencePages } from "../../../src/engine/schedule/sequence_pages.ts";

/** Lets the rest of the engine do something. */
export function othersTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Those who have borrowed pages and not given them back. */
export function watchBorrowers(pages: SequencePages): ReadonlySet<PageHolder> {
  const borrowers = new Set<PageHolder>();
  const { borrow, giveBack } = pages;
  pages.borrow = (...args) => {
    const borrower = borrow.apply(pages, args);
    borrowers.add(borrower);
    return borrower;
  };
  pages.giveBack = (borrower) => {
    giveBack.call(pages, borrower);
    borrowers.delete(borrower);
  };
  return borrowers;
}

/** Turns of others before pages move, one after another. */
const TURNS = [0, 2, 1, 0, 3, 1];

/** Moves pages at once or some time after it is asked to, unless the device is lost before. */
export function slowCodec(
  { readPages, writePages }: PageCarrier,
  { lossCount, loss }: { readonly lossCount: () => number; readonly loss: Error },
): Pick<PageCarrier, "readPages" | "writePages"> {
  let calls = 0;
  const whileThere = async <T>(work: () => Promise<T>): Promise<T> => {
    const losses = lossCount();
    calls += 1;
    for (let i = 0; i < TURNS[calls % TURNS.length]!; i++) await othersTurn();
    if (lossCount() > losses) throw loss;
    return work();
  };
  return {
    readPages: (pages) => whileThere(() => readPages(pages)),
    writePages: (bytes, pages, options) => {
      return whileThere(() => writePages(bytes.slice(), pages, options));
    },
  };
}

/** Others run while pages are on their way as well. */
export function waitingCarrier(
  { packedBytes, readPages, writePages }: PageCarrier,
  wait: () => Promise<void>,
): PageCarrier {
  return {
    packedBytes,
    readPages: async (pages) => {
      const bytes = await readPages(pages);
      await wait();
      return bytes;
    },
    writePages: async (bytes, pages, options) => {
      await wait();
      await writePages(bytes, pages, options);
    },
  };
}
