/** Ranks that are threads do what ranks on one thread do. */
import { afterAll, beforeAll } from "vitest";
import { groupCases } from "../../parallel/group_cases.ts";
import { Programs } from "../../support/mpi/processes.ts";
import { runOnThreads } from "../../support/threads/run_threads.ts";

let programs: Programs;
beforeAll(async () => {
  programs = await Programs.build();
});
afterAll(() => programs.remove());

groupCases("ranks that are threads", (program, size) => runOnThreads(programs, { program, size }));
