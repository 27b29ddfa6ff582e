import { describe, expect, test } from "vitest";
import { GroupError } from "../../src/errors.ts";
import { agree, type Facts } from "../../src/parallel/agree.ts";
import { type Communicator, ONE_RANK } from "../../src/parallel/communicator.ts";
import { localGroup } from "../../src/parallel/local.ts";

/** Rank r brings `counts[r]` bytes of value 10 * round + r + 1. */
async function gather(
  { rank, allGather }: Communicator,
  counts: readonly number[],
  { name = "rows", round = 0 } = {},
): Promise<number[]> {
  const part = new Uint8Array(counts[rank]!).fill(10 * round + rank + 1);
  const into = new Uint8Array(counts.reduce((sum, count) => sum + count, 0)).fill(255);
  await allGather(part, into, { name, counts });
  return [...into];
}

const messages = (results: readonly PromiseSettledResult<unknown>[]) =>
  results.map((result) => {
    if (result.status === "fulfilled") return undefined;
    expect(result.reason).toBeInstanceOf(GroupError);
    return (result.reason as Error).message;
  });

describe("localGroup", () => {
  test("gives every rank the bytes of all, in the order of ranks", async () => {
    const group = localGroup(3);
    expect(group.map(({ rank, size }) => [rank, size])).toEqual([
      [0, 3],
      [1, 3],
      [2, 3],
    ]);
    // The last to come, and ranks with nothing to bring, change nothing.
    for (const [round, order] of [
      [0, 1, 2],
      [2, 1, 0],
      [1, 2, 0],
    ].entries()) {
      const results = await Promise.all(order.map((r) => gather(group[r]!, [2, 0, 3], { round })));
      const all = [1, 1, 3, 3, 3].map((value) => 10 * round + value);
      expect(results).toEqual([all, all, all]);
    }
  });

  test("goes on with exchanges of nothing", async () => {
    const group = localGroup(2);
    expect(await Promise.all(group.map((one) => gather(one, [0, 0])))).toEqual([[], []]);
    expect(await Promise.all(group.map((one) => gather(one, [1, 1])))).toEqual([
      [1, 2],
      [1, 2],
    ]);
  });

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

  test.each([
    ["another exchange", [2, 2], "logits", '"rows" of 2 + 2 bytes, rank 0 at "logits" of 2 + 2'],
    ["other sizes", [2, 1], "rows", '"rows" of 2 + 2 bytes, rank 0 at "rows" of 2 + 1 bytes'],
  ])("ranks that come for %s fail, all of them and for good", async (_, counts, name, message) => {
    const group = localGroup(3);
    const results = [gather(group[1]!, [2, 2, 0]), gather(group[0]!, [...counts, 0], { name })];
    const [waiting, late] = messages(await Promise.allSettled(results));
    expect(waiting).toContain("rank 1 is at");
    expect(waiting?.replaceAll(" + 0 bytes", " bytes")).toContain(message);
    expect(late).toBe(waiting);
    await expect(gather(group[2]!, [2, 2, 0])).rejects.toThrow("rank 1 is at");
  });

  test("a rank that leaves fails those that wait and those that come", async () => {
    const group = localGroup(3);
    const waiting = gather(group[0]!, [1, 1, 1]);
    group[1]!.abort("it is out of memory");
    group[2]!.abort("another reason");
    const later = [gather(group[2]!, [1, 1, 1]), gather(group[1]!, [1, 1, 1])];
    expect(messages(await Promise.allSettled([waiting, ...later]))).toEqual(
      Array(3).fill("Cannot go on without rank 1, which has left its group: it is out of memory"),
    );
  });

  test("a rank that comes twice, or with other bytes than it says, ends the group", async () => {
    const twice = localGroup(2);
    const results = [gather(twice[0]!, [1, 1]), gather(twice[0]!, [1, 1])];
    const expected =
      'Cannot gather from all ranks: rank 0 came to "rows" before its last exchange ended';
    expect(messages(await Promise.allSettled(results))).toEqual([expected, expected]);

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
      await expect(came).rejects.toThrow(`with ${bytes} bytes and room for ${room}`);
    }
  });

  test("one rank meets itself", async () => {
    expect(await gather(localGroup(1)[0]!, [2])).toEqual([1, 1]);
    expect(await gather(ONE_RANK, [2])).toEqual([1, 1]);
    expect([ONE_RANK.rank, ONE_RANK.size]).toEqual([0, 1]);
  });
});

describe("agree", () => {
  const facts = { model: "a", pageSize: 16, quantized: true };
  const outcomes = async (all: readonly Facts[]) => {
    const group = localGroup(all.length);
    const agreeing = all.map((own, rank) => agree(group[rank]!, "what they load", own));
    return messages(await Promise.allSettled(agreeing));
  };

  test("ranks that say the same go on", async () => {
    expect(await outcomes([facts, facts, facts])).toEqual([undefined, undefined, undefined]);
    await agree(ONE_RANK, "what they load", facts);
  });

  test("all of them hear what two of them have differently", async () => {
    const said = "pageSize is 16 on rank 0, 8 on rank 2";
    expect(await outcomes([facts, facts, { ...facts, pageSize: 8, model: "a" }])).toEqual(
      Array(3).fill(`Cannot go on with ranks that disagree about what they load: ${said}`),
    );
    const [more] = await outcomes([{ model: "a" }, { model: "a", rows: 3 }]);
    expect(more).toContain("rows is undefined on rank 0, 3 on rank 1");
  });
});
