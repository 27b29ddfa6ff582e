/**
 * What serving costs and gains beside the kernels: cached prompts, requests at the same time, the
 * host's work a step, and whether anything grows.
 *
 * @module
 */
import "./support/driver_threads.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Engine } from "../src/engine/engine.ts";
import { MOST_IN_FLIGHT } from "../src/engine/schedule/lookahead.ts";
import { folderSource } from "../test/support/checkpoints/folder_source.ts";
import { device } from "../test/support/devices/gpu.ts";
import { complete, EMBEDDED_MODEL, openEngine } from "../test/support/engines/engine.ts";
import { ModelSession } from "../test/support/engines/model_session.ts";
import { nullServer } from "./serving/null_model.ts";
import { machine } from "./support/machine.ts";
import { table } from "./support/table.ts";
import { fastest } from "./support/timing.ts";

setFlagsFromString("--expose_gc");
const collect = runInNewContext("gc") as () => void;

const GREEDY = { temperature: 0, ignoreEos: true };
const prompt = (run: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((run * 977 + i * 31) % 2000));

let engine: Engine;
beforeAll(async () => {
  console.log(machine());
  engine = await openEngine({ maxRunningRequests: 32 });
}, 120_000);
afterAll(() => engine.close());

test("time to the first token of a prompt, by what of it is cached", async () => {
  const length = Math.min(engine.model.contextLength - 8, 1600);
  let runs = 0;
  const first = async (cacheSalt: string, tokens: readonly number[]) => {
    const { last } = await complete(engine, {
      tokens,
      cacheSalt,
      sampling: { ...GREEDY, maxNewTokens: 1 },
    });
    return last.cachedTokens;
  };
  const tokens = prompt(1, length);
  await first("warm", tokens);
  const rows: string[][] = [];
  let whole = 0;
  for (const share of [0, 0.5, 0.9, 0.99]) {
    const cached = Math.floor(length * share);
    let seconds = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 4; round++) {
      const salt = `run ${runs++}`;
      if (cached > 0) await first(salt, tokens.slice(0, cached + 1));
      const time = await fastest(1, async () => {
        expect(await first(salt, tokens)).toBeGreaterThanOrEqual(cached);
      });
      seconds = Math.min(seconds, time);
    }
    if (share === 0) whole = seconds;
    const left = ((length - cached) / length).toFixed(2);
    rows.push([
      `${share * 100} %`,
      `${(seconds * 1000).toFixed(1)} ms`,
      (seconds / whole).toFixed(3),
      left,
    ]);
  }
  console.log(`time to first token, prompt of ${length} tokens`);
  console.log(table(["cached", "time", "ratio to 0 %", "left to compute"], rows));
}, 300_000);

test("requests at the same time against one by one, and against the steps alone", async () => {
  const decoded = 64;
  const one = async (i: number) => {
    const { tokens } = await complete(engine, {
      tokens: prompt(i, 16),
      sampling: { ...GREEDY, maxNewTokens: decoded },
    });
    expect(tokens).toHaveLength(decoded);
  };
  await one(0);
  const serial = await fastest(3, () => one(0));
  const session = await ModelSession.open(folderSource(EMBEDDED_MODEL), { maxRunningRequests: 32 });
  const rows: string[][] = [];
  for (const count of [1, 4, 16, 32]) {
    const seconds = await fastest(3, () =>
      Promise.all(Array.from({ length: count }, (_, i) => one(i))),
    );
    const bound = await stepTime(session, count);
    const rate = (count * decoded) / seconds;
    rows.push([
      `${count}`,
      rate.toFixed(0),
      ((count * serial) / seconds).toFixed(2),
      (rate / (count / bound)).toFixed(2),
    ]);
  }
  session.close();
  console.log(`prompts of 16 tokens, answers of ${decoded}`);
  console.log(table(["requests", "tokens/s", "times one by one", "share of steps alone"], rows));
}, 300_000);

/** Seconds of a decode step of `count` sequences when steps follow each other without a scheduler. */
async function stepTime(session: ModelSession, count: number): Promise<number> {
  const sequences = Array.from({ length: count }, (_, i) => session.sequence(prompt(i, 48)));
  for (const sequence of sequences) await session.prefill(sequence);
  const { runner } = session.loaded;
  const batch = {
    sequences: sequences.map(({ pageTable, computed }, i) => {
      return {
        phase: "decode" as const,
        queryStart: i,
        queryLength: 1,
        position: computed - 1,
        pageTable,
      };
    }),
    sources: new Uint32Array(count).fill(5),
    logitRows: Uint32Array.from({ length: count }, (_, i) => i),
  };
  const draw = {
    sampling: { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 },
    position: 0,
  };
  const rows = sequences.map(() => draw);
  const steps = 64;
  const seconds = await fastest(3, async () => {
    const running: Promise<Uint32Array>[] = [];
    for (let i = 0; i < steps; i++) {
      if (running.length === MOST_IN_FLIGHT) await running.shift();
      running.push((await runner.submit(batch, rows)).tokens);
    }
    await Promise.all(running);
  });
  for (const sequence of sequences) session.release(sequence);
  return seconds / steps;
}

test("the host's work for a step of 32 requests, with a model that computes nothing", async () => {
  for (const context of [64, 2048]) {
    const times = await nullServer(device, { sequences: 32, context, steps: 600 });
    const total = times.schedule + times.rows + times.submit + times.commit;
    console.log(
      `32 requests at ${context} tokens, medians: ${total.toFixed(3)} ms a step ` +
        `(schedule ${times.schedule.toFixed(3)}, rows ${times.rows.toFixed(3)}, ` +
        `submit ${times.submit.toFixed(3)}, commit and text ${times.commit.toFixed(3)})`,
    );
  }
}, 120_000);

test("ten thousand requests leave heap and GPU memory where they were", async () => {
  let buffers = 0;
  const { createBuffer } = device;
  vi.spyOn(device, "createBuffer").mockImplementation((descriptor) => {
    buffers += 1;
    return createBuffer.call(device, descriptor);
  });
  const serve = async (count: number, first: number) => {
    let next = first;
    const client = async () => {
      while (next < first + count) {
        const tokens = prompt(next++, 6);
        const sampling = { maxNewTokens: 2, ignoreEos: true, temperature: 0.7, topK: 5 };
        expect((await complete(engine, { tokens, sampling })).tokens).toHaveLength(2);
      }
    };
    await Promise.all(Array.from({ length: 32 }, client));
  };
  const heap = async () => {
    for (let i = 0; i < 3; i++) {
      collect();
      await sleep(50);
    }
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  await serve(3000, 0); // until the cache is full, and what is compiled is compiled
  const before = await heap();
  const madeBefore = buffers;
  const seconds = await fastest(1, () => serve(10_000, 3000));
  const grown = (await heap()) - before;
  vi.restoreAllMocks();
  console.log(
    `10000 requests in ${seconds.toFixed(1)} s: heap ${(grown / 1024).toFixed(0)} KiB, ` +
      `${buffers - madeBefore} GPU buffers`,
  );
  expect(buffers - madeBefore).toBe(0);
  expect(grown).toBeLessThan(512 * 1024);
  expect(engine.status()).toMatchObject({ usedTokens: 0, runningRequests: 0, queuedRequests: 0 });
}, 300_000);
