/**
 * The program of a rank that is a thread.
 *
 * @module
 */
import { parentPort, workerData } from "node:worker_threads";
import { serveRankOf } from "../ranks/serve_rank.ts";
import { joinThreads } from "./join_threads.ts";

const group = joinThreads(workerData, parentPort!);
// Else the thread would end while something of Dawn's is pending, and its process with it.
for (const event of ["uncaughtException", "unhandledRejection"] as const) {
  process.on(event, (error) => void group.fail(error));
}
// A rank that loads would hear of the end of its group at its next exchange only, and is not killed.
group.communicator.failed.catch((error) => group.fail(error));
await serveRankOf(group, { where: "on threads of this process, one each", inTurn: group.inTurn });
