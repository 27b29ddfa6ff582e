/** Ranks that are processes do what ranks of one process do. */
import { afterAll, beforeAll, describe } from "vitest";
import { groupCases } from "../../parallel/group_cases.ts";
import { lackOfMpi, Programs, runOverMpi, tellLack } from "../../support/mpi/processes.ts";

const lack = lackOfMpi();
tellLack(lack);

let programs: Programs;
beforeAll(async () => {
  if (lack === undefined) programs = await Programs.build();
});
afterAll(() => programs?.remove());

/** Memory moves and is freed as often as V8 can. */
const STRESSED = ["--expose-gc", "--stress-compaction"];

describe.skipIf(lack !== undefined)("ranks over MPI", () => {
  groupCases("of one node", (program, size) =>
    runOverMpi(programs, { program, size, flags: STRESSED }),
  );
});
