import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  ADJUST_WORDS,
  adjust,
  type PenaltyStrengths,
  writeAdjustment,
} from "../../kernels/sampling/adjust.ts";
import { argmax } from "../../kernels/sampling/argmax.ts";
import { distribution, penalized, philox } from "../../kernels/sampling/reference.ts";
import { writeCounts } from "../../src/engine/sample/penalty_slots.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { whole } from "../../src/gpu/tensor.ts";
import { DRAWS, draw, expectDistribution, histogram } from "../support/browser/drawing.ts";
import { device, download, seeded, upload } from "../support/devices/gpu.ts";

const GOLDEN = "../shared/data/golden/sampling.json";

test("philox gives the words its authors publish", () => {
  expect(philox(0, 0)).toBe(0xff1dae59);
});

test("of tied logits, the lowest indices are kept", async () => {
  const flat = new Float32Array(40).fill(1.5);
  const counts = await histogram(flat, { temperature: 1, topK: 30, topP: 0.5 });
  // 1/40 each: the exclusive sum reaches one half with the twenty-first token.
  const kept = Float64Array.from({ length: 40 }, (_, id) => (id <= 20 ? 1 / 21 : 0));
  expectDistribution(counts, kept);
});

test("a draw depends on nothing but its logits, rule, seed and position", async () => {
  const random = seeded(6);
  const rowOf = () => Float32Array.from({ length: 300 }, () => random() * 8);
  const rows = Array.from({ length: 16 }, rowOf);
  const draws = rows.map((_, i) => ({
    temperature: [0, 0.7, 1, 2][i % 4]!,
    topP: [1, 0.9, 0.5][i % 3]!,
    topK: [Infinity, 20, 3][i % 3]!,
    seed: 17 * i,
    position: i,
  }));
  const together = await draw(rows, draws);
  const reversed = await draw([...rows].reverse(), [...draws].reverse());
  expect([...reversed].reverse()).toEqual([...together]);
  for (const i of [0, 5, 11]) {
    expect(await draw([rows[i]!], [draws[i]!])).toEqual(together.subarray(i, i + 1));
  }
});

test("greedy rows of a mixed batch give exactly the argmax", async () => {
  const random = seeded(7);
  const rows = Array.from({ length: 32 }, () =>
    Float32Array.from({ length: 500 }, () => Math.round(random() * 20) - 10),
  );
  const draws = rows.map((_, i) => ({
    temperature: i % 2,
    topP: 0.9,
    topK: 10,
    seed: i,
    position: 1,
  }));
  const ids = await draw(rows, draws);
  const recorder = new Recorder(device, { maxLaunches: 1 });
  const logits = whole(upload(Float32Array.from(rows.flatMap((row) => [...row]))));
  const best = whole(upload(new Uint32Array(rows.length)));
  const launch = argmax(recorder, { logits, ids: best, vocabulary: 500 });
  await recorder.pipelines.ready();
  launch(rows.length);
  recorder.submit();
  const want = new Uint32Array(await download(best.buffer));
  recorder.destroy();
  for (let i = 0; i < rows.length; i += 2) expect(ids[i]).toBe(want[i]);
});

/** A row after the kernel has applied penalties and biases to it. */
async function adjusted(
  row: Float32Array,
  strengths: PenaltyStrengths,
  { prompt, generated, forbidden = [] }: History,
): Promise<Float32Array> {
  const counts = new Uint32Array(row.length);
  const tokens = [...prompt, ...generated];
  writeCounts(counts, { tokens, promptLength: prompt.length });
  const items = new DataView(new ArrayBuffer(ADJUST_WORDS * 4));
  const biases = new DataView(new ArrayBuffer(Math.max(forbidden.length, 1) * 8));
  forbidden.forEach((token, i) => {
    biases.setUint32(i * 8, token, true);
    biases.setFloat32(i * 8 + 4, -Infinity, true);
  });
  const penalties = { ...strengths, slot: 0 };
  writeAdjustment(items, 0, { row: 0, penalties, firstBias: 0, biasCount: forbidden.length });
  const recorder = new Recorder(device, { maxLaunches: 1 });
  const tensors = {
    items: whole(upload(items)),
    counts: whole(upload(counts)),
    masks: whole(upload(new Uint32Array(1))),
    biases: whole(upload(biases)),
    logits: whole(upload(row)),
  };
  const launch = adjust(recorder, { ...tensors, vocabulary: row.length });
  await recorder.pipelines.ready();
  launch(1);
  recorder.submit();
  const after = new Float32Array(await download(tensors.logits.buffer));
  for (const { buffer } of Object.values(tensors)) buffer.destroy();
  recorder.destroy();
  return after;
}

