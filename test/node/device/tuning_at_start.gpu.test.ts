/** `--enable-torch-compile` measures and keeps all that a tuning has. What measures is tested apart. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { type AttentionTuning, PLAIN_TUNING, type Tuning } from "../../../src/gpu/tuning.ts";
import { kernelTuning, type Tuners } from "../../../src/node/device/kernel_tuning.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { device } from "../../support/devices/gpu.ts";

test("weights of the model and attention are measured, and kept together", async () => {
  const { attention: _, ...tuning }: Tuning = { ...PLAIN_TUNING, repacks: true };
  const attention: AttentionTuning = {
    ...{ rowHeads: 2, groupHeads: 1, promptHeads: 1, lanes: 16, subgroups: false },
  };
  const upload = { bytes: 1, host: 1, gpu: 1 };
  const tuneKernels = vi.fn<Tuners["tuneKernels"]>();
  tuneKernels.mockResolvedValue({ tuning, winners: [], upload });
  const tuneAttention = vi.fn<Tuners["tuneAttention"]>().mockResolvedValue(attention);
  const folder = mkdtempSync(join(tmpdir(), "wisp-start-tuning-"));
  const start = (measure: boolean) =>
    kernelTuning({
      ...{ device, measure, tunedKernels: undefined, path: join(folder, "tunings.json") },
      source: folderSource(EMBEDDED_MODEL),
      tuners: { tuneKernels, tuneAttention },
      report: { tuning: () => {}, progress: () => {} },
    });
  expect(await start(true)).toEqual({ ...tuning, attention });
  expect(await start(false)).toEqual({ ...tuning, attention });
  const [, demand] = tuneKernels.mock.lastCall!;
  expect(new Set(demand!.matrices!.map(({ dtype }) => dtype))).toEqual(new Set(["bf16", "fp8"]));
  expect(tuneKernels).toHaveBeenCalledOnce();
  expect(tuneAttention).toHaveBeenCalledOnce();
  rmSync(folder, { recursive: true });
});
