import { expect, test } from "vitest";
import { othersTurn, turns } from "../../src/turns.ts";

test("long work that is done at the same time shares one slice of each turn of the event loop", async () => {
  let turn = 0;
  let isOver = false;
  const countTurns = () => {
    turn += 1;
    if (!isOver) setImmediate(countTurns);
  };
  setImmediate(countTurns);
  /** Turns in which each of the works had a slice. */
  const slices: number[][] = [];
  const work = async (own: number[]) => {
    for (let i = 0; i < 5; i++) {
      while (!turns.isDue);
      own.push(turn);
      await turns.take();
    }
  };
  await Promise.all(
    Array.from({ length: 8 }, (_, i) => {
      slices[i] = [];
      return work(slices[i]);
    }),
  );
  isOver = true;
  const all = slices.flat();
  // The first slice of each finds the one of its turn used up; later ones are one a turn.
  const later = slices.flatMap((own) => own.slice(1));
  expect(all).toHaveLength(40);
  expect(new Set(later).size).toBe(later.length);
  // One after another.
  for (const own of slices) expect(own.toSorted((a, b) => a - b)).toEqual(own);
});

test("what waits for its turn goes on in its order, and short work does not wait", async () => {
  const order: number[] = [];
  await Promise.all([1, 2, 3].map(async (i) => othersTurn().then(() => order.push(i))));
  expect(order).toEqual([1, 2, 3]);
  await othersTurn();
  let hasWaited = true;
  queueMicrotask(() => {
    hasWaited = false;
  });
  await turns.take();
  expect(hasWaited).toBe(false);
});
