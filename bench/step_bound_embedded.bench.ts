/**
 * Where the time of a step of the embedded model goes, with as many driver threads as the server
 * gives it (see step_bound.ts).
 *
 * @module
 */
import "./support/driver_threads.ts";
import { afterAll, beforeAll, test } from "vitest";
import { EMBEDDED_MODEL } from "../test/support/checkpoints/embedded_model.ts";
import { folderSource } from "../test/support/checkpoints/folder_source.ts";
import { BATCHES, CONTEXTS, StepBench } from "./support/step_bound.ts";

/** The model's own limit, and a page less. */
const CONTEXT = 2048;
const LONGEST = CONTEXT - 64;

let bench: StepBench;

beforeAll(async () => {
  bench = await StepBench.open("embedded model", folderSource(EMBEDDED_MODEL), {
    contextLength: CONTEXT,
    maxTotalTokens: Math.max(...BATCHES) * CONTEXT,
  });
}, 120_000);

afterAll(() => {
  console.log(bench.summary());
  bench.close();
});

test("prefill", () => bench.prefill(), 120_000);

for (const context of new Set(CONTEXTS.map((one) => Math.min(one, LONGEST)))) {
  for (const batch of BATCHES) {
    test(`decode, batch ${batch} behind ${context}`, () => bench.decode(batch, context), 240_000);
  }
}
