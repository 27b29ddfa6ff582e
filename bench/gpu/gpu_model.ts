/**
 * Decode steps of a whole model beside the sum of their launches (see step_bound.ts): a DeepSeek of
 * 168 million weights, and fewer layers of it on software adapters.
 *
 * @module
 */
import { afterAll, describe, test } from "vitest";
import { DEEPSEEK_6_LAYERS, deepseekV3 } from "../../test/support/synthetic/deepseek_v3.ts";
import { syntheticSource } from "../../test/support/synthetic/source.ts";
import { StepBench } from "../support/step_bound.ts";
import { Report, scaled, TIMEOUT } from "./gpu_bench.ts";

const SEED = 7;
const MODEL = {
  ...DEEPSEEK_6_LAYERS,
  ...scaled({}, { num_hidden_layers: 2, vocab_size: 2000, hidden_size: 512 }),
};
const BATCHES = scaled([1, 8, 32], [1, 8]);
const CONTEXTS = scaled([128, 4096], [128]);

export function modelSection(): void {
  describe("whole model", () => {
    const title = `Decode steps of a DeepSeek of ${MODEL.num_hidden_layers} layers, FP8`;
    const report = new Report(title);
    let bench: StepBench | undefined;
    afterAll(() => {
      if (bench !== undefined) {
        const summary = bench.summary();
        console.log(summary);
        report.add(summary);
      }
      bench?.close();
      report.finish();
    });
    for (const context of CONTEXTS) {
      for (const batch of BATCHES) {
        const run = async () => {
          const name = `DeepSeek of ${MODEL.num_hidden_layers} layers, FP8`;
          bench ??= await StepBench.open(name, syntheticSource(deepseekV3(MODEL), SEED));
          report.add(await bench.decode(batch, context));
        };
        test(`decode of ${batch} behind ${context}`, run, TIMEOUT);
      }
    }
  });
}
