/**
 * Where the time of a step of a model of Qwen3-0.6B's shape goes: each launch timed among others of
 * its kind, beside the whole step. `WISP_QUANTIZATION` is a comma-separated list, "none" for BF16.
 *
 * @module
 */
import { performance } from "node:perf_hooks";
import { expect, test } from "vitest";
import type { Batch } from "../src/layers/batch.ts";
import { device } from "../test/support/gpu.ts";
import { ModelSession } from "../test/support/model_session.ts";
import { qwen3 } from "../test/support/synthetic/qwen3.ts";
import { syntheticSource } from "../test/support/synthetic/source.ts";
import { catchLaunches, costOfLaunches } from "./launch_profile.ts";
import { machine } from "./machine.ts";
import { table } from "./table.ts";
import { fastest } from "./timing.ts";

/** Few layers show the same launches in less time. */
const LAYERS = Number(process.env.WISP_LAYERS ?? 28);
const VOCABULARY = 151_936;
const PROMPT = 128;
const GREEDY = { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 };
const LABEL_LENGTH = 100;

const quantizations = (process.env.WISP_QUANTIZATION ?? "int4,none").split(",");
const tokens = Uint32Array.from({ length: PROMPT }, (_, i) => 300 + ((i * 7919) % 100_000));
const pageTable = Array.from({ length: PROMPT + 1 }, (_, i) => i);

/** The last row's logits are wanted, as when a prompt ends or a token is generated. */
function batchOf(phase: "prefill" | "decode", position: number, sources: Batch["sources"]): Batch {
  const queryLength = sources.length;
  return {
    sequences: [{ phase, queryStart: 0, queryLength, position, pageTable }],
    sources,
    logitRows: Uint32Array.of(queryLength - 1),
  };
}

test.each(quantizations)(
  "%s",
  async (name) => {
    const model = qwen3({ num_hidden_layers: LAYERS, vocab_size: VOCABULARY });
    const session = await ModelSession.open(syntheticSource(model, 7), {
      maxRowsPerStep: PROMPT,
      maxTotalTokens: 2 * PROMPT,
      maxRunningRequests: 1,
      ...(name !== "none" && { quantization: name }),
    });
    const { runner } = session.loaded;
    const steps = [
      { title: `prefill of ${PROMPT} rows`, batch: batchOf("prefill", 0, tokens) },
      {
        title: `decode, ${PROMPT} tokens before`,
        batch: batchOf("decode", PROMPT, Uint32Array.of(7)),
      },
    ];
    for (const { title, batch } of steps) {
      let host = Number.POSITIVE_INFINITY;
      const run = async () => {
        const started = performance.now();
        const running = runner.run(batch, [{ sampling: GREEDY, position: 0 }]);
        // Everything before the GPU is waited for.
        host = Math.min(host, (performance.now() - started) / 1e3);
        return (await running)[0];
      };
      const first = await run();
      const whole = await fastest(3, async () => expect(await run()).toBe(first));
      const launches = await catchLaunches(runner.recorder, run);
      const costs = await costOfLaunches(launches);
      const sum = costs.reduce((total, { seconds }) => total + seconds, 0);
      const cpuSum = costs.reduce((total, { cpuSeconds }) => total + cpuSeconds, 0);
      const ms = (seconds: number) => (seconds * 1e3).toFixed(2);
      console.log(
        `${machine()}\n${name}, ${title}: ${ms(whole)} ms, of the host ${ms(host)} ms, ` +
          `${launches.length} launches, ${ms(sum)} ms when timed alone, cpu ${ms(cpuSum)} ms\n` +
          table(
            ["launch", "grid", "count", "ms", "ms each", "cpu ms each", "share of cpu"],
            costs.map(({ label, grid, count, seconds, cpuSeconds }) => [
              label.slice(0, LABEL_LENGTH),
              grid,
              `${count}`,
              ms(seconds),
              ms(seconds / count),
              ms(cpuSeconds / count),
              `${((100 * cpuSeconds) / cpuSum).toFixed(1)} %`,
            ]),
          ),
      );
    }
    session.close();
    await device.queue.onSubmittedWorkDone();
  },
  1_200_000,
);
