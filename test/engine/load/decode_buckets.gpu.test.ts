import { afterEach, expect, test, vi } from "vitest";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { EMBEDDED_MODEL } from "../../support/engines/engine.ts";
import { ModelSession } from "../../support/engines/model_session.ts";

/** Sequences of many lengths, the longest over the end of a split while it decodes. */
const LENGTHS = smallestCaseOnly ? [3, 9, 5] : [3, 40, 255, 17, 9];
const STEPS = 3;

afterEach(() => {
  vi.restoreAllMocks();
});

/** The logits of some decode steps of one sequence, then of two, and so on. */
async function decodeAll(decodeBuckets: readonly number[] | false) {
  const session = await ModelSession.open(folderSource(EMBEDDED_MODEL), {
    decodeBuckets,
    maxRunningRequests: 8,
  });
  const launch = vi.spyOn(Recorder.prototype, "launch");
  const replay = vi.spyOn(Recorder.prototype, "replay");
  const sequences = [];
  const logits: Float32Array[][] = [];
  const grids: number[][] = [];
  let kept = 0;
  for (const [i, length] of LENGTHS.entries()) {
    const sequence = session.sequence(
      Array.from({ length }, (_, j) => 3 + ((i * 97 + j * 31) % 2000)),
    );
    await session.prefill(sequence);
    sequences.push(sequence);
    for (let step = 0; step < STEPS; step++) {
      for (const [s, one] of sequences.entries()) one.tokens.push(5 + s + step);
      launch.mockClear();
      replay.mockClear();
      logits.push(await session.decode(sequences));
      grids.push(launch.mock.calls.map(([{ grid }]) => grid[1]));
      if (replay.mock.calls.length > 0) kept += 1;
    }
  }
  session.close();
  vi.restoreAllMocks();
  return { logits, kept, grids };
}

test("a step filled up to a bucket and replayed has the bits of one recorded as it comes", async () => {
  const plain = await decodeAll(false);
  const padded = await decodeAll([2, 7]);
  expect(padded.logits).toEqual(plain.logits);
  expect(plain.kept).toBe(0);
  // The first step of each bucket is recorded, and one more where the longest needs another split.
  expect(padded.kept).toBeGreaterThanOrEqual(padded.logits.length - 5);
  expect(padded.kept).toBeLessThanOrEqual(padded.logits.length - 2);
  // One sequence alone runs the launches of two.
  expect(padded.grids[1]).not.toEqual(plain.grids[1]);
  expect(padded.grids[1]).toEqual(plain.grids[STEPS + 1]);
});

test("batches beyond the largest bucket are recorded as they come", async () => {
  const { logits, kept, grids } = await decodeAll([1]);
  const plain = await decodeAll(false);
  expect(logits).toEqual(plain.logits);
  expect(kept).toBe(STEPS - 1);
  expect(grids).toEqual(plain.grids);
});
