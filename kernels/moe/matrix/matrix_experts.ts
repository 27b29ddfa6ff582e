/**
 * The experts of prompt rows in numeric class mma128: sorted pairs, whatever their number, in tiles
 * that are multiplied by matrices.
 *
 * @module
 */

import type { DeviceMemory } from "../../../src/gpu/memory.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import type { GatedActivation } from "../../linear/gated_activation.ts";
import { type MatrixTiles, TILE_ROWS } from "../../linear/matrix/matrix_tiles.ts";
import type { RecordRange } from "../../linear/weights/launch_form.ts";
import { type PlacedExperts, segments } from "../../linear/weights/layout.ts";
import { type ActivationRounding, quantize } from "../../norm/quantize.ts";
import { TileGrids } from "../experts/expert_tiles.ts";
import { sortPairs } from "../route/sort.ts";
import { matrixExpertDown } from "./matrix_expert_down.ts";
import { matrixExpertGateUp } from "./matrix_expert_gate_up.ts";
import { pairTile } from "./matrix_pairs.ts";

export interface MatrixExperts {
  readonly memory: DeviceMemory;
  readonly label: string;
  readonly tiles: MatrixTiles;
  readonly gateUp: PlacedExperts;
  readonly down: PlacedExperts;
  /** Experts that rows can choose, in a slab or not. */
  readonly expertCount: number;
  readonly slots: number;
  /** Pairs of an expert in a step of so many rows, on average. */
  readonly pairsOfExpert: (rows: number) => number;
  readonly maxRows: number;
  /** `[maxRows, xStride]` f32 */
  readonly x: Tensor;
  readonly xStride: number;
  /** Outputs of the first half. */
  readonly intermediate: number;
  readonly activation: GatedActivation | undefined;
  /** How the inputs of the second half are rounded. */
  readonly rounding: ActivationRounding | undefined;
  /**
   * Working memory of the layer's experts: no other launch has anything in it when these are
   * recorded.
   */
  readonly scratch: {
    readonly experts: Tensor;
    readonly sortedPairs: Tensor;
    readonly sortScratch: Tensor;
    readonly tiles: Tensor;
    readonly intermediate: Tensor;
    readonly intermediateStride: number;
    readonly output: Tensor;
  };
  readonly outStride: number;
}

/** Binds the launches of a layer. */
export function matrixExperts(recorder: Recorder, options: MatrixExperts): RecordRange {
  const { memory, label, tiles, slots, expertCount, scratch, intermediate } = options;
  const { rounding, activation, pairsOfExpert, maxRows } = options;
  // Of each half, one for every size of tiles.
  const grids = new TileGrids(memory, 2 * TILE_ROWS.length, `${label} grids of matrices`);
  const arrange = sortPairs(recorder, {
    experts: scratch.experts,
    sortedPairs: scratch.sortedPairs,
    scratch: scratch.sortScratch,
    tiles: scratch.tiles,
    grids: grids.tensor,
    expertCount,
  });
  const lists = {
    slots,
    sortedPairs: scratch.sortedPairs,
    tileList: scratch.tiles,
    tiles,
    grids,
    mostPairs: pairsOfExpert(maxRows),
  };
  const inner = { x: scratch.intermediate, xStride: scratch.intermediateStride };
  const first = matrixExpertGateUp(recorder, {
    ...lists,
    x: options.x,
    xStride: options.xStride,
    weights: options.gateUp,
    intermediate,
    ...(activation && { activation }),
    out: inner.x,
    outStride: inner.xStride,
  });
  const round =
    rounding &&
    quantize(recorder, { x: inner.x, cols: intermediate, stride: inner.xStride, rounding });
  const second = matrixExpertDown(recorder, {
    ...lists,
    ...inner,
    weights: options.down,
    segments: segments(intermediate),
    out: scratch.output,
    outStride: options.outStride,
  });
  return (from, end) => {
    const rows = end - from;
    const size = pairTile(pairsOfExpert(rows));
    arrange(rows * slots, size, from * slots);
    first(rows, size);
    round?.(rows * slots, from * slots);
    second(rows, size);
  };
}
