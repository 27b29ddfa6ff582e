import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Engine } from "../../../src/engine/engine.ts";
import { requireTuning } from "../../../src/gpu/require_tuning.ts";
import type { RowForm, Tuning } from "../../../src/gpu/tuning.ts";
import { kernelTuning, measureAndStore } from "../../../src/node/device/kernel_tuning.ts";
import { storeTuning } from "../../../src/node/device/tuning_file.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { device, fullTest } from "../../support/devices/gpu.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "wisp-tuning-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Nothing as the table of any adapter in these tests has it. */
const SPLIT_FORMS: readonly RowForm[] = [
  { tokens: 1, split: 4, workgroup: 32, cost: 1 },
  { tokens: 2, split: 2, workgroup: 16, cost: 1.2 },
];
const SPLIT: Tuning = { lanes: 8, rowForms: SPLIT_FORMS };

const started = (path: string, told: string[], measure = false, tunedKernels?: boolean) =>
  kernelTuning({
    ...{ device, measure, path, tunedKernels, source: folderSource(EMBEDDED_MODEL) },
    report: { tuning: (sentence) => told.push(sentence), progress: () => {} },
  });

test("what was measured is stored and used from then on", async () => {
  const path = join(folder, "measured.json");
  const told: string[] = [];
  expect(await started(path, told)).toBeUndefined();
  const matrices = [{ dtype: "fp8", rows: 24, columns: 140 }] as const;
  const demand = { matrices, lanes: [8], orders: [], milliseconds: 1 };
  const { tuning } = await measureAndStore(device, { demand, onProgress: () => {}, path });
  expect(await started(path, told)).toEqual(tuning);
  // A start that would measure has no need to.
  expect(await started(path, told, true)).toEqual(tuning);
  expect(told).toEqual(Array(2).fill(expect.stringContaining(path)));
  const [entry] = Object.values(JSON.parse(readFileSync(path, "utf8")).tunings) as [
    { readonly tuning: unknown },
  ];
  expect(requireTuning(entry.tuning)).toEqual(tuning);
});

test("plain kernels have no tuning, and are not tuned", async () => {
  const path = join(folder, "plain.json");
  await storeTuning(device.adapterInfo, { tuning: SPLIT, measured: "2026-11-22" }, path);
  expect(await started(path, [], false, true)).toEqual(SPLIT);
  expect(await started(path, [], false, false)).toBeUndefined();
  await expect(started(path, [], true, false)).rejects.toThrow("--enable-torch-compile together");
});

// Each tuning has pipelines of its own for the whole model.
test.skipIf(!fullTest)(
  "a model gives the same answers in every tuning, also with other lanes and orders",
  async () => {
    const answers: (readonly number[])[] = [];
    const wide: Tuning = { lanes: 16, rowForms: SPLIT_FORMS };
    const inRuns: Tuning = { ...SPLIT, rowsPerLane: 4, scaleOrder: "byRun", repacks: true };
    for (const tuning of [undefined, SPLIT, wide, inRuns]) {
      const engine = await Engine.load(folderSource(EMBEDDED_MODEL), {
        ...{ device, tuning, contextLength: 64, maxRunningRequests: 2 },
      });
      // Log-probabilities too: they have the bits of the logits.
      const ids: number[] = [];
      const tokens = [11, 22, 33, 44, 55];
      const sampling = { temperature: 0, maxNewTokens: 8, ignoreEos: true };
      for await (const chunk of engine.generate({ tokens, sampling, logprobs: {} })) {
        ids.push(...chunk.tokens, ...(chunk.logprobs ?? []).map(({ logprob }) => logprob!));
      }
      answers.push(ids);
      await engine.close();
    }
    expect(answers[0]).toHaveLength(16);
    expect(answers[1]).toEqual(answers[0]);
    expect(answers[2]).toEqual(answers[0]);
    expect(answers[3]).toEqual(answers[0]);
  },
);

test("a tuning that no kernel can have is refused and named", async () => {
  const tuning = { ...SPLIT, lanes: 5 };
  const loading = Engine.load(folderSource(EMBEDDED_MODEL), { device, tuning });
  await expect(loading).rejects.toMatchObject({ field: "tuning" });
});
