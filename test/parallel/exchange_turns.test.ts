import { describe, expect, test } from "vitest";
import { SpoiledError } from "../../src/errors.ts";
import type { Communicator } from "../../src/parallel/communicator.ts";
import { ExchangeTurns } from "../../src/parallel/exchange_turns.ts";
import { localGroup } from "../../src/parallel/local.ts";

/** A rank that two share, which say in what order they met others. */
function shared(communicator: Communicator) {
  const met: string[] = [];
  const turns = new ExchangeTurns(2);
  const told: Communicator = {
    ...communicator,
    allGather: async (part, into, exchange) => {
      met.push(exchange.name);
      await communicator.allGather(part, into, exchange);
    },
  };
  return { turns, met, ends: [turns.end(0, told), turns.end(1, told)] as const };
}

const later = (ticks: number) =>
  Array.from({ length: ticks }).reduce<Promise<void>>((before) => before.then(), Promise.resolve());

/** So many exchanges of one of the two, with work in between. */
async function exchanges(
  end: Communicator,
  name: string,
  { count, ticks }: { readonly count: number; readonly ticks: number },
): Promise<number[]> {
  const got: number[] = [];
  for (let i = 0; i < count; i++) {
    await later(ticks);
    const into = new Uint8Array(end.size);
    const part = Uint8Array.of(10 * i + end.rank);
    const counts = Array<number>(end.size).fill(1);
    await end.allGather(part, into, { name: `${name}${i}`, counts });
    got.push(...into);
  }
  return got;
}

describe("ExchangeTurns", () => {
  test.each([
    [0, 0, 0, 0],
    [0, 9, 9, 0],
    [20, 0, 0, 3],
    [1, 7, 40, 2],
  ])(
    "has all ranks exchange in the same order, however long each works (%i, %i, %i, %i)",
    async (...ticks) => {
      const ranks = localGroup(2).map(shared);
      const got = await Promise.all(
        ranks.flatMap(({ turns, ends }, rank) => {
          turns.open();
          return ends.map(async (end, which) => {
            const work = { count: which === 0 ? 2 : 4, ticks: ticks[2 * rank + which]! };
            const bytes = await exchanges(end, "ab"[which]!, work);
            turns.leave(which);
            return bytes;
          });
        }),
      );
      for (const { met } of ranks) expect(met).toEqual(["a0", "b0", "a1", "b1", "b2", "b3"]);
      const [first, second] = [
        [0, 1, 10, 11],
        [0, 1, 10, 11, 20, 21, 30, 31],
      ];
      expect(got).toEqual([first, second, first, second]);
    },
  );

  test("leaves exchanges as they come while nothing works side by side", async () => {
    const ranks = localGroup(2).map(shared);
    await Promise.all(
      ranks.map(async ({ ends: [first, second] }) => {
        await exchanges(second, "b", { count: 2, ticks: 0 });
        await exchanges(first, "a", { count: 1, ticks: 0 });
      }),
    );
    for (const { met } of ranks) expect(met).toEqual(["b0", "b1", "a0"]);
  });

  test("ends both on every rank at the same exchange where one comes without its part", async () => {
    const ranks = localGroup(2).map(shared);
    const ended = await Promise.all(
      ranks.flatMap(({ turns, ends }, rank) => {
        turns.open();
        return ends.map(async (end, which) => {
          try {
            if (rank === 1 && which === 0) {
              await exchanges(end, "a", { count: 1, ticks: 5 });
              await end.spoil!("as its device is lost");
            }
            await exchanges(end, "ab"[which]!, { count: 9, ticks: 1 });
            turns.leave(which);
          } catch (error) {
            turns.leave(which, { error });
            return error;
          }
        });
      }),
    );
    for (const error of ended) expect(error).toBeInstanceOf(SpoiledError);
    expect(ranks.map(({ met }) => met)).toEqual([
      ["a0", "b0", "a1"],
      ["a0", "b0"],
    ]);
  });

  test("an error of one is that of the other's next exchange, which it does not begin", async () => {
    const { turns, ends, met } = shared(localGroup(1)[0]!);
    turns.open();
    const failed = exchanges(ends[1], "b", { count: 2, ticks: 0 });
    const error = new Error("no memory");
    turns.leave(0, { error });
    await expect(failed).rejects.toBe(error);
    await expect(exchanges(ends[1], "b", { count: 1, ticks: 0 })).rejects.toBe(error);
    expect(met).toEqual([]);
    turns.leave(1, { error });
    turns.open();
    await exchanges(ends[0], "a", { count: 1, ticks: 0 });
    expect(met).toEqual(["a0"]);
  });
});
