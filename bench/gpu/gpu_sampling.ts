/**
 * From the last hidden state to a token over a large vocabulary: the output head, with and without
 * the search for the best in it, and sampling.
 *
 * @module
 */
import { afterAll, describe, expect, test } from "vitest";
import { linear } from "../../kernels/linear/linear.ts";
import { linearBest } from "../../kernels/linear/linear_best.ts";
import { storedBytes } from "../../kernels/linear/weights/weight_cost.ts";
import { argmax } from "../../kernels/sampling/argmax.ts";
import { bestTile } from "../../kernels/sampling/best_tile.ts";
import { drawToken } from "../../kernels/sampling/reference.ts";
import { DRAW_WORDS, type Draw, sample, writeDraw } from "../../kernels/sampling/sample.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import { allocateTensor, type Tensor, whole } from "../../src/gpu/tensor.ts";
import { device, upload } from "../../test/support/devices/gpu.ts";
import { best } from "../../test/support/engines/model_session.ts";
import {
  bounds,
  type Candidate,
  compare,
  expectNear,
  floatsOf,
  Report,
  scaled,
  TIMEOUT,
  WORK_HEADER,
  type Work,
  wordsOf,
  workCells,
} from "./gpu_bench.ts";
import { makeTensor, WORDS } from "./gpu_data.ts";
import { makeWeight } from "./gpu_weights.ts";

const VOCABULARY = scaled(129_280, 8192);
const HIDDEN = scaled(7168, 256);
const ROWS = scaled([1, 8, 32], [1, 4]);
const TOLERANCE = 2e-5;
/** The kernel reads a row about so often. */
const SAMPLE_PASSES = 7;

const DRAWS: readonly (Omit<Draw, "seed" | "position"> & { readonly name: string })[] = [
  { name: "sample, top-p 0.9", temperature: 1, topP: 0.9, topK: Number.POSITIVE_INFINITY },
  { name: "sample, top-k 40", temperature: 1, topP: 1, topK: 40 },
  { name: "sample, both", temperature: 0.7, topP: 0.9, topK: 40 },
];

interface Named {
  readonly candidate: Candidate;
  readonly work: Work;
  readonly out: Tensor;
  check(): Promise<void>;
}

async function sampling(report: Report, rows: number): Promise<void> {
  const known = await bounds();
  const logits = await makeTensor("logits", rows * VOCABULARY, { kind: WORDS.f32 });
  const ids = allocateTensor(device, rows * 4, "ids");
  const row = (r: number) =>
    Float32Array.from({ length: VOCABULARY }, (_, i) => logits.float(r * VOCABULARY + i));
  const last = row(rows - 1);
  const bytes = rows * VOCABULARY * 4;
  const common = { logits: logits.tensor, ids, vocabulary: VOCABULARY };
  const one = (name: string, bind: (recorder: Recorder) => (rows: number) => void) => ({
    ...{ name, numericClass: name },
    bind(recorder: Recorder) {
      const launch = bind(recorder);
      return [() => launch(rows)];
    },
  });
  const lastId = async () => (await wordsOf(ids, rows - 1, 1))[0];
  const greedy: Named = {
    candidate: one("argmax", (recorder) => argmax(recorder, common)),
    ...{ work: { bytes, flops: 0 }, out: ids },
    check: async () => expect(await lastId()).toBe(best(last)),
  };
  const drawn = DRAWS.map(({ name, ...rule }): Named => {
    const words = new DataView(new ArrayBuffer(rows * DRAW_WORDS * 4));
    const draws = Array.from({ length: rows }, (_, r) => surelyDrawn(rule, r, last, rows));
    for (const [r, draw] of draws.entries()) writeDraw(words, r, draw);
    const tensor = whole(upload(words));
    return {
      candidate: one(name, (recorder) => sample(recorder, { ...common, draws: tensor })),
      ...{ work: { bytes: SAMPLE_PASSES * bytes, flops: 0 }, out: ids },
      check: async () => expect(await lastId()).toBe(drawToken(last, draws[rows - 1]!).id),
    };
  });
  for (const { candidate, work, out, check } of [greedy, ...drawn]) {
    await compare(report, [candidate], {
      ...{ out, check },
      cells: (name, seconds) => [`${rows}`, name, ...workCells(seconds, work, known)],
    });
  }
  for (const { buffer } of [logits.tensor, ids]) buffer.destroy();
}

