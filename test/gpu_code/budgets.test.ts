/** The machine code of kernels on GPUs that are not there, held to budgets. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import {
  type CaptureOptions,
  captureCode,
  type PlantedText,
  runBench,
  whatLacks,
} from "../../bench/gpu_code/capture.ts";
import { absentGpu } from "../../bench/gpu_code/gpus.ts";
import { type PipelineCode, readPipelines } from "../../bench/gpu_code/pipeline_code.ts";
import { type Tuning, tuningFor } from "../../src/gpu/tuning.ts";
import {
  AMD_BUDGET,
  AMD_EXCEPTIONS,
  type Budget,
  type Exception,
  INTEL_BUDGET,
  INTEL_EXCEPTIONS,
  overBudget,
} from "./budgets.ts";

const folder = mkdtempSync(join(tmpdir(), "wisp-budgets-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const fullTest = process.env.WISP_TEST_FULL === "1";
const TIMEOUT = 600_000;

interface Held {
  readonly name: string;
  readonly budget: Budget;
  readonly exceptions: readonly Exception[];
  readonly models?: readonly string[];
}

const amd = { budget: AMD_BUDGET, exceptions: AMD_EXCEPTIONS };
const intel = { budget: INTEL_BUDGET, exceptions: INTEL_EXCEPTIONS };
const HELD: readonly Held[] = [
  { name: "navi31", ...amd },
  // Intel's compiler takes four times as long.
  {
    name: "tgl",
    ...intel,
    ...(!fullTest && { models: ["v3-fp8", "v3-fp8-f16", "qwen8-bf16", "qwen8-int4"] }),
  },
];

let captures = 0;

async function pipelinesOf(
  name: string,
  options: Omit<CaptureOptions, "file"> = {},
): Promise<PipelineCode[]> {
  const file = join(folder, `${captures++}.jsonl`);
  await captureCode(absentGpu(name)!, { ...options, file });
  return readPipelines(readFileSync(file, "utf8"));
}

describe.each(HELD)("kernels on $name", ({ name, budget, exceptions, models }) => {
  const lack = whatLacks(absentGpu(name)!);
  if (lack !== undefined) {
    test.skip(`cannot be compiled here: ${lack}`, () => {});
    return;
  }

  test(
    "are within their budget",
    async () => {
      const pipelines = await pipelinesOf(name, { models });
      expect(pipelines.length).toBeGreaterThan(50);
      expect(pipelines.flatMap((one) => overBudget(one, budget, exceptions))).toEqual([]);
      // An exception that nothing needs is none.
      const idle = exceptions.filter((exception) => {
        const rest = exceptions.filter((one) => one !== exception);
        return pipelines.every((one) => overBudget(one, budget, rest).length === 0);
      });
      if (models === undefined) expect(idle.map(({ reason }) => reason)).toEqual([]);
    },
    TIMEOUT,
  );
});

const AMD = { vendor: "amd", architecture: "", device: "", description: "" };

const PLANTED: readonly {
  readonly name: string;
  readonly model: string;
  readonly texts?: readonly PlantedText[];
  readonly tuning?: Partial<Tuning>;
  readonly found: RegExp;
}[] = [
  {
    name: "an array that is indexed by a running number",
    model: "v3-fp8",
    // Half as many heads have an array that the compiler selects from.
    tuning: { attention: { ...tuningFor(AMD).attention!, rowHeads: 8, unrolls: false } },
    found: /mla_decode .*private memory/,
  },
  {
    name: "loads of one word",
    model: "qwen8-bf16",
    texts: [
      { replace: "weights: array<Piece>", with: "weights: array<u32>" },
      {
        replace: "decode(weights[piece_at(vec4u(mine.granule), first + piece).x], word)",
        with: "decode(vec4u(weights[4u * piece_at(vec4u(mine.granule), first + piece).x]), word)",
      },
      { replace: "weights[at.x]", with: "vec4u(weights[4u * at.x])" },
      { replace: "weights[at.y]", with: "vec4u(weights[4u * at.y])" },
      { replace: "weights[at.z]", with: "vec4u(weights[4u * at.z])" },
      { replace: "weights[at.w]", with: "vec4u(weights[4u * at.w])" },
      { replace: "weights[next.x]", with: "vec4u(weights[4u * next.x])" },
      { replace: "weights[next.y]", with: "vec4u(weights[4u * next.y])" },
      { replace: "weights[next.z]", with: "vec4u(weights[4u * next.z])" },
      { replace: "weights[next.w]", with: "vec4u(weights[4u * next.w])" },
    ],
    found: /linear\/linear .*loads of 4 bytes/,
  },
  {
    name: "a branch in a hot loop",
    model: "qwen8-bf16",
    texts: [
      {
        replace: "let w0 = decode_vector(pieces[0], v, words.x);",
        with: "if pieces[0].x == words.x { return; } let w0 = decode_vector(pieces[0], v, words.x);",
      },
    ],
    found: /linear\/linear .*branches in its loop/,
  },
];

const lack = whatLacks(absentGpu("navi31")!);
describe.skipIf(lack !== undefined)("a budget finds", () => {
  test.each(PLANTED)(
    "$name",
    async ({ model, texts, tuning, found }) => {
      const pipelines = await pipelinesOf("navi31", {
        models: [model],
        planted: texts,
        tuning,
      });
      const over = pipelines.flatMap((one) => overBudget(one, AMD_BUDGET, AMD_EXCEPTIONS));
      expect(over.join("\n")).toMatch(found);
    },
    TIMEOUT,
  );
});

test(
  "the forms of every GPU compile with default limits and no features",
  async () => {
    const { status, written } = await runBench("default_limits", { WISP_GPU_CODE: "none" });
    expect(status, written).toBe(0);
    expect(written).toContain("30 passed");
  },
  TIMEOUT,
);
