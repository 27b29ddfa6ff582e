/**
 * A launcher, as a process that tests can kill: the JSON of its only argument says of what.
 *
 * @module
 */

import { LaunchError } from "../../../src/node/mpi/launch_error.ts";
import { type GroupOptions, launchGroup } from "../../../src/node/mpi/launch_group.ts";

/** What of `GroupOptions` JSON can hold. */
export type LauncherOptions = Pick<
  GroupOptions,
  "nodes" | "node" | "ranksPerNode" | "address" | "timeout" | "facts" | "command" | "beat"
>;

const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());
try {
  const options = JSON.parse(process.argv[2]!) as LauncherOptions;
  await launchGroup({
    ...options,
    signal: stop.signal,
    onStart: () => process.stdout.write("started\n"),
  });
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = error instanceof LaunchError ? error.exitCode : 1;
}
