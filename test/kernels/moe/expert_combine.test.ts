/** What cannot be combined in one launch is refused before anything is bound. */
import { expect, test } from "vitest";
import { expertCombine } from "../../../kernels/moe/experts/expert_combine.ts";
import { normedShape } from "../../../kernels/norm/normed_rows.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";

/** A buffer of its own: the test does not look inside. */
const tensor = (offset = 0): Tensor => ({ buffer: {} as GPUBuffer, offset, size: 256 });
const slab = { firstExpert: 0, expertCount: 2, words: tensor() };

function bind(slabs: readonly (typeof slab)[], experts: Tensor, slotWeights: Tensor) {
  const sizes = { rows: 32, columns: 128, lanes: 8, expertCount: 2 };
  const normed = { ...normedShape(32, false), tensor: tensor() };
  return expertCombine({} as Recorder, {
    ...{ x: tensor(), xStride: 128, slots: 2, experts, slotWeights },
    weights: { dtype: "bf16", ...sizes, slabs },
    residual: { hidden: tensor(), stride: 32, weight: tensor(), normed },
  });
}

test("experts in several slabs are refused", () => {
  const [experts, behind] = [tensor(), tensor(256)];
  const slotWeights = { ...behind, buffer: experts.buffer };
  expect(() => bind([slab, slab], experts, slotWeights)).toThrow("experts in several slabs");
});

test("weights of slots that are not behind the pairs are refused", () => {
  const experts = tensor(256);
  const before = { ...experts, offset: 0 };
  for (const slotWeights of [tensor(512), before]) {
    expect(() => bind([slab], experts, slotWeights)).toThrow("not behind the pairs");
  }
});
