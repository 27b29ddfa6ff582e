import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  distribution,
  drawToken,
  logSoftmax,
  penalized,
} from "../../../kernels/sampling/reference.ts";
import type { SampledRow, ScoredRow, TokenBiases } from "../../../src/engine/sample/sampled_row.ts";
import { Sampler } from "../../../src/engine/sample/sampler.ts";
import { DeviceMemory } from "../../../src/gpu/memory.ts";
import { Plan } from "../../../src/gpu/plan.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { EMPTY_STEP, type Step } from "../../../src/layers/batch.ts";
import { device, download, seeded } from "../../support/devices/gpu.ts";

const VOCABULARY = 301;
const STRIDE = 304;
const ROWS = 12;
/** Fewer than rows, so that slots are taken over. */
const SLOTS = 4;
const GREEDY = { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, minP: 0, seed: 0 };

const random = seeded(11);
const randomRow = () => Float32Array.from({ length: VOCABULARY }, () => random() * 12 - 6);

function biases(entries: readonly (readonly [token: number, value: number])[]): TokenBiases {
  return {
    tokens: Uint32Array.from(entries, ([token]) => token),
    values: Float32Array.from(entries, ([, value]) => value),
  };
}

/** A mask that allows only these tokens. */
function only(tokens: readonly number[]): Uint32Array {
  const mask = new Uint32Array(Math.ceil(VOCABULARY / 32));
  for (const token of tokens) mask[token >> 5]! |= 1 << (token & 31);
  return mask;
}

