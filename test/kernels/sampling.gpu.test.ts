import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { argmax } from "../../kernels/sampling/argmax.ts";
import { distribution, philox } from "../../kernels/sampling/reference.ts";
import { DRAW_WORDS, type Draw, sample, writeDraw } from "../../kernels/sampling/sample.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { whole } from "../../src/gpu/tensor.ts";
import { device, download, seeded, smallestCaseOnly, upload } from "../support/gpu.ts";

const GOLDEN = "../shared/data/golden/sampling.json";
/** Fewer on the slow driver, where a barrier costs half a millisecond. */
const DRAWS = smallestCaseOnly ? 500 : 20_000;

type Rule = Omit<Draw, "seed" | "position">;

/** One launch over all rows. */
async function draw(rows: readonly Float32Array[], draws: readonly Draw[]): Promise<Uint32Array> {
  const vocabulary = rows[0]!.length;
  const logits = new Float32Array(rows.length * vocabulary);
  rows.forEach((row, r) => {
    logits.set(row, r * vocabulary);
  });
  const words = new DataView(new ArrayBuffer(rows.length * DRAW_WORDS * 4));
  draws.forEach((one, r) => {
    writeDraw(words, r, one);
  });
  const recorder = new Recorder(device, { maxLaunches: 4 });
  const tensors = {
    logits: whole(upload(logits)),
    draws: whole(upload(words)),
    ids: whole(upload(new Uint32Array(rows.length))),
  };
  const launch = sample(recorder, { ...tensors, vocabulary });
  await recorder.pipelines.ready();
  launch(rows.length);
  recorder.submit();
  const ids = new Uint32Array(await download(tensors.ids.buffer));
  for (const { buffer } of Object.values(tensors)) buffer.destroy();
  recorder.destroy();
  return ids;
}

/** How often each token is drawn: seeds and positions both vary. */
async function histogram(row: Float32Array, rule: Rule): Promise<Float64Array> {
  const rows = Array.from({ length: DRAWS }, () => row);
  const draws = rows.map((_, i) => ({ ...rule, seed: i % 100, position: Math.floor(i / 100) }));
  const counts = new Float64Array(row.length);
  for (const id of await draw(rows, draws)) counts[id]! += 1;
  return counts;
}

/** Pearson's statistic in standard deviations above its mean; tokens below 5 expected are pooled. */
function excess(counts: Float64Array, probabilities: ArrayLike<number>): number {
  let statistic = 0;
  let cells = 0;
  const pool = { expected: 0, seen: 0 };
  const add = (seen: number, expected: number) => {
    statistic += (seen - expected) ** 2 / expected;
    cells += 1;
  };
  counts.forEach((seen, id) => {
    const expected = probabilities[id]! * DRAWS;
    if (expected >= 5) add(seen, expected);
    else {
      pool.expected += expected;
      pool.seen += seen;
    }
  });
  if (pool.expected > 0) add(pool.seen, Math.max(pool.expected, 1));
  const freedom = cells - 1;
  return freedom === 0 ? 0 : (statistic - freedom) / Math.sqrt(2 * freedom);
}

function expectDistribution(counts: Float64Array, probabilities: ArrayLike<number>) {
  counts.forEach((seen, id) => {
    if (probabilities[id] === 0) expect(seen, `token ${id} is cut`).toBe(0);
  });
  expect(excess(counts, probabilities)).toBeLessThan(5);
}

test("philox gives the words its authors publish", () => {
  expect(philox(0, 0)).toBe(0xff1dae59);
});

describe("20,000 draws have the exact distribution", () => {
  const random = seeded(5);
  const row = Float32Array.from({ length: 60 }, () => random() * 6 - 3);
  const all = { topP: 1, topK: Infinity };
  test.each<Rule>([
    { ...all, temperature: 1 },
    { ...all, temperature: 0.5 },
    { ...all, temperature: 3 },
    { ...all, temperature: 1, topK: 7 },
    { ...all, temperature: 1, topP: 0.8 },
    { temperature: 1.3, topK: 12, topP: 0.7 },
    { temperature: 0.8, topK: 4, topP: 0.95 },
  ])("%o", async (rule) => {
    expectDistribution(await histogram(row, rule), distribution(row, rule));
  });

  test("of tied logits, the lowest indices are kept", async () => {
    const flat = new Float32Array(40).fill(1.5);
    const counts = await histogram(flat, { temperature: 1, topK: 30, topP: 0.5 });
    // 1/40 each: the exclusive sum reaches one half with the twenty-first token.
    const kept = Float64Array.from({ length: 40 }, (_, id) => (id <= 20 ? 1 / 21 : 0));
    expectDistribution(counts, kept);
  });
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

interface GoldenCase {
  readonly params: Readonly<Record<string, number>>;
  readonly after_penalties: readonly (number | null)[];
  readonly probs_joint: readonly number[];
}

describe.skipIf(!existsSync(GOLDEN))("golden cases (needs ../shared/data)", () => {
  const own = new Set(["temperature", "top_p", "top_k"]);
  const cases: GoldenCase[] = existsSync(GOLDEN)
    ? JSON.parse(readFileSync(GOLDEN, "utf8")).cases.filter(({ params }: GoldenCase) =>
        Object.keys(params).every((name) => own.has(name)),
      )
    : [];
  test.each(cases)("$params", async ({ params, after_penalties, probs_joint }) => {
    const row = Float32Array.from(after_penalties, (logit) => logit ?? -Infinity);
    const { temperature = 1, top_p: topP = 1, top_k: topK = Infinity } = params;
    const rule = { temperature, topP, topK };
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
