/**
 * Imported before anything that opens a device: gives lavapipe the threads that the server gives it
 * for the embedded model.
 *
 * @module
 */
import { driverThreadsFor } from "../../src/node/device/driver_threads.ts";
import { EMBEDDED_MODEL } from "../../test/support/checkpoints/embedded_model.ts";
import { folderSource } from "../../test/support/checkpoints/folder_source.ts";

const threads = await driverThreadsFor(folderSource(EMBEDDED_MODEL));
if (threads !== undefined) process.env.LP_NUM_THREADS ??= String(threads);
console.log(`lavapipe threads: ${process.env.LP_NUM_THREADS ?? "one a core"}`);
