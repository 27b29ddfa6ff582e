import { expect, test } from "vitest";
import type { MpiCommunicator } from "../../../src/node/mpi/mpi_communicator.ts";
import { linkOf } from "../../../src/node/ranks/serve_rank.ts";

const START = 600_000;
const DEADLINE = 30_000;

test("ranks wait for each other as long as at the start while models are loaded again, and only then", async () => {
  const communicator = { deadline: DEADLINE } as MpiCommunicator;
  const { whileLoading } = linkOf({ communicator, startTimeout: START }, DEADLINE);
  const loaded = await whileLoading!(async () => {
    const atFirst = communicator.deadline;
    await new Promise((resolve) => setTimeout(resolve, 1));
    return [atFirst, communicator.deadline];
  });
  expect(loaded).toEqual([START, START]);
  expect(communicator.deadline).toBe(DEADLINE);
  const failure = new RangeError("no memory for the weights");
  const failed = whileLoading!(() => Promise.reject(failure));
  expect(communicator.deadline).toBe(START);
  await expect(failed).rejects.toBe(failure);
  expect(communicator.deadline).toBe(DEADLINE);
});
