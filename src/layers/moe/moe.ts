/**
 * Mixture of experts: route, dispatch each row to its experts, run them, leave the results in slot
 * order for the next norm to combine, or add them to the residual stream.
 *
 * Shared experts are further slots of weight 1 behind the routed ones. Where they cannot be cut
 * into experts of their own (their blocks overlap, their dtype is another) they stay one wide MLP
 * that fills one slot. `placement` maps a logical expert to the physical slots whose weights it runs
 * on, of which rows take one each, and `hits` counts choices.
 *
 * Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 2.1.2.
 *
 * @module
 */

import { linear } from "../../../kernels/linear/linear.ts";
import type { LinearWeight } from "../../../kernels/linear/linear_layout.ts";
import type { TileGrids } from "../../../kernels/moe/experts/expert_tiles.ts";
import type { RoutingRule } from "../../../kernels/moe/route/route.ts";
import { layerIndex, type WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { Plan, RecordLaunches } from "../../gpu/plan.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { ExpertLayout } from "../../parallel/experts/expert_layout.ts";
import type { Step } from "../batch.ts";
import { type AddsRows, matrixRows } from "../block_rows.ts";
import { addLaunches } from "../launches/launch_list.ts";
import {
  combines,
  leavesPairs,
  type MoeLaunchFacts,
  moeLaunches,
  ownRows,
  tileSize,
} from "../launches/moe_launches.ts";
import type { LayerContext } from "../layer_context.ts";
import { roundRows } from "../rounded_rows.ts";
import { allocateMatrix } from "../weights/matrix_place.ts";
import { matrixSpecs } from "../weights/matrix_specs.ts";
import { type VectorWeight, vectorWeight } from "../weights/vector_weight.ts";
import { ExpertHalves, type MoeBinding, type MoeParts } from "./expert_halves.ts";
import { ExpertHits, type LayerHits } from "./expert_hits.ts";
import { ExpertMover } from "./expert_mover.ts";
import { Experts, expertLayout } from "./experts.ts";
import type { MoeShape } from "./moe_scratch.ts";
import { bindRouting, type Routing } from "./routing.ts";

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

export class Moe {
  readonly specs: readonly WeightSpec[];
  /** Slots of a row: routed choices, then shared experts. */
  readonly slots: number;
  readonly #parts: MoeParts;
  readonly #router: LinearWeight;
  readonly #bias: VectorWeight | undefined;
  readonly #communicator: Communicator;
  readonly #layout: ExpertLayout;
  readonly #layer: number;
  /** `[tables, routed]` u32: the physical expert of each logical one */
  readonly #placement: Tensor;
  readonly #hits: LayerHits;

  /**
   * @param name Prefix of its tensors, "model.layers.3.mlp".
   * @param hits Where its choices are counted. Default: in a place of its own, which is not read.
   */
  constructor(context: LayerContext, shape: MoeShape, name: string, hits?: LayerHits) {
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
    this.#router = router.weight;
    this.#bias =
      selection === "noaux_tc"
        ? vectorWeight(memory, `${routerModule}.e_score_correction_bias`, routed)
        : undefined;
    const experts = new Experts(context, shape, name);
    this.slots = perToken + experts.sharedSlots;
    this.#communicator = context.communicator;
    this.#layout = expertLayout(context, shape);
    this.#layer = layerIndex(`${name}.`) ?? 0;
    const expertCount = this.#layout.slots + experts.sharedSlots;
    this.#parts = { name, memory, shape, experts, slots: this.slots, expertCount };
    const { count } = this.#layout.tablesOf(this.#layer);
    this.#placement = memory.allocate("weights", count * routed * 4, `${name} placement`);
    this.#hits = hits ?? new ExpertHits(memory, { layers: [0], experts: routed }).of(0);
    this.specs = [
      ...matrixSpecs(router.place, 0, { name: routerModule, split: "none" }),
      ...(this.#bias === undefined ? [] : [this.#bias.spec]),
      ...experts.specs,
    ];
  }

  /** Prefix of its tensors. */
  get name(): string {
    return this.#parts.name;
  }

  /** Whether ranks have different experts. */
  get isShared(): boolean {
    return this.#layout.isShared;
  }

  /**
   * Adds four launches, five with many rows; one more where a rounding has a launch of its own.
   * With several ranks the slots are exchanged.
   *
   * @returns In which steps slots are combined and added to the residual stream already.
   */
  compile(plan: Plan<Step>, given: MoeBinding): AddsRows {
    const layout = this.#layout;
    const exchange = layout.isShared ? given.exchange : undefined;
    const binding = { ...given, exchange };
    const { scratch, hiddenStride } = binding;
    const { name, memory, shape, experts } = this.#parts;
    const { perToken } = shape;
    const { slots } = this;
    memory.write(this.#placement, 0, layout.tablesOf(this.#layer).slots);
    const isAdded = this.#compileExperts(plan, binding);
    this.#hits.choices?.compileLayer(plan, this.#layer, scratch.experts);
    // Every rank has it whole.
    experts.wide?.compile(plan, {
      ...binding,
      residual: undefined,
      sums: undefined,
      intermediate: scratch.sharedIntermediate,
      intermediateStride: scratch.sharedStride,
      output: scratch.output,
      outputStride: slots * hiddenStride,
      outputColumn: perToken * hiddenStride,
    });
    exchange?.compile(plan, { name, slots, routed: perToken, layout });
    return isAdded;
  }

  /**
   * Moves this layer's experts between steps; every rank does so at once.
   *
   * @param after The expert of each slot from now on.
   */
  async moveExperts(device: GPUDevice, after: readonly number[]): Promise<void> {
    const { name, memory, experts } = this.#parts;
    const layout = this.#layout;
    const link = { device, memory, communicator: this.#communicator, layout, name };
    const mover = new ExpertMover({ ...link, slot: (slot) => experts.slotBytes(slot) });
    try {
      await mover.move(layout.placementOf(this.#layer), after);
    } finally {
      mover.destroy();
    }
    layout.place(this.#layer, after);
    memory.write(this.#placement, 0, layout.tablesOf(this.#layer).slots);
  }

  /** Router logits. */
  #bindScore(recorder: Recorder, { normed, scratch }: MoeBinding): RecordLaunches<Step> {
    const score = linear(recorder, {
      ...normed,
      weight: this.#router,
      out: scratch.routerLogits,
      outStride: scratch.logitsStride,
    });
    return ({ rows, decodeRows }) => score(rows, decodeRows);
  }

  /** Whether the adapter runs the invocations of a workgroup one after another. */
  get #sequential(): boolean {
    return this.#parts.experts.gateUp.weights.tuning?.sequential === true;
  }

  /** @param grids Of launches over tiles; without them pairs are never sorted. */
  #bindRouting(recorder: Recorder, binding: MoeBinding, grids?: TileGrids): Routing {
    const { scratch, microBatch = 0 } = binding;
    const { perToken } = this.#parts.shape;
    const { slots } = this;
    const { sortedPairs, tiles } = scratch;
    const { dispatch, slots: routedSlots } = this.#layout;
    const { count: tables } = this.#layout.tablesOf(this.#layer);
    return bindRouting(
      recorder,
      {
        logits: scratch.routerLogits,
        stride: scratch.logitsStride,
        bias: this.#bias?.tensor,
        placement: this.#placement,
        hits: this.#hits.tensors[microBatch]!,
        firstHit: this.#hits.first,
        chosen: scratch.experts,
        weights: scratch.weights,
        // The slot of a wide MLP has an expert number too, which no slab holds.
        shared: { first: routedSlots, count: slots - perToken },
        dispatch: {
          tables,
          by: dispatch === "static" ? "row" : "logit",
          fake: dispatch === "fake",
        },
        ...routingRule(this.#parts.shape),
      },
      grids && {
        sequential: this.#sequential,
        expertCount: this.#parts.expertCount,
        sortedPairs,
        tiles,
        scratch: scratch.sortScratch,
        grids: grids.tensor,
      },
    );
  }

  /** The experts of a step's rows, of which matrices multiply the last ones or none, or all. */
  #compileExperts(plan: Plan<Step>, binding: MoeBinding): AddsRows {
    const { recorder } = plan;
    const { slots } = this;
    const halves = new ExpertHalves(recorder, this.#parts, binding);
    const routing = this.#bindRouting(recorder, binding, halves.grids);
    const combine = halves.bindCombine();
    const facts: MoeLaunchFacts = {
      slots,
      expertCount: this.#parts.expertCount,
      matrices: matrixRows(halves.matrix),
      rounding: halves.rounding,
      sizes: halves.sizes,
      mostSorted: routing.chooseAndSort?.mostRows ?? 0,
      combining: combine.combining,
      skips: this.#sequential,
    };
    addLaunches(plan, moeLaunches(facts), {
      score: () => this.#bindScore(recorder, binding),
      choose:
        () =>
        ({ rows }) =>
          routing.choose(rows),
      sort: () => (step) => routing.sort!(ownRows(facts, step) * slots, tileSize(facts, step)!),
      chooseAndSort: () => (step) =>
        routing.chooseAndSort!.record(step.rows, tileSize(facts, step)!),
      gateUp: () => {
        const gateUp = halves.bindGateUp();
        return (step) => gateUp(ownRows(facts, step), tileSize(facts, step));
      },
      round: () => {
        const { inner, innerInput } = halves;
        const round = roundRows(recorder, inner, binding.rounding!, innerInput);
        return (step) => round(ownRows(facts, step) * slots);
      },
      combineByPair:
        () =>
        ({ rows }) =>
          combine.byPair!(rows),
      combineByTile:
        () =>
        ({ rows }) =>
          combine.byTile!(rows),
      down: () => {
        const down = halves.bindDown(leavesPairs(facts.combining));
        return (step) => down(ownRows(facts, step), tileSize(facts, step));
      },
      matrixExperts: () => {
        const multiply = halves.bindMatrices();
        return (step) => multiply(ownRows(facts, step), step.rows);
      },
    });
    return (step) => combines(facts, step);
  }
}
