import { afterAll, beforeAll, expect, test } from "vitest";
import { EngineError, KernelError } from "../../src/errors.ts";
import { openNullDevice } from "../support/devices/null_device.ts";
import { baseCheckpoints, type Files } from "../support/malformed/base_checkpoints.ts";
import { countAllocations } from "../support/malformed/counted_allocations.ts";
import { loadWithoutGpu } from "../support/malformed/load_without_gpu.ts";
import { malformedCheckpoint } from "../support/malformed/malformed_checkpoint.ts";

const CASES = process.env.WISP_TEST_FULL === "1" ? 20_000 : 500;

/** Bytes that may be asked for at once, beside a multiple of the files' own. */
const FIXED_BYTES = 2 ** 22;
const TIMES_FILES = 8;
/** How often a start reads a file, about. */
const TIMES_READ = 12;
const LONGEST_MESSAGE = 4200;

let device: GPUDevice;
let bases: readonly Files[];

beforeAll(async () => {
  device = await openNullDevice();
  bases = await baseCheckpoints();
});
afterAll(() => device.destroy());

function sizeOf(files: Files): number {
  return Object.values(files).reduce((sum, { length }) => sum + length, 0);
}

/** What is wrong with how a case was answered; undefined for nothing. */
function faultOf(error: unknown): string | undefined {
  if (error === undefined) return undefined;
  if (!(error instanceof EngineError) || error instanceof KernelError) {
    return error instanceof Error ? (error.stack ?? error.message) : `threw ${String(error)}`;
  }
  const { message } = error;
  if (!/^Cannot [a-z]\S* .*: \S/s.test(message)) return `says "${message}"`;
  if (/(?<!too deep \()Maximum call|string length/.test(message)) return `says "${message}"`;
  return message.length > LONGEST_MESSAGE ? `says ${message.length} characters` : undefined;
}

test("the checkpoints that are changed load as they are", async () => {
  for (const files of bases) {
    const { outcomes } = await loadWithoutGpu(files, device);
    expect(outcomes.map(({ error }) => error)).toEqual([undefined, undefined, undefined]);
  }
});

test(`${CASES} malformed checkpoints are refused by a typed error or loaded, in the memory of their files`, async () => {
  const faults: string[] = [];
  const counts = { refused: 0, loaded: 0 };
  for (let seed = 0; seed < CASES; seed++) {
    const { files, changed } = malformedCheckpoint(bases, seed);
    const { result, allocations } = await countAllocations(() =>
      loadWithoutGpu(files, device, changed),
    );
    const size = sizeOf(files);
    const told = `case ${seed} (${changed.join(", ")})`;
    for (const { step, error } of result.outcomes) {
      counts[error === undefined ? "loaded" : "refused"]++;
      const fault = faultOf(error);
      if (fault !== undefined) faults.push(`${told}, ${step}: ${fault}`);
    }
    if (result.beyond > 0) faults.push(`${told}: ${result.beyond} reads beyond their file`);
    if (result.bytesRead > TIMES_READ * size)
      faults.push(`${told}: reads ${result.bytesRead} bytes`);
    const most = FIXED_BYTES + TIMES_FILES * size;
    if (allocations.largest > most) faults.push(`${told}: asks for ${allocations.largest} bytes`);
  }
  expect(faults.slice(0, 20)).toEqual([]);
  // Changes that a checkpoint can do with are as many as those that it cannot, about.
  expect(Math.min(counts.refused, counts.loaded)).toBeGreaterThan(CASES / 2);
});
