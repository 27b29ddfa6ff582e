/**
 * Ranks that are threads of this process, for tests and benches.
 *
 * @module
 */
import { pathToFileURL } from "node:url";
import { launchThreads } from "../../../src/node/threads/launch_threads.ts";
import type { EngineAnswers, EngineTask } from "../mpi/engine_answers.ts";
import type { Programs } from "../mpi/processes.ts";

interface ThreadRun {
  readonly size: number;
  /** What ranks do, of `thread_program.ts`. */
  readonly program: string;
  readonly task?: EngineTask;
}

/** What a program gave on each rank. */
export async function runOnThreads(
  programs: Programs,
  { size, program, task }: ThreadRun,
): Promise<readonly unknown[]> {
  const outcomes = new Map<number, unknown>();
  const ending = new AbortController();
  const group = launchThreads({
    program: pathToFileURL(programs.thread),
    argv: [program],
    size,
    timeout: 60_000,
    signal: ending.signal,
    onStart: (say) => {
      for (let rank = 0; rank < size; rank++) say(task, rank);
    },
    onMessage: (message, rank) => {
      outcomes.set(rank, message);
      // Ranks that have failed wait for it.
      if (outcomes.size === size) ending.abort();
    },
  });
  const failure = await group.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (outcomes.size < size) throw failure;
  return Array.from({ length: size }, (_, rank) => outcomes.get(rank));
}

/** What an engine on the first of so many threads has answered. */
export async function engineOnThreads(
  programs: Programs,
  { size, task }: Required<Pick<ThreadRun, "size" | "task">>,
): Promise<EngineAnswers> {
  const [first] = await runOnThreads(programs, { size, program: "engine", task });
  return first as EngineAnswers;
}

/** The same of one whose ranks, as many as its options say, are on one thread. */
export async function engineOnOneThread(
  programs: Programs,
  task: EngineTask,
): Promise<EngineAnswers> {
  const run = { size: 1, program: "engine of one thread", task };
  return (await runOnThreads(programs, run))[0] as EngineAnswers;
}