/** A seed for which a rounding of the probabilities cannot change the token of the last row. */
function surelyDrawn(
  rule: Omit<Draw, "seed" | "position">,
  row: number,
  logits: Float32Array,
  rows: number,
): Draw {
  const draw = (seed: number) => ({ ...rule, seed, position: row + 3 });
  if (row < rows - 1) return draw(row);
  for (let seed = 1; ; seed++) {
    if (drawToken(logits, draw(seed)).margin > 1e-7) return draw(seed);
  }
}

async function outputHead(report: Report, dtype: "bf16" | "fp8", rows: number): Promise<void> {
  const known = await bounds();
  const size = { dtype, rows: VOCABULARY, columns: HIDDEN };
  const bytes = storedBytes({ ...known.layout, ...size });
  const name = `${rows}, ${dtype} head`;
  if (bytes > device.limits.maxStorageBufferBindingSize) {
    report.line([name, "", `needs ${(bytes / 2 ** 20).toFixed(0)} MiB in a binding`]);
    return;
  }
  const { weight, rows: values, destroy } = await makeWeight(size, known.layout);
  const x = await makeTensor("hidden", rows * HIDDEN, { kind: WORDS.f32 });
  const logits = allocateTensor(device, rows * VOCABULARY * 4, "logits");
  const ids = allocateTensor(device, rows * 4, "ids");
  const input = { x: x.tensor, xStride: HIDDEN, weight };
  const bindHead = (recorder: Recorder) =>
    linear(recorder, { ...input, out: logits, outStride: VOCABULARY });
  const last = Float64Array.from({ length: HIDDEN }, (_, k) => x.float((rows - 1) * HIDDEN + k));
  const head: Candidate = {
    ...{ name: "logits", numericClass: "head" },
    bind(recorder) {
      const launch = bindHead(recorder);
      return [() => launch(rows)];
    },
  };
  const headBest: Candidate = {
    ...{ name: "logits, argmax", numericClass: "best" },
    bind(recorder) {
      const launch = bindHead(recorder);
      const choose = argmax(recorder, { logits, ids, vocabulary: VOCABULARY });
      return [
        () => {
          launch(rows);
          choose(rows);
        },
      ];
    },
  };
  const findsBest: Candidate = {
    ...{ name: "finds the best itself", numericClass: "best" },
    bind(recorder, allocate) {
      const tileStride = VOCABULARY / 2;
      const tiles = allocate(rows * VOCABULARY * 4, "tiles");
      const launch = linearBest(recorder, { ...input, outColumn: 0, tiles, tileStride });
      const choose = bestTile(recorder, { tiles, stride: tileStride, ids });
      return [() => choose(rows, launch(rows, 0))];
    },
  };
  const work = { bytes, flops: 2 * rows * VOCABULARY * HIDDEN };
  const cells = (form: string, seconds: number) => [name, form, ...workCells(seconds, work, known)];
  let wanted = -1;
  await compare(report, [head], {
    out: logits,
    async check() {
      const got = await floatsOf(logits, (rows - 1) * VOCABULARY, VOCABULARY);
      const places = [0, 1, VOCABULARY >> 1, VOCABULARY - 9, VOCABULARY - 1];
      expectNear(
        places.map((place) => got[place]!),
        places.map((place) => values.dot(place, last)),
        { tolerance: TOLERANCE, where: name },
      );
      expect(got.some(Number.isNaN)).toBe(false);
      wanted = best(got);
    },
    cells,
  });
  await compare(report, [headBest, findsBest], {
    out: ids,
    check: async () => expect((await wordsOf(ids, rows - 1, 1))[0]).toBe(wanted),
    cells,
  });
  destroy();
  for (const { buffer } of [x.tensor, logits, ids]) buffer.destroy();
}

export function samplingSection(): void {
  describe("vocabulary", () => {
    const title = `Output head and sampling, ${VOCABULARY} tokens, hidden size ${HIDDEN}`;
    const report = new Report(title, ["rows", "what", ...WORK_HEADER]);
    afterAll(() => report.finish());
    for (const rows of ROWS) {
      test(`sampling of ${rows} rows`, () => sampling(report, rows), TIMEOUT);
      for (const dtype of ["bf16", "fp8"] as const) {
        test(`${dtype} head, ${rows} rows`, () => outputHead(report, dtype, rows), TIMEOUT);
      }
    }
  });
}
