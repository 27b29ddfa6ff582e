import { expect, test } from "vitest";
import { GroupError } from "../../../src/errors.ts";
import { mpiCommunicator } from "../../../src/node/mpi/mpi_communicator.ts";
import { groupMemory, MAX_EXCHANGE_BYTES } from "../../../src/node/threads/group_memory.ts";
import { ThreadLibrary } from "../../../src/node/threads/thread_library.ts";

const communicatorOf = (memory = groupMemory(1), deadline = 1000) =>
  mpiCommunicator(new ThreadLibrary(memory, 0), { rank: 0, size: memory.size }, deadline);

test("a rank that brings more than there is room for ends the group", async () => {
  const bytes = MAX_EXCHANGE_BYTES + 1;
  const [part, into] = [new Uint8Array(bytes), new Uint8Array(bytes)];
  const coming = communicatorOf().allGather(part, into, { name: "rows", counts: [bytes] });
  await expect(coming).rejects.toThrow(GroupError);
  await expect(coming).rejects.toThrow(`rank 0 has no memory for "rows" of ${bytes} bytes`);
});

test("a rank that does not come is named at the deadline", async () => {
  const counts = [1, 1];
  const exchange = { name: "rows", counts };
  const coming = communicatorOf(groupMemory(2), 20).allGather(
    new Uint8Array(1),
    new Uint8Array(2),
    exchange,
  );
  await expect(coming).rejects.toThrow('"rows" of 1 + 1 bytes has waited 0.02 s for rank 1');
});

test("texts longer than there is room for are compared by what is there", async () => {
  const name = "rows ".repeat(1000);
  const memory = groupMemory(2);
  const ranks = [0, 1].map((rank) =>
    mpiCommunicator(new ThreadLibrary(memory, rank), { rank, size: 2 }, 10_000),
  );
  const gather = (names: readonly string[]) =>
    Promise.all(
      ranks.map((rank, i) => {
        const into = new Uint8Array(2);
        const part = Uint8Array.of(i + 1);
        return rank
          .allGather(part, into, { name: names[i]!, counts: [1, 1] })
          .then(() => [...into]);
      }),
    );
  expect(await gather([name, name])).toEqual([
    [1, 2],
    [1, 2],
  ]);
  await expect(gather([name, `${name}.`])).rejects.toThrow("rank 0 is at");
});
