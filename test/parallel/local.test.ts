import { describe, expect, test } from "vitest";
import { GroupError } from "../../src/errors.ts";
import { agree } from "../../src/parallel/agree.ts";
import { type Communicator, ONE_RANK } from "../../src/parallel/communicator.ts";
import { localGroup } from "../../src/parallel/local.ts";
import { groupCases } from "./group_cases.ts";
import { PROGRAMS } from "./group_programs.ts";

groupCases("ranks of one process", (program, size) =>
  Promise.all(localGroup(size).map((communicator) => PROGRAMS[program](communicator))),
);

/** Rank r brings `counts[r]` bytes of value r + 1. */
async function gather(
  { rank, allGather }: Communicator,
  counts: readonly number[],
): Promise<number[]> {
  const part = new Uint8Array(counts[rank]!).fill(rank + 1);
  const into = new Uint8Array(counts.reduce((sum, count) => sum + count, 0)).fill(255);
  await allGather(part, into, { name: "rows", counts });
  return [...into];
}

describe("localGroup", () => {
  test("a rank waits for the slowest", async () => {
    const [first, second] = localGroup(2);
    let done = false;
    const waiting = gather(first!, [1, 1]).then((bytes) => {
      done = true;
      return bytes;
    });
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(done).toBe(false);
    await gather(second!, [1, 1]);
    expect(await waiting).toEqual([1, 2]);
  });

  test("refuses bytes, room and counts that do not go together", async () => {
    for (const [bytes, room, counts] of [
      [2, 2, [1, 1]],
      [1, 3, [1, 1]],
      [1, 2, [1, 1, 0]],
    ] as const) {
      const [first] = localGroup(2);
      const came = first!.allGather(new Uint8Array(bytes), new Uint8Array(room), {
        name: "rows",
        counts,
      });
      await expect(came).rejects.toThrow(GroupError);
      await expect(came).rejects.toThrow(`with ${bytes} bytes and room for ${room}`);
    }
  });

  test("ranks meet again where the group is renewed", async () => {
    const [first, second] = localGroup(2);
    const waiting = gather(first!, [1, 1]);
    second!.abort("its step failed");
    await expect(waiting).rejects.toThrow("its step failed");
    await expect(gather(first!, [1, 1])).rejects.toThrow("its step failed");
    first!.renew();
    expect(await Promise.all([first!, second!].map((rank) => gather(rank, [1, 1])))).toEqual([
      [1, 2],
      [1, 2],
    ]);
  });

  test("one rank meets itself", async () => {
    expect(await gather(ONE_RANK, [2])).toEqual([1, 1]);
    expect([ONE_RANK.rank, ONE_RANK.size]).toEqual([0, 1]);
    await agree(ONE_RANK, "what they load", { model: "a" });
  });
});
