/**
 * A rank that is a thread, in tests: the first argument names what it does.
 *
 * @module
 */
import { parentPort, workerData } from "node:worker_threads";
import { deferred } from "../../../src/node/mpi/nodes.ts";
import type { LauncherMessage } from "../../../src/node/mpi/rank_messages.ts";
import { joinThreads } from "../../../src/node/threads/join_threads.ts";
import { PROGRAMS, type ProgramName } from "../../parallel/group_programs.ts";
import { answersOf, type EngineAnswers, type EngineTask } from "../mpi/engine_answers.ts";

const [program = ""] = process.argv.slice(2);
const group = joinThreads(workerData, parentPort!);
const { communicator, launcher } = group;
const task = deferred<EngineTask>();
launcher.onMessage = (message) => task.resolve(message as EngineTask);

/** The group has been ended. */
function untilLost(): Promise<void> {
  return new Promise((resolve) => {
    parentPort!.on("message", ({ type }: LauncherMessage) => {
      if (type === "lost") resolve();
    });
  });
}

/** What this rank does; undefined where another one tells what has come of it. */
async function work(): Promise<unknown> {
  if (Object.hasOwn(PROGRAMS, program)) return PROGRAMS[program as ProgramName](communicator);
  if (program === "engine of one thread") return ofOneThread(await task.promise);
  const { runEngineRank } = await import("../mpi/engine_rank.ts");
  return runEngineRank(communicator, await task.promise, group.inTurn);
}

/** All ranks are on this one thread. */
async function ofOneThread({ model, options, ...asked }: EngineTask): Promise<EngineAnswers> {
  const { Engine } = await import("../../../src/engine/engine.ts");
  const { deviceFactory } = await import("../../../src/node/device/device.ts");
  const { folderSource } = await import("../checkpoints/folder_source.ts");
  const given = { triesInvariance: false, ...options, device: deviceFactory() };
  return answersOf(await Engine.load(folderSource(model), given), asked);
}

try {
  launcher.say(await work());
  // The others must have time to say theirs: the test ends the group.
  if (communicator.failure !== undefined) await untilLost();
  await group.finish();
} catch (error) {
  await group.fail(error);
}