describe("Sampler", () => {
  const recorder = new Recorder(device, { maxLaunches: 256 });
  const memory = new DeviceMemory(device.limits, device);
  const plan = new Plan<Step>(recorder);
  let sampler: Sampler;
  let logits: Tensor;
  let sampled: Tensor;

  beforeAll(async () => {
    logits = memory.allocate("activations", ROWS * STRIDE * 4, "logits");
    sampled = memory.allocate("activations", ROWS * 4, "sampled");
    sampler = new Sampler(memory, {
      maxRows: ROWS,
      maxPenalizedRows: SLOTS,
      vocabularySize: VOCABULARY,
      logits,
      logitsStride: STRIDE,
      sampled,
    });
    sampler.compile(plan);
    await recorder.pipelines.ready();
  });
  afterAll(() => {
    sampler.destroy();
    memory.destroy();
    recorder.destroy();
  });

  /** One step over these logits. */
  async function run(
    values: readonly Float32Array[],
    rows: readonly SampledRow[],
    scored: readonly ScoredRow[] = [],
  ) {
    values.forEach((row, r) => {
      memory.write(logits, r * STRIDE * 4, Float32Array.from(row));
    });
    const fitting = await sampler.makeRoom({ sampled: rows, scored });
    sampler.prepare(fitting);
    const counts = await plan.countLaunches(EMPTY_STEP);
    await sampler.takeDelivery()?.();
    const ids = new Uint32Array(await download(sampled.buffer, 0, ROWS * 4));
    const after = new Float32Array(await download(logits.buffer, 0, ROWS * STRIDE * 4));
    return {
      ids: [...ids.subarray(0, rows.length)],
      after: rows.map((_, r) => after.slice(r * STRIDE, r * STRIDE + VOCABULARY)),
      launches: counts.get("sampling"),
    };
  }

  const wish = (top: number, tokenIds: readonly number[] = [], temperature = 1) => {
    const results: { tokens: number[]; logprobs: number[] }[] = [];
    const deliver = (tokens: Uint32Array, logprobs: Float32Array) => {
      results.push({ tokens: [...tokens], logprobs: [...logprobs] });
    };
    return { wish: { temperature, top, tokenIds, deliver }, results };
  };

  test("launches one kernel where no request asks for more than a token", async () => {
    const row = randomRow();
    const greedy = { sampling: GREEDY, position: 3 };
    const warm = { sampling: { ...GREEDY, temperature: 1, topK: 9, topP: 0.9 }, position: 3 };
    expect((await run([row, row], [greedy, greedy])).launches).toBe(1);
    expect((await run([row, row], [greedy, warm])).launches).toBe(1);
    expect((await run([row, row], [greedy, { ...warm, biases: biases([[4, 1]]) }])).launches).toBe(
      2,
    );
    const history = { tokens: [1, 2, 3], promptLength: 2 };
    const penalties = { repetition: 1.2, frequency: 0, presence: 0, history };
    expect((await run([row, row], [greedy, { ...greedy, penalties }])).launches).toBe(3);
  });

  test("a mask lets only its tokens through, before biases, for its own row", async () => {
    const rows = [randomRow(), randomRow(), randomRow()];
    const { ids, after } = await run(rows, [
      { sampling: GREEDY, position: 1, mask: only([300]) },
      { sampling: GREEDY, position: 1 },
      {
        sampling: GREEDY,
        position: 1,
        mask: only([31, 32, 64]),
        biases: biases([
          [5, 1e6],
          [32, 1e3],
        ]),
      },
    ]);
    expect(ids[0]).toBe(300);
    expect(after[1]).toEqual(rows[1]);
    expect(ids[2]).toBe(32);
    expect(after[2]!.filter((logit) => logit > -Infinity)).toHaveLength(3);
  });

  test("a mask that allows nothing, or everything but NaN, still gives a token of the vocabulary", async () => {
    const nan = new Float32Array(VOCABULARY).fill(Number.NaN);
    const warm = { ...GREEDY, temperature: 1, minP: 0.1, topP: 0.5 };
    const { ids } = await run(
      [randomRow(), randomRow(), nan, nan],
      [
        { sampling: GREEDY, position: 1, mask: only([]) },
        { sampling: warm, position: 1, mask: only([]) },
        { sampling: GREEDY, position: 1 },
        { sampling: warm, position: 1 },
      ],
    );
    for (const id of ids) expect(id).toBeLessThan(VOCABULARY);
  });

  test("counts follow what is sampled, for more sequences than there are slots", async () => {
    const strengths = { repetition: 1.4, frequency: 0.6, presence: 0.2 };
    const sequences = Array.from({ length: 10 }, (_, i) => {
      const prompt = Array.from({ length: 3 + i }, (_, j) => (i * 50 + j * 7) % VOCABULARY);
      return { tokens: prompt, promptLength: prompt.length };
    });
    for (let turn = 0; turn < 40; turn++) {
      // Others each time, never more than there are slots.
      const chosen = Array.from(
        { length: 1 + (turn % SLOTS) },
        (_, i) => sequences[(turn * 3 + i) % 10]!,
      );
      const values = chosen.map(() => Float32Array.from(randomRow(), (x) => x / 8));
      const rows = chosen.map(
        (history): SampledRow => ({
          sampling: GREEDY,
          position: history.tokens.length,
          penalties: { ...strengths, history },
        }),
      );
      const { ids, after } = await run(values, rows);
      chosen.forEach(({ tokens, promptLength }, r) => {
        const history = {
          prompt: tokens.slice(0, promptLength),
          generated: tokens.slice(promptLength),
        };
        const want = penalized(values[r]!, strengths, history);
        want.forEach((value, t) => {
          expect(Math.abs(after[r]![t]! - value)).toBeLessThan(1e-6);
        });
        // Every third token is not taken, as when a sequence is computed again.
        if ((turn + r) % 3 !== 0) tokens.push(ids[r]!);
      });
    }
  });

  test("more biases than there is room for make room", async () => {
    const row = randomRow();
    const all = biases(Array.from({ length: VOCABULARY }, (_, t) => [t, t === 7 ? 100 : -1]));
    const rows = Array.from({ length: 4 }, () => ({ sampling: GREEDY, position: 1, biases: all }));
    const { ids, after } = await run([row, row, row, row], rows);
    expect(ids).toEqual([7, 7, 7, 7]);
    expect(after[3]![8]).toBe(Math.fround(row[8]! - 1));
  });

  test("log-probabilities are the log softmax of the logits after everything else", async () => {
    const rows = [randomRow(), randomRow(), randomRow(), randomRow()];
    const [plain, changed, scored] = [wish(3), wish(200, [9, 300, 9], 0.7), wish(1, [4])];
    const { ids, after } = await run(
      rows,
      [
        { sampling: GREEDY, position: 1 },
        { sampling: GREEDY, position: 1, logprobs: plain.wish },
        {
          sampling: { ...GREEDY, temperature: 0.7, seed: 5 },
          position: 9,
          biases: biases([
            [9, 4],
            [300, -Infinity],
          ]),
          logprobs: changed.wish,
        },
      ],
      [{ token: 17, logprobs: scored.wish }],
    );
    const check = (
      { results }: typeof plain,
      row: Float32Array,
      token: number,
      temperature: number,
    ) => {
      expect(results).toHaveLength(1);
      const { tokens, logprobs } = results[0]!;
      const want = logSoftmax(row, temperature);
      expect(tokens[0]).toBe(token);
      tokens.forEach((id, i) => {
        if (want[id] === -Infinity) expect(logprobs[i]).toBe(-3.4028234663852886e38);
        else expect(Math.abs(logprobs[i]! - want[id]!)).toBeLessThan(5e-6);
      });
      return tokens;
    };
    const top = check(plain, rows[1]!, ids[1]!, 1);
    expect(top).toHaveLength(4);
    expect(top[1]).toBe(ids[1]);
    const most = check(changed, after[2]!, ids[2]!, 0.7);
    expect(most.slice(-3)).toEqual([9, 300, 9]);
    expect(most).toHaveLength(204);
    check(scored, rows[3]!, 17, 1);
  });

  test("every row of a mixed batch has the bits it has alone", async () => {
    const history = { tokens: [3, 4, 5, 5], promptLength: 2 };
    const kinds = [
      { sampling: GREEDY },
      { sampling: { ...GREEDY, temperature: 1, seed: 1 } },
      { sampling: { ...GREEDY, temperature: 1, minP: 0.2, seed: 2 } },
      { sampling: { ...GREEDY, temperature: 2, topK: 30, topP: 0.8, minP: 0.05, seed: 3 } },
      {
        sampling: GREEDY,
        biases: biases([
          [3, 2],
          [8, -2],
        ]),
      },
      { sampling: { ...GREEDY, temperature: 1, seed: 4 }, mask: only([1, 2, 3, 50, 60, 70]) },
    ];
    const values = kinds.map(randomRow);
    const make = (r: number) => {
      const asked = wish(4, [1], r === 0 ? 1 : 0.9);
      const penalties = { repetition: 1.2, frequency: 0.3, presence: 0.1, history: { ...history } };
      const row = {
        position: 4,
        ...kinds[r]!,
        ...(r % 2 === 1 && { penalties }),
        ...(r % 3 !== 1 && { logprobs: asked.wish }),
      };
      return { row, results: asked.results };
    };
    const all = kinds.map((_, r) => make(r));
    const together = await run(
      values,
      all.map(({ row }) => row),
    );
    for (const r of kinds.keys()) {
      const one = make(r);
      const alone = await run([values[r]!], [one.row]);
      expect(alone.ids[0]).toBe(together.ids[r]);
      expect(alone.after[0]).toEqual(together.after[r]);
      expect(one.results).toEqual(all[r]!.results);
      const { margin, id } = drawToken(alone.after[0]!, { ...one.row.sampling, position: 4 });
      if (margin > 1e-4) expect(together.ids[r]).toBe(id);
      expect(distribution(alone.after[0]!, one.row.sampling)[together.ids[r]!]).toBeGreaterThan(0);
    }
  });

  test("a processor changes its row's logits on the host, after masks and biases", async () => {
    const rows = Array.from({ length: 7 }, randomRow);
    const seen: Float32Array[] = [];
    const { ids, after, launches } = await run(
      rows,
      rows.map((_, r) => ({
        sampling: GREEDY,
        position: 1,
        biases: biases([[2, 1]]),
        processor:
          r % 6 === 5
            ? undefined
            : (logits: Float32Array) => {
                seen.push(Float32Array.from(logits));
                logits[r] = 1000;
              },
      })),
    );
    expect(seen).toHaveLength(6);
    expect(seen[0]![2]).toBe(Math.fround(rows[0]![2]! + 1));
    expect(ids.filter((_, r) => r !== 5)).toEqual([0, 1, 2, 3, 4, 6]);
    expect(after[5]!.indexOf(1000)).toBe(-1);
    expect(launches).toBe(2);
  });
});
