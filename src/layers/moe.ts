/**
 * Mixture of experts: route, dispatch each row to its experts, run them, leave the results in slot
 * order for the next norm to combine, or add them to the residual stream.
 *
 * Shared experts are further slots of weight 1 behind the routed ones. Where they cannot be cut
 * into experts of their own (their blocks overlap, their dtype is another) they stay one wide MLP
 * that fills one slot. `placement` maps a logical expert to the physical slot whose weights it runs
 * on, and `hits` counts choices.
 *
 * Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 2.1.2.
 *
 * @module
 */
import { rowsOf } from "../../kernels/linear/launch_form.ts";
import { type LinearWeight, segments } from "../../kernels/linear/layout.ts";
import { linear } from "../../kernels/linear/linear.ts";
import { type MatrixTiles, tilesOf } from "../../kernels/linear/matrix_tiles.ts";
import { expertCombine } from "../../kernels/moe/expert_combine.ts";
import { expertDown } from "../../kernels/moe/expert_down.ts";
import { expertGateUp } from "../../kernels/moe/expert_gate_up.ts";
import {
  PAIR_TILE,
  TileGrids,
  type TileSize,
  tileForms,
  tileSizes,
} from "../../kernels/moe/expert_tiles.ts";
import type { RoutingRule } from "../../kernels/moe/route.ts";
import { type TileCombineOptions, tileCombine } from "../../kernels/moe/tile_combine.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Recorder } from "../gpu/recorder.ts";
import type { Tensor } from "../gpu/tensor.ts";
import { formOf } from "../gpu/tuning.ts";
import type { Step, StepRows } from "./batch.ts";
import { type AddsRows, type BlockRows, isFused, rowsFor, takesRounded } from "./block_rows.ts";
import { Experts } from "./experts.ts";
import type { LayerContext } from "./layer_context.ts";
import { allocateMatrix } from "./matrix_place.ts";
import { matrixSpecs } from "./matrix_specs.ts";
import type { MoeScratch, MoeShape } from "./moe_scratch.ts";
import { type LinearInput, roundedRows } from "./rounded_rows.ts";
import { bindRouting, type RecordRouting } from "./routing.ts";
import type { SlotExchange } from "./slot_exchange.ts";
import { type VectorWeight, vectorWeight } from "./vector_weight.ts";

const GROUPINGS = { noaux_tc: "twoBest", group_limited_greedy: "best", greedy: "none" } as const;

function routingRule(shape: MoeShape): RoutingRule {
  const { routed, perToken, scoring, selection, groups, groupsKept } = shape;
  return {
    experts: routed,
    topK: perToken,
    scoring,
    grouping: groups === 1 ? "none" : GROUPINGS[selection],
    groups,
    keptGroups: groupsKept,
    normalize: shape.normalize,
    scaling: shape.scalingFactor,
  };
}

/** The result is the scratch's `output`, to be combined, but in steps that `compile` names. */
export interface MoeBinding extends Omit<BlockRows, "output"> {
  readonly scratch: MoeScratch;
  /** Where slots meet those of other ranks; absent on one rank. */
  readonly exchange?: SlotExchange | undefined;
}

/** Absent where slots are always combined later, by the next norm. */
interface Combine {
  /** Whether there is no step in which they are. */
  readonly isLasting?: boolean;
  readonly byPair?: (rows: number) => void;
  readonly byTile?: ((rows: number) => void) | undefined;
}

/** Pairs of an expert, on average, up to which tiles of few pairs do. */
const MOST_COMBINED = 16;

export class Moe {
  readonly specs: readonly WeightSpec[];
  /** Slots of a row: routed choices, then shared experts. */
  readonly slots: number;
  readonly #name: string;
  readonly #shape: MoeShape;
  readonly #memory: DeviceMemory;
  readonly #router: LinearWeight;
  readonly #bias: VectorWeight | undefined;
  readonly #experts: Experts;
  /** `[routed]` u32: the physical expert of each logical one */
  readonly #placement: Tensor;
  /** `[routed]` u32: how often each logical expert was chosen */
  readonly #hits: Tensor;

