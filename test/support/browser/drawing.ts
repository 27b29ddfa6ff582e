/**
 * Draws many tokens with the sampling kernel and compares them with an exact distribution.
 *
 * @module
 */
import { expect } from "vitest";
import { DRAW_WORDS, type Draw, sample, writeDraw } from "../../../kernels/sampling/sample.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { whole } from "../../../src/gpu/tensor.ts";
import { device, download, smallestCaseOnly, upload } from "../devices/gpu.ts";
import { chiSquare, pValue } from "../reference/chi_square.ts";

/** Fewer on the slow driver, where a barrier costs half a millisecond. */
export const DRAWS = smallestCaseOnly ? 500 : 20_000;

export type Rule = Omit<Draw, "seed" | "position">;

/** One launch over all rows. */
export async function draw(
  rows: readonly Float32Array[],
  draws: readonly Draw[],
): Promise<Uint32Array> {
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
export async function histogram(row: Float32Array, rule: Rule): Promise<Float64Array> {
  const rows = Array.from({ length: DRAWS }, () => row);
  const draws = rows.map((_, i) => ({ ...rule, seed: i % 100, position: Math.floor(i / 100) }));
  const counts = new Float64Array(row.length);
  for (const id of await draw(rows, draws)) counts[id]! += 1;
  return counts;
}

/** Draws of the right distribution look less likely than this once in a million times. */
const UNLIKELY = 1e-6;

export function expectDistribution(counts: Float64Array, probabilities: ArrayLike<number>) {
  counts.forEach((seen, id) => {
    if (probabilities[id] === 0) expect(seen, `token ${id} is cut`).toBe(0);
  });
  expect(pValue(chiSquare(counts, probabilities))).toBeGreaterThan(UNLIKELY);
}
