/**
 * What every kind of group has to do.
 *
 * @module
 */
import { describe, expect, test } from "vitest";
import { PARTS, type ProgramName, partBytes } from "./group_programs.ts";

/** Runs a program on all ranks of a new group, and gives what it gave, in the order of ranks. */
export type RunGroup = (program: ProgramName, size: number) => Promise<readonly unknown[]>;

/** Of ranks that meet over two different exchanges: one of these is what all of them hear. */
function differences(forms: readonly string[]): string[] {
  return forms.flatMap((form, rank) =>
    forms.flatMap((other, otherRank) =>
      form === other
        ? []
        : [
            `Cannot gather from all ranks: rank ${rank} is at ${form}, rank ${otherRank} at ${other}`,
          ],
    ),
  );
}

export function groupCases(name: string, runGroup: RunGroup): void {
  const all = <T>(size: number, value: T) => Array<T>(size).fill(value);
  /** Each rank hears one of the messages, and the same at the next call. */
  const expectAll = (outcomes: readonly unknown[], messages: readonly string[]) => {
    for (const [first, second] of outcomes as [string, string][]) {
      expect(messages).toContain(first);
      expect(second).toBe(first);
    }
  };

  describe(name, () => {
    test.each([1, 2, 4])("%i ranks have the bytes of all, of every size", async (size) => {
      const counts = Array.from({ length: size }, (_, r) => (r === 1 ? 0 : r + 2));
      const rounds = [0, 1, 2].map((round) =>
        counts.flatMap((count, r) => all(count, 10 * round + r + 1)),
      );
      const something = Array.from({ length: size }, (_, rank) => rank + 1);
      const same = { rounds, nothing: [], something, ragged: 80, toAll: 120, agree: "done" };
      expect(await runGroup("gathers", size)).toEqual(
        Array.from({ length: size }, (_, rank) => ({ place: [rank, size], ...same })),
      );
    });

    test.each([2, 4])("of %i ranks, those of a group have the bytes of the group", async (size) => {
      const spoiled = `Cannot go on with this step: rank ${size - 1} has no part of it, it is lost`;
      const own = size / 2;
      expect(await runGroup("attention groups", size)).toEqual(
        Array.from({ length: size }, (_, rank) => ({
          place: [Math.floor(rank / own), rank % own, own],
          ...{ ragged: 60, toAll: 60, spoiled },
          behind: Array.from({ length: own }, (_, i) =>
            all(Math.floor(rank / own) + 1, i + 1),
          ).flat(),
        })),
      );
    });

    test("the first rank has the parts of all, each once, and each rank its own from it", async () => {
      const wanted = [0, 1, 2, 3].map((rank) =>
        PARTS.flatMap((ofRanks) => {
          const parts = [...new Set(ofRanks)].filter((part) => part !== undefined);
          const all = rank === 0 ? parts.flatMap((part) => [...partBytes(part)]) : [];
          const own = ofRanks[rank];
          return [all, own === undefined ? [] : [...partBytes(own)]];
        }),
      );
      expect(await runGroup("parts", 4)).toEqual(wanted);
    });

    test("ranks that come for something else fail, all of them and for good", async () => {
      const rows = '"rows" of 2 + 2 + 2 bytes';
      expectAll(
        await runGroup("other name", 3),
        differences(['"logits" of 2 + 2 + 2 bytes', rows, rows]),
      );
      expectAll(
        await runGroup("other sizes", 3),
        differences(['"rows" of 2 + 1 + 2 bytes', rows, rows]),
      );
      const few = '"rows" of 2 + 100 + 2 bytes';
      expectAll(
        await runGroup("other large sizes", 3),
        differences([few, '"rows" of 2 + 300000 + 2 bytes', few]),
      );
    });

    test("ranks that have other bytes for one than that is to have fail, all of them", async () => {
      const message =
        'Cannot gather from all ranks: rank 1 has other bytes for rank 2 at "rows" than that is to have';
      for (const program of ["other bytes for one", "many other bytes for one"] as const) {
        for (const [rank, outcome] of ((await runGroup(program, 3)) as string[][]).entries()) {
          // A rank that is not concerned may hear it at its next exchange.
          if (rank === 2) expect(outcome[0]).toBe(message);
          expect(["done", message]).toContain(outcome[0]);
          expect(outcome[1]).toBe(message);
        }
      }
      const each = '"rows" of bytes for each';
      expectAll(
        await runGroup("other kind", 3),
        differences(['"rows" of 1 + 1 + 1 bytes', each, each]),
      );
    });

    test("a rank that comes without its part leaves all without, of exchanges for each too", async () => {
      const told = "Cannot go on with this step: rank 1 has no part of it, it is lost";
      expect(await runGroup("spoils those for each", 3)).toEqual(all(3, [told, told, 9]));
    });

    test("a rank that comes without its part leaves all without, and they go on", async () => {
      const size = 3;
      const told = (rank: number) =>
        `Cannot go on with this step: rank ${rank} has no part of it, as its device is lost`;
      for (const outcome of await runGroup("spoils", size)) {
        const [few, , many, , both] = outcome as string[];
        expect([few, many]).toEqual([told(1), told(1)]);
        expect([told(1), told(2)]).toContain(both);
        const bytes = (count: number) => 50 + 2 * count;
        expect(outcome).toEqual([few, bytes(100), many, bytes(300_000), both, bytes(100)]);
      }
    });

    test("ranks that often come without their parts take no bytes of an exchange for another's", async () => {
      expect(await runGroup("spoils often", 3)).toEqual([[], [], []]);
    });

    test.each(["leaves late", "leaves early"] as const)(
      "a rank that %s fails those that wait and those that come",
      async (program) => {
        const message =
          "Cannot go on without rank 1, which has left its group: it is out of memory";
        expectAll(await runGroup(program, 3), [message]);
      },
    );

    test("a rank that comes twice, or with other bytes than it says, ends the group", async () => {
      expectAll(await runGroup("comes twice", 2), [
        'Cannot gather from all ranks: rank 0 came to "rows" before its last exchange ended',
      ]);
      expectAll(await runGroup("other bytes than it says", 2), [
        'Cannot gather from all ranks: rank 0 came to "rows" of 1 + 1 bytes with 2 bytes and room for 2',
      ]);
    });

    test("all ranks hear what two of them have differently", async () => {
      const disagreement = "Cannot go on with ranks that disagree about what they load";
      expect(await runGroup("disagree", 3)).toEqual(
        all(3, `${disagreement}: pageSize is 16 on rank 0, 8 on rank 2`),
      );
      expect(await runGroup("more to say", 2)).toEqual(
        all(2, `${disagreement}: rows is undefined on rank 0, 3 on rank 1`),
      );
    });
  });
}