interface History {
  readonly prompt: readonly number[];
  readonly generated: readonly number[];
  readonly forbidden?: readonly number[];
}

describe("penalties", () => {
  const random = seeded(9);
  const tokens = (count: number) => Array.from({ length: count }, () => Math.floor(random() * 80));
  test.each<PenaltyStrengths>([
    { repetition: 1.3, frequency: 0, presence: 0 },
    { repetition: 0.5, frequency: 0, presence: 0 },
    { repetition: 1, frequency: 0.7, presence: 0 },
    { repetition: 1, frequency: -2, presence: 0 },
    { repetition: 1, frequency: 0, presence: 1.1 },
    { repetition: 2, frequency: 2, presence: -2 },
    { repetition: 1.17, frequency: 0.31, presence: 0.23 },
  ])("%o give the very numbers of the reference", async (strengths) => {
    const row = Float32Array.from({ length: 80 }, () => random() * 12 - 6);
    const history = { prompt: tokens(20), generated: tokens(60) };
    const after = await adjusted(row, strengths, history);
    const want = penalized(row, strengths, history);
    // A GPU may be a few units in the last place off when it divides, and nowhere else.
    if (strengths.repetition === 1) expect(after).toEqual(want);
    want.forEach((value, id) => {
      expect(Math.abs(after[id]! - value)).toBeLessThanOrEqual(4e-7 * Math.abs(row[id]!));
    });
  });
});

interface GoldenCase {
  readonly params: Readonly<Record<string, number>> & { readonly stop_token_ids?: number[] };
  readonly logits: readonly number[];
  readonly prompt_ids: readonly number[];
  readonly output_ids: readonly number[];
  readonly eos_id: number;
  readonly after_penalties: readonly (number | null)[];
  readonly probs_joint: readonly number[];
}

describe.skipIf(!existsSync(GOLDEN))("golden cases (needs ../shared/data)", () => {
  const cases: GoldenCase[] = existsSync(GOLDEN)
    ? JSON.parse(readFileSync(GOLDEN, "utf8")).cases
    : [];
  test.each(cases)("$params", async (golden) => {
    const { params, logits, after_penalties, probs_joint, prompt_ids, output_ids } = golden;
    const strengths = {
      repetition: params.repetition_penalty ?? 1,
      frequency: params.frequency_penalty ?? 0,
      presence: params.presence_penalty ?? 0,
    };
    const isEarly = output_ids.length < (params.min_new_tokens ?? 0);
    const row = await adjusted(Float32Array.from(logits), strengths, {
      prompt: prompt_ids,
      generated: output_ids,
      forbidden: isEarly ? [golden.eos_id, ...(params.stop_token_ids ?? [])] : [],
    });
    after_penalties.forEach((want, id) => {
      if (want === null) expect(row[id]).toBe(-Infinity);
      else expect(row[id]).toBeCloseTo(want, 5);
    });
    const { temperature = 1, top_p: topP = 1, top_k: topK = Infinity, min_p: minP = 0 } = params;
    const rule = { temperature, topP, topK, minP };
    distribution(row, rule).forEach((probability, id) => {
      expect(probability).toBeCloseTo(probs_joint[id]!, 4);
    });
    const counts = await histogram(row, rule);
    expectDistribution(counts, probs_joint);
    // Every token with a real chance is drawn.
    counts.forEach((seen, id) => {
      if (probs_joint[id]! * DRAWS > 20) expect(seen).toBeGreaterThan(0);
    });
  });
});
