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
import type { GatedActivation } from "../../kernels/linear/gated_activation.ts";
import { rowsOf } from "../../kernels/linear/launch_form.ts";
import { type LinearWeight, segments } from "../../kernels/linear/layout.ts";
import { linear } from "../../kernels/linear/linear.ts";
import { type MatrixTiles, tilesOf } from "../../kernels/linear/matrix_tiles.ts";
import { expertCombine } from "../../kernels/moe/expert_combine.ts";
import { expertDown } from "../../kernels/moe/expert_down.ts";
import { expertGateUp } from "../../kernels/moe/expert_gate_up.ts";
import { PAIR_TILE, TileGrids, type TileSize, tileSizes } from "../../kernels/moe/expert_tiles.ts";
import { type RoutingRule, route } from "../../kernels/moe/route.ts";
import { sortPairs, tileLimit } from "../../kernels/moe/sort.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Recorder } from "../gpu/recorder.ts";
import type { Tensor } from "../gpu/tensor.ts";
import { formOf } from "../gpu/tuning.ts";
import type { Step, StepRows } from "./batch.ts";
import { type BlockRows, isFused, rowsFor, takesRounded } from "./block_rows.ts";
import { Experts } from "./experts.ts";
import type { LayerContext } from "./layer_context.ts";
import { allocateMatrix } from "./matrix_place.ts";
import { matrixSpecs } from "./matrix_specs.ts";
import { type LinearInput, roundedRows } from "./rounded_rows.ts";
import type { SlotExchange } from "./slot_exchange.ts";
import { type VectorWeight, vectorWeight } from "./vector_weight.ts";

export interface MoeShape {
  readonly hiddenSize: number;
  /** Experts that rows are routed to, on all ranks together, and those that every row uses. */
  readonly routed: number;
  readonly shared: number;
  readonly perToken: number;
  readonly intermediate: number;
  readonly scoring: "sigmoid" | "softmax";
  readonly selection: "noaux_tc" | "group_limited_greedy" | "greedy";
  readonly groups: number;
  readonly groupsKept: number;
  readonly normalize: boolean;
  readonly scalingFactor: number;
  /** Default: a "gate" without a bias, experts each with tensors of their own, gated by SiLU. */
  readonly router?: { readonly name: string; readonly bias: boolean };
  /** All experts in one tensor of MXFP4 codes, with biases. */
  readonly stackedMxfp4?: boolean;
  readonly activation?: GatedActivation;
}

export interface MoeScratch {
  /** `[maxRows, logitsStride]` */
  readonly routerLogits: Tensor;
  readonly logitsStride: number;
  /** `[maxRows, slots]` u32 physical experts and, behind them in the same buffer, f32 weights */
  readonly experts: Tensor;
  readonly weights: Tensor;
  /** Pairs by expert, and the tiles they are cut in */
  readonly sortedPairs: Tensor;
  readonly sortScratch: Tensor;
  readonly tiles: Tensor;
  /** `[maxRows * slots, intermediateStride]` */
  readonly intermediate: Tensor;
  readonly intermediateStride: number;
  /** `[maxRows * slots, hiddenStride]` */
  readonly output: Tensor;
  /** `[maxRows, sharedStride]`: of shared experts that are one MLP */
  readonly sharedIntermediate: Tensor;
  readonly sharedStride: number;
}

/** A binding starts at a multiple of 256 bytes. */
const BINDING_WORDS = 64;

export function allocateMoeScratch(
  memory: DeviceMemory,
  shape: MoeShape,
  { maxRows, hiddenStride }: { readonly maxRows: number; readonly hiddenStride: number },
): MoeScratch {
  const allocate = (words: number, label: string) =>
    memory.allocate("activations", words * 4, label);
  const pairs = maxRows * (shape.perToken + shape.shared);
  const [experts, weights] = neighbours(memory, pairs, "chosen experts and their weights");
  const expertCount = shape.routed + shape.shared;
  const logitsStride = Math.ceil(shape.routed / 4) * 4;
  const intermediateStride = Math.ceil(shape.intermediate / 4) * 4;
  const sharedStride = Math.ceil((shape.shared * shape.intermediate) / 4) * 4;
  return {
    routerLogits: allocate(maxRows * logitsStride, "router logits"),
    logitsStride,
    experts,
    weights,
    sortedPairs: allocate(pairs, "sorted pairs"),
    sortScratch: allocate(pairs, "sorted pairs scratch"),
    tiles: allocate((1 + tileLimit(pairs, expertCount, PAIR_TILE)) * 4, "expert tiles"),
    intermediate: allocate(pairs * intermediateStride, "expert intermediates"),
    intermediateStride,
    output: allocate(pairs * hiddenStride, "expert outputs"),
    sharedIntermediate: allocate(maxRows * sharedStride, "shared intermediates"),
    sharedStride,
  };
}