  /** @param name Prefix of its tensors, "model.layers.3.mlp". */
  constructor(context: LayerContext, shape: MoeShape, name: string) {
    const { memory, layout, formats } = context;
    const { hiddenSize, routed, perToken, selection } = shape;
    const { name: routerName, bias } = shape.router ?? { name: "gate", bias: false };
    const routerModule = `${name}.${routerName}`;
    const router = allocateMatrix(memory, routerModule, {
      format: formats.published(routerModule),
      columns: hiddenSize,
      parts: [routed],
      layout,
      bias,
    });
    this.#name = name;
    this.#shape = shape;
    this.#memory = memory;
    this.#router = router.weight;
    this.#bias =
      selection === "noaux_tc"
        ? vectorWeight(memory, `${routerModule}.e_score_correction_bias`, routed)
        : undefined;
    this.#experts = new Experts(context, shape, name);
    this.slots = perToken + this.#experts.sharedSlots;
    this.#placement = memory.allocate("weights", routed * 4, `${name} placement`);
    this.#hits = memory.allocate("activations", routed * 4, `${name} hits`);
    this.specs = [
      ...matrixSpecs(router.place, 0, { name: routerModule, split: "none" }),
      ...(this.#bias === undefined ? [] : [this.#bias.spec]),
      ...this.#experts.specs,
    ];
  }

  /**
   * Adds four launches, five with many rows; one more where a rounding has a launch of its own.
   * With several ranks the slots are exchanged.
   *
   * @returns In which steps slots are combined and added to the residual stream already.
   */
  compile(plan: Plan<Step>, binding: MoeBinding): AddsRows {
    const { recorder } = plan;
    const { scratch, normed, hiddenStride } = binding;
    const { routed, perToken } = this.#shape;
    const { slots } = this;
    const { wide } = this.#experts;
    this.#memory.write(
      this.#placement,
      0,
      Uint32Array.from({ length: routed }, (_, i) => i),
    );
    const logits = linear(recorder, {
      ...normed,
      weight: this.#router,
      out: scratch.routerLogits,
      outStride: scratch.logitsStride,
    });
    plan.add((step) => logits(step.rows, step.decodeRows));
    const isAdded = this.#compileExperts(plan, binding);
    // Every rank has it whole.
    wide?.compile(plan, {
      ...binding,
      residual: undefined,
      sums: undefined,
      intermediate: scratch.sharedIntermediate,
      intermediateStride: scratch.sharedStride,
      output: scratch.output,
      outputStride: slots * hiddenStride,
      outputColumn: perToken * hiddenStride,
    });
    binding.exchange?.compile(plan, this.#name, slots);
    return isAdded;
  }

  /** @param grids Of launches over tiles; without them pairs are never sorted. */
  #bindRouting(recorder: Recorder, { scratch }: MoeBinding, grids?: TileGrids): RecordRouting {
    const { routed, perToken } = this.#shape;
    const { slots } = this;
    const { sortedPairs, tiles } = scratch;
    const expertCount = this.#expertCount;
    return bindRouting(recorder, {
      logits: scratch.routerLogits,
      stride: scratch.logitsStride,
      bias: this.#bias?.tensor,
      placement: this.#placement,
      hits: this.#hits,
      chosen: scratch.experts,
      weights: scratch.weights,
      // The slot of a wide MLP has an expert number too, which no slab holds.
      shared: { first: routed, count: slots - perToken },
      ...routingRule(this.#shape),
      slots,
      sorted: grids && {
        ...{ expertCount, sortedPairs, tiles, scratch: scratch.sortScratch, grids: grids.tensor },
      },
    });
  }

  /** The experts of a step's rows, of which matrices multiply the last ones or none, or all. */
  #compileExperts(plan: Plan<Step>, binding: MoeBinding): AddsRows {
    const { recorder } = plan;
    const { scratch, hiddenStride } = binding;
    const { intermediate, activation } = this.#shape;
    const { slots } = this;
    const { gateUp, down } = this.#experts;
    const rounding = takesRounded(down.weights) ? binding.rounding : undefined;
    const input = rowsFor(binding, gateUp.weights);
    const tiles = this.#matrixTiles(binding);
    const prompts = tiles?.kernels.experts(recorder, {
      ...{ memory: this.#memory, label: this.#name, tiles, ...input, scratch, slots },
      ...{ gateUp: gateUp.weights, down: down.weights, expertCount: this.#expertCount },
      ...{ intermediate, activation, rounding, outStride: hiddenStride },
      pairsOfExpert: (rows) => this.#pairsOfExpert(rows),
      maxRows: rowsOf(scratch.experts, slots),
    });
    if (tiles?.decode === true) {
      const find = this.#bindRouting(recorder, binding);
      plan.add(({ rows }) => {
        find(rows);
        if (rows > 0) prompts!(0, rows);
      });
      return () => false;
    }
    const intermediates = { x: scratch.intermediate, xStride: scratch.intermediateStride };
    const rounded =
      rounding === undefined || isFused(rounding)
        ? undefined
        : roundedRows(recorder, {
            ...{
              x: intermediates.x,
              stride: intermediates.xStride,
              columns: intermediate,
              rounding,
            },
            codes: binding.codes?.input("expert intermediates", intermediate, slots),
          });
    const innerInput: LinearInput = rounded?.input ?? intermediates;
    const sizes = tileSizes(
      [
        { weights: gateUp.weights, stages: input.coded !== true },
        { weights: down.weights, stages: innerInput.coded !== true },
      ],
      this.#pairsOfExpert(rowsOf(scratch.experts, slots)),
    );
    const grids = new TileGrids(this.#memory, 2 * sizes.length, `${this.#name} grids`);
    const find = this.#bindRouting(recorder, binding, grids);
    const lists = {
      ...{ slots, experts: scratch.experts, sortedPairs: scratch.sortedPairs },
      ...{ tiles: scratch.tiles, tileSizes: sizes.map(({ tokens }) => tokens), grids },
    };
    const first = expertGateUp(recorder, {
      ...input,
      ...lists,
      weights: gateUp.weights,
      intermediate,
      ...(activation && { activation }),
      out: scratch.intermediate,
      outStride: scratch.intermediateStride,
      quantize: isFused(rounding),
    });
    const outputs = { out: scratch.output, outStride: hiddenStride };
    const halves = { ...innerInput, weights: down.weights, segments: segments(intermediate) };
    const stages = sizes.some(({ tokens }) => tokens !== PAIR_TILE);
    const combined = this.#bindCombine(recorder, binding, { ...halves, stages });
    const second = combined.isLasting
      ? undefined
      : expertDown(recorder, {
          ...{ ...halves, ...lists, ...outputs },
          unsorted: combined.byPair === undefined || down.weights.matrix !== undefined,
        });
    const combines = (step: StepRows) => this.#combines(combined, step);
    plan.add((step) => {
      const rows = this.#ownRows(binding, step);
      const combine = combines(step);
      const tileSize =
        combine !== undefined && this.#isSorted(rows) ? PAIR_TILE : this.#tileSize(rows, sizes);
      find(step.rows, rows, tileSize);
      if (rows > 0) {
        first(rows, tileSize);
        rounded?.round(rows * slots);
        if (combine === undefined) second!(rows, tileSize);
        else combine(rows);
      }
      if (rows < step.rows) prompts!(rows, step.rows);
    });
    return (step) => combines(step) !== undefined;
  }

  /** Physical experts, shared ones too. */
  get #expertCount(): number {
    const { routed, perToken } = this.#shape;
    return routed + this.slots - perToken;
  }

  /** On average, in a step of so many rows. */
  #pairsOfExpert(rows: number): number {
    return (rows * this.slots) / this.#expertCount;
  }

  /** Sorting pays once an expert serves several rows; the bits are the same either way. */
  #isSorted(rows: number): boolean {
    return this.#pairsOfExpert(rows) > 2;
  }

