/** A program that opens GPUs by the numbers of its arguments, and prints their names and what failed. */
import { listAdapters, openDevice } from "../../../src/node/device/device.ts";

const names = (await listAdapters({ adapter: "gpu" })).map(({ name }) => name);
const failures: string[] = [];
for (const number of process.argv.slice(2).map(Number)) {
  const opened = await openDevice({ adapter: "gpu", number }).catch((error: Error) => {
    failures.push(error.message);
  });
  opened?.device.destroy();
}
console.log(JSON.stringify({ names, failures, prime: process.env.DRI_PRIME ?? "none" }));
process.exit(0);
