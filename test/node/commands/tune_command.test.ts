import { expect, test } from "vitest";
import { PLAIN_TUNING } from "../../../src/gpu/tuning.ts";
import { runCommand } from "../../../src/node/command.ts";
import {
  formatFusions,
  formatOrder,
  formatUpload,
  formatWinners,
} from "../../../src/node/commands/tune_command.ts";

async function wisp(...args: readonly string[]) {
  const stdout: string[] = [];
  const stderr: string[] = [];
  const code = await runCommand(args, {
    startEngine: () => Promise.reject(new Error("no engine is started")),
    stdout: { write: (text: string) => stdout.push(text) > 0 },
    stderr: { write: (text: string) => stderr.push(text) > 0 },
  });
  return { code, stdout: stdout.join(""), stderr: stderr.join("") };
}

test("--help tells what it measures and where it keeps it", async () => {
  const { code, stdout } = await wisp("tune", "--help");
  expect(code).toBe(0);
  for (const flag of ["--model-path", "--shapes", "--dtypes", "--output", "--adapter"]) {
    expect(stdout).toContain(flag);
  }
});

test.each([
  [["--shapes", "64"], "Cannot use option --shapes 64: write outputs x inputs"],
  [["--shapes", "64x0"], "Cannot use option --shapes 64x0"],
  [["--dtypes", "fp9"], "Cannot use option --dtypes fp9: it is none of bf16, f16"],
  [["--quantization", "int8"], "Cannot use option --quantization: it says something of --model"],
  [["--model", "m", "--shapes", "8x8"], "Cannot use option --shapes together with --model"],
  [["--model", "m", "--dtypes", "fp8"], "Cannot use option --dtypes together with --model"],
  [["a model"], 'Cannot use argument "a model"'],
])("%j ends with 2 and one sentence, before an adapter is opened", async (args, message) => {
  const { code, stderr } = await wisp("tune", ...args);
  expect(stderr).toContain(message);
  expect(code).toBe(2);
});

test("the table has a line for each form, with weights that are read in a second", () => {
  const form = { dtype: "fp8", lanes: 8, split: 1, workgroup: 8, weights: 4e6 } as const;
  const text = formatWinners([
    { ...form, tokens: 1, seconds: 1e-3 },
    { ...form, tokens: 4, seconds: 2e-3 },
    { ...form, tokens: 16, workgroup: 64, staged: true, seconds: 4e-3 },
  ]);
  const lines = text.trimEnd().split("\n");
  expect(lines).toHaveLength(4);
  expect(lines[1]!.trim().split(/\s+/)).toEqual(["fp8", "1", "8", "1", "8", "no", "1000", "4.00"]);
  expect(lines[2]!.trim().split(/\s+/)).toEqual(["fp8", "4", "8", "1", "8", "no", "2000", "8.00"]);
  expect(lines[3]!.trim().split(/\s+/)).toEqual([
    "fp8",
    "16",
    "8",
    "1",
    "64",
    "yes",
    "4000",
    "16.00",
  ]);
});

test("rates of both ways to put weights in order", () => {
  expect(formatUpload({ bytes: 3e9, host: 2, gpu: 0.5 })).toBe(
    "Weights: put in order by the host 1.50 GB/s, by the GPU 6.00 GB/s\n",
  );
});

test("where the words of weights lie", () => {
  expect(formatOrder(PLAIN_TUNING)).toBe(
    "Weights: 1 row of a lane side by side, the scales of a group of columns together\n",
  );
  expect(formatOrder({ ...PLAIN_TUNING, rowsPerLane: 4, scaleOrder: "byRun" })).toBe(
    "Weights: 4 rows of a lane side by side, the scales of a run of rows together\n",
  );
});

test("launches that are one", () => {
  expect(formatFusions({ ...PLAIN_TUNING, foldsNorms: true })).toBe(
    "Projection and the norm behind it: one launch; output head and best token: two launches\n",
  );
});
