/**
 * The two halves of a layer's experts as they are bound: over pairs of rows and experts, over tiles
 * of sorted pairs, by matrices.
 *
 * @module
 */
import { type MatrixClass, tilesOf } from "../../../kernels/linear/matrix_class.ts";
import { type RecordRange, rowsOf } from "../../../kernels/linear/weights/launch_form.ts";
import { segments } from "../../../kernels/linear/weights/layout.ts";
import { expertCombine } from "../../../kernels/moe/experts/expert_combine.ts";
import { expertDown } from "../../../kernels/moe/experts/expert_down.ts";
import { expertGateUp } from "../../../kernels/moe/experts/expert_gate_up.ts";
import {
  pairTile,
  TileGrids,
  type TileSize,
  tileForms,
  tileSizes,
} from "../../../kernels/moe/experts/expert_tiles.ts";
import { tileCombine } from "../../../kernels/moe/experts/tile_combine.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import { type BlockRows, inputRounding, matrixRows, rowsFor } from "../block_rows.ts";
import {
  type MoeCombining,
  type MoeSlots,
  mayCombine,
  pairsOfExpert,
} from "../launches/moe_launches.ts";
import type { SlotExchange } from "../ranks/slot_exchange.ts";
import {
  type InnerRows,
  type InputRounding,
  innerInput,
  type LinearInput,
} from "../rounded_rows.ts";
import type { Experts } from "./experts.ts";
import type { MoeScratch, MoeShape } from "./moe_scratch.ts";

/** The result is the scratch's `output`, to be combined, but in steps that `Moe.compile` names. */
export interface MoeBinding extends Omit<BlockRows, "output"> {
  readonly scratch: MoeScratch;
  /** Where slots meet those of other ranks; absent on one rank. */
  readonly exchange?: SlotExchange | undefined;
  /** Which of a step's micro-batches it is for. Default: the first, or all rows. */
  readonly microBatch?: 0 | 1;
}

/** What the launches of a layer's experts are bound with beside a step's tensors. */
export interface MoeParts extends MoeSlots {
  readonly name: string;
  readonly memory: DeviceMemory;
  readonly shape: MoeShape;
  readonly experts: Experts;
}

/** Records launches over the first rows: over tiles where it is told their size. */
export type RecordPairs = (rows: number, tileSize?: number) => void;

/** Kernels that add the slots of rows to the residual stream themselves. */
export interface CombineLaunches {
  readonly combining: MoeCombining;
  readonly byPair?: (rows: number) => void;
  readonly byTile?: ((rows: number) => void) | undefined;
}

export class ExpertHalves {
  /** The tiles of both halves; without them prompt rows run as generated ones do. */
  readonly matrix: MatrixClass | undefined;
  readonly rounding: InputRounding;
  /** Between both halves: rows of pairs, and what the second multiplies. */
  readonly inner: InnerRows;
  readonly innerInput: LinearInput;
  /** Sizes of tiles that both have forms for, and the grids over them; none where all is matrices. */
  readonly sizes: readonly TileSize[];
  readonly grids: TileGrids | undefined;
  readonly #recorder: Recorder;
  readonly #parts: MoeParts;
  readonly #binding: MoeBinding;
  readonly #input: LinearInput;

  constructor(recorder: Recorder, parts: MoeParts, binding: MoeBinding) {
    const { gateUp, down } = parts.experts;
    const { scratch, codes } = binding;
    this.#recorder = recorder;
    this.#parts = parts;
    this.#binding = binding;
    this.matrix =
      codes === undefined ? tilesOf(gateUp.weights) && tilesOf(down.weights) : undefined;
    this.rounding = inputRounding(binding.rounding, down.weights);
    this.inner = {
      x: scratch.intermediate,
      xStride: scratch.intermediateStride,
      columns: parts.shape.intermediate,
      label: "expert intermediates",
      perRow: parts.slots,
    };
    this.#input = rowsFor(binding, gateUp.weights);
    this.innerInput = innerInput(this.inner, this.rounding, codes);
    this.sizes = matrixRows(this.matrix) === "all" ? [] : this.#tileSizes();
    const count = 2 * this.sizes.length;
    this.grids =
      count === 0 ? undefined : new TileGrids(parts.memory, count, `${parts.name} grids`);
  }

