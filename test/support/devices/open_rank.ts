/**
 * A program that opens the GPU of a rank as rank processes do, and prints what the start tells of it.
 * Arguments: a checkpoint's folder, the option `--base-gpu-id`, ranks of this machine, this one's number.
 */
import { openFolder } from "../../../src/node/files.ts";
import { openDeviceFor } from "../../../src/node/serve/open_model.ts";
import { quietReport } from "../../../src/node/serve/start_report.ts";

const [folder, ...numbers] = process.argv.slice(2);
const [baseGpuId, ranks, rank] = numbers.map(Number);
const source = await openFolder(folder!);
const options = { adapter: "gpu", numericClass: "auto", baseGpuId: baseGpuId! } as const;
const report = quietReport({ write: () => {} });
const opened = await openDeviceFor(source, options, report, { ranks: ranks!, rank: rank! });
(await opened.openNext()).destroy();
opened.destroy();
console.log(JSON.stringify({ sentences: opened.sentences, places: opened.places }));
process.exit(0);
