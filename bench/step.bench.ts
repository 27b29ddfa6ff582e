/**
 * What a step of the embedded model costs: tokens per second, launches, host time, loading.
 *
 * @module
 */
import "./support/driver_threads.ts";
import { performance } from "node:perf_hooks";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "../src/engine/engine.ts";
import { folderSource } from "../test/support/checkpoints/folder_source.ts";
import { chat, complete, EMBEDDED_MODEL, openEngine } from "../test/support/engines/engine.ts";
import { best, ModelSession } from "../test/support/engines/model_session.ts";
import { machine } from "./support/machine.ts";
import { fastest } from "./support/timing.ts";

const GREEDY = { temperature: 0, ignoreEos: true };
const DECODED = 200;

let engine: Engine;
let session: ModelSession;

beforeAll(async () => {
  console.log(machine());
  const started = performance.now();
  engine = await openEngine();
  console.log(`load to ready, this process: ${(performance.now() - started).toFixed(0)} ms`);
  session = await ModelSession.open(folderSource(EMBEDDED_MODEL));
}, 120_000);

afterAll(async () => {
  await engine.close();
  session.close();
});

test("decode, one sequence and eight", async () => {
  const messages = chat("What is the capital of Japan?");
  const one = async () => {
    const { text, tokens } = await complete(engine, {
      messages,
      sampling: { ...GREEDY, maxNewTokens: DECODED },
    });
    expect(text.startsWith("The capital of Japan is Tokyo.")).toBe(true);
    expect(tokens).toHaveLength(DECODED);
  };
  await one();
  const alone = await fastest(4, one);
  const together = await fastest(3, () => Promise.all(Array.from({ length: 8 }, one)));
  console.log(`decode, batch 1: ${(DECODED / alone).toFixed(0)} tokens/s`);
  console.log(
    `decode, batch 8: ${((8 * DECODED) / together).toFixed(0)} tokens/s, ` +
      `${((8 * alone) / together).toFixed(2)} times batch 1`,
  );
}, 120_000);

test("prefill, 512 tokens", async () => {
  const tokens = Array.from({ length: 512 }, (_, i) => 3 + ((i * 31) % 2000));
  let runs = 0;
  // A salt of its own keeps each run from finding the last one's prompt in the cache.
  const one = () =>
    complete(engine, {
      tokens,
      sampling: { ...GREEDY, maxNewTokens: 1 },
      cacheSalt: `run ${runs++}`,
    });
  const first = (await one()).tokens;
  const seconds = await fastest(4, async () => expect((await one()).tokens).toEqual(first));
  console.log(`prefill, 512 tokens: ${(512 / seconds).toFixed(0)} tokens/s`);
}, 120_000);

test("launches and host time of a decode step, from a kept list and recorded anew", async () => {
  const anew = await ModelSession.open(folderSource(EMBEDDED_MODEL), { decodeBuckets: false });
  const times = [await hostTime(session), await hostTime(anew)];
  anew.close();
  console.log(
    `host time of a step from a kept list: ${(times[0]! / times[1]!).toFixed(2)} of anew`,
  );
}, 60_000);

/** Median milliseconds to record and submit a decode step of one sequence. */
async function hostTime(session: ModelSession): Promise<number> {
  const { runner } = session.loaded;
  const sequence = session.sequence([0, 2027, 559, 36, 2028]);
  let last = (await session.prefill(sequence)).at(-1)!;
  const sampling = [
    { sampling: { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 }, position: 0 },
  ];
  const batch = () => ({
    sequences: [
      {
        phase: "decode" as const,
        queryStart: 0,
        queryLength: 1,
        position: sequence.computed,
        pageTable: sequence.pageTable,
      },
    ],
    sources: Uint32Array.of(best(last)),
    logitRows: Uint32Array.of(0),
  });
  sequence.tokens.push(best(last));
  last = (await session.decode([sequence]))[0]!;
  const counts = await runner.countLaunches(batch(), sampling);
  let total = 0;
  for (const [group, launches] of counts) {
    total += launches;
    console.log(`launches, ${group}: ${launches}`);
  }
  console.log(`launches, one decode step: ${total}`);
  for (const [group, launches] of counts) {
    if (group.startsWith("layer")) expect(launches).toBeLessThanOrEqual(12);
  }

  // Host work of a step: everything before the GPU is waited for.
  const steps = 300;
  const host: number[] = [];
  const submits = runner.recorder.submits;
  for (let i = 0; i < steps; i++) {
    const next = batch();
    const started = performance.now();
    const done = runner.run(next, sampling);
    host.push(performance.now() - started);
    const [id] = await done;
    expect(id).toBeLessThan(2048);
  }
  expect(runner.recorder.submits - submits).toBe(steps);
  host.sort((a, b) => a - b);
  const ms = (share: number) => `${host[Math.floor(share * (steps - 1))]!.toFixed(3)} ms`;
  console.log(`host time to record and submit a decode step: ${ms(0)} at best, median ${ms(0.5)}`);
  return host[Math.floor(steps / 2)]!;
}