  /** Pairs of a tile in a step of so many rows; undefined where pairs are not sorted. */
  #tileSize(rows: number, sizes: readonly TileSize[]): number | undefined {
    if (!this.#isSorted(rows)) return undefined;
    return formOf(sizes, this.#pairsOfExpert(rows)).tokens;
  }

  /** The tiles of both halves; without them prompt rows run as the others do. */
  #matrixTiles({ codes }: MoeBinding): MatrixTiles | undefined {
    const { gateUp, down } = this.#experts;
    if (codes !== undefined) return undefined;
    return tilesOf(gateUp.weights) && tilesOf(down.weights);
  }

  /** The first rows of a step, whose experts do not run by matrices. */
  #ownRows(binding: MoeBinding, { rows, decodeRows }: StepRows): number {
    const tiles = this.#matrixTiles(binding);
    if (tiles === undefined) return rows;
    return tiles.decode ? 0 : decodeRows;
  }

  /** Kernels that add the slots of rows to the residual stream themselves, where there may be any. */
  #bindCombine(
    recorder: Recorder,
    { residual, exchange, codes, scratch, hiddenStride }: MoeBinding,
    {
      stages,
      ...halves
    }: Pick<TileCombineOptions, "x" | "xStride" | "coded" | "weights" | "segments"> & {
      /** Whether there are tiles of more pairs than the kernel takes at once. */
      readonly stages: boolean;
    },
  ): Combine {
    const { down, wide } = this.#experts;
    const apart = down.weights.slabs.length > 1 || wide !== undefined || exchange !== undefined;
    if (residual === undefined || codes !== undefined || apart) return {};
    const { slots } = this;
    const { experts, sortedPairs, tiles, weights: slotWeights, output } = scratch;
    const both = { ...halves, slots, slotWeights, residual };
    const outputs = { outputs: output, outputsStride: hiddenStride };
    const byTile = tileCombine(recorder, { ...both, ...outputs, sortedPairs, tiles });
    // Where invocations share columns, few workgroups have too little to do with all tiles of prompts.
    const [tile] = tileForms(down.weights, { tileSizes: [PAIR_TILE] }).byTile;
    const isAlone = !stages && tile!.split === 1 && down.weights.matrix === undefined;
    return {
      isLasting: byTile !== undefined && isAlone,
      byPair: expertCombine(recorder, { ...both, experts }),
      byTile,
    };
  }

  /** The one for such a step; undefined where its slots are combined later. */
  #combines(
    { isLasting, byPair, byTile }: Combine,
    step: StepRows,
  ): ((rows: number) => void) | undefined {
    const { rows, decodeRows } = step;
    const { down } = this.#experts;
    // Matrices want prompt rows scaled, those after experts in f32 too, which they do not multiply.
    if (down.weights.matrix !== undefined && decodeRows < rows) return;
    if (!this.#isSorted(rows)) return byPair;
    if (isLasting) return byTile;
    // One workgroup has all tiles of its outputs: with those of prompts there are more to share out.
    const isShort = this.#pairsOfExpert(rows) <= MOST_COMBINED;
    return decodeRows === rows && isShort ? byTile : undefined;
  }
}