/** Two tensors of so many words each in one buffer, each to be bound by itself. */
function neighbours(memory: DeviceMemory, words: number, label: string): [Tensor, Tensor] {
  const apart = Math.ceil(words / BINDING_WORDS) * BINDING_WORDS * 4;
  const { buffer, offset } = memory.allocate("activations", 2 * apart, label);
  const size = words * 4;
  return [
    { buffer, offset, size },
    { buffer, offset: offset + apart, size },
  ];
}

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

/** The result is the scratch's `output`, to be combined, but in steps that `combines` names. */
export interface MoeBinding extends Omit<BlockRows, "output"> {
  readonly scratch: MoeScratch;
  /** Where slots meet those of other ranks; absent on one rank. */
  readonly exchange?: SlotExchange | undefined;
}

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
   * Adds four launches, five with many rows; one more where a rounding has a launch of its own. With
   * several ranks the slots are exchanged.
   */
  compile(plan: Plan<Step>, binding: MoeBinding): void {
    const { recorder } = plan;
    const { scratch, normed, hiddenStride } = binding;
    const { routed, perToken } = this.#shape;
    const { slots } = this;
    const { wide } = this.#experts;
    // The slot of a wide MLP has an expert number too, which no slab holds.
    const shared = slots - perToken;
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
    const choose = route(recorder, {
      logits: scratch.routerLogits,
      stride: scratch.logitsStride,
      bias: this.#bias?.tensor,
      placement: this.#placement,
      hits: this.#hits,
      chosen: scratch.experts,
      weights: scratch.weights,
      shared: { first: routed, count: shared },
      ...routingRule(this.#shape),
    });
    const run = this.#bindExperts(recorder, binding);
    plan.add((step) => logits(step.rows, step.decodeRows));
    plan.add((step) => choose(step.rows));
    plan.add(run);
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
  }

  /** The experts of a step's rows, of which matrices multiply the last ones or none, or all. */
  #bindExperts(recorder: Recorder, binding: MoeBinding): (step: StepRows) => void {
    const { scratch, hiddenStride } = binding;
    const { routed, perToken, intermediate, activation } = this.#shape;
    const { slots } = this;
    const { gateUp, down } = this.#experts;
    const rounding = takesRounded(down.weights) ? binding.rounding : undefined;
    const expertCount = routed + slots - perToken;
    const input = rowsFor(binding, gateUp.weights);
    const tiles = this.#matrixTiles(binding);
    const prompts = tiles?.kernels.experts(recorder, {
      ...{ memory: this.#memory, label: this.#name, tiles, ...input, scratch, slots },
      ...{ gateUp: gateUp.weights, down: down.weights, expertCount },
      ...{ intermediate, activation, rounding, outStride: hiddenStride },
      pairsOfExpert: (rows) => this.#pairsOfExpert(rows),
      maxRows: rowsOf(scratch.experts, slots),
    });
    if (tiles?.decode === true) {
      return ({ rows }) => {
        if (rows > 0) prompts!(0, rows);
      };
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
    const arrange = sortPairs(recorder, {
      experts: scratch.experts,
      sortedPairs: scratch.sortedPairs,
      scratch: scratch.sortScratch,
      tiles: scratch.tiles,
      grids: grids.tensor,
      expertCount,
    });
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
    const { residual } = binding;
    const combine = this.#canCombine(binding)
      ? expertCombine(recorder, {
          ...{ ...innerInput, slots, experts: scratch.experts, slotWeights: scratch.weights },
          ...{ weights: down.weights, residual: residual!, segments: segments(intermediate) },
        })
      : undefined;
    const second = expertDown(recorder, {
      ...innerInput,
      ...lists,
      weights: down.weights,
      out: scratch.output,
      outStride: hiddenStride,
      segments: segments(intermediate),
      unsorted: combine === undefined || down.weights.matrix !== undefined,
    });
    return (step) => {
      const rows = this.#ownRows(binding, step);
      if (rows > 0) {
        const tileSize = this.#tileSize(rows, sizes);
        if (tileSize !== undefined) arrange(rows * slots, tileSize);
        first(rows, tileSize);
        rounded?.round(rows * slots);
        if (this.combines(binding, step)) combine!(rows);
        else second(rows, tileSize);
      }
      if (rows < step.rows) prompts!(rows, step.rows);
    };
  }

  /** On average, in a step of so many rows. */
  #pairsOfExpert(rows: number): number {
    const { routed, perToken } = this.#shape;
    const { slots } = this;
    return (rows * slots) / (routed + slots - perToken);
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

  /** Whether slots are combined and added to the residual stream already, in such a step. */
  combines(binding: MoeBinding, step: StepRows): boolean {
    const { down } = this.#experts;
    // Matrices want prompt rows scaled, those after experts in f32 too, which they do not multiply.
    if (down.weights.matrix !== undefined && step.decodeRows < step.rows) return false;
    return this.#canCombine(binding) && !this.#isSorted(step.rows);
  }

  #canCombine({ residual, exchange, codes }: MoeBinding): boolean {
    const { down, wide } = this.#experts;
    const apart = down.weights.slabs.length > 1 || wide !== undefined || exchange !== undefined;
    return residual !== undefined && codes === undefined && !apart;
  }
}