  #tileSizes(): readonly TileSize[] {
    const { gateUp, down } = this.#parts.experts;
    const maxRows = rowsOf(this.#binding.scratch.experts, this.#parts.slots);
    return tileSizes(
      [
        { weights: gateUp.weights, stages: this.#input.coded !== true },
        { weights: down.weights, stages: this.innerInput.coded !== true },
      ],
      pairsOfExpert(this.#parts, maxRows),
    );
  }

  /** Where both halves find the pairs of experts. */
  get #lists() {
    const { experts, sortedPairs, tiles } = this.#binding.scratch;
    const sizes = this.sizes.map(({ tokens }) => tokens);
    return {
      slots: this.#parts.slots,
      experts,
      sortedPairs,
      tiles,
      tileSizes: sizes,
      grids: this.grids!,
    };
  }

  /** What the second half multiplies, and how it adds up. */
  get #second() {
    const { experts, shape } = this.#parts;
    const { weights } = experts.down;
    return { ...this.innerInput, weights, segments: segments(shape.intermediate) };
  }

  bindGateUp(): RecordPairs {
    const { intermediate, activation } = this.#parts.shape;
    return expertGateUp(this.#recorder, {
      ...this.#input,
      ...this.#lists,
      weights: this.#parts.experts.gateUp.weights,
      intermediate,
      ...(activation && { activation }),
      out: this.inner.x,
      outStride: this.inner.xStride,
      quantize: this.rounding === "inKernel",
    });
  }

  /** @param unsorted Whether there are steps in which it runs over pairs that are not sorted. */
  bindDown(unsorted: boolean): RecordPairs {
    return expertDown(this.#recorder, {
      ...this.#second,
      ...this.#lists,
      out: this.#binding.scratch.output,
      outStride: this.#binding.hiddenStride,
      unsorted,
    });
  }

  /** Of the rows behind a step's own ones. */
  bindMatrices(): RecordRange {
    const { name, memory, slots, expertCount, experts, shape } = this.#parts;
    const { scratch, rounding, hiddenStride } = this.#binding;
    const tiles = this.matrix!;
    return tiles.kernels.experts(this.#recorder, {
      memory,
      label: name,
      tiles,
      ...this.#input,
      scratch,
      slots,
      gateUp: experts.gateUp.weights,
      down: experts.down.weights,
      expertCount,
      intermediate: shape.intermediate,
      activation: shape.activation,
      rounding: this.rounding === "none" ? undefined : rounding,
      outStride: hiddenStride,
      pairsOfExpert: (rows) => pairsOfExpert(this.#parts, rows),
      maxRows: rowsOf(scratch.experts, slots),
    });
  }

  bindCombine(): CombineLaunches {
    const { slots, experts } = this.#parts;
    const { residual, scratch, exchange, codes, hiddenStride } = this.#binding;
    const { weights } = experts.down;
    const isWhole = weights.slabs.length === 1 && experts.wide === undefined;
    const isBound = mayCombine({
      mayAdd: residual !== undefined,
      isWhole: isWhole && exchange === undefined,
      isCoded: codes !== undefined,
      matrices: matrixRows(this.matrix),
    });
    const [tile] = tileForms(weights, { tileSizes: [pairTile(weights)] }).byTile;
    const facts = {
      stages: this.sizes.length > 1,
      sharesColumns: tile!.split > 1,
      hasMatrices: weights.matrix !== undefined,
    };
    if (!isBound) return { combining: { ...facts, byPair: false, byTile: false } };
    const { experts: chosen, sortedPairs, tiles, weights: slotWeights, output } = scratch;
    const both = { ...this.#second, slots, slotWeights, residual: residual! };
    const outputs = { outputs: output, outputsStride: hiddenStride };
    const byTile = tileCombine(this.#recorder, { ...both, ...outputs, sortedPairs, tiles });
    const byPair = expertCombine(this.#recorder, { ...both, experts: chosen });
    return { combining: { ...facts, byPair: true, byTile: byTile !== undefined }, byPair, byTile };
  }
}
