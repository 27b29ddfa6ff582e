/**
 * Mixture of experts: route, dispatch each row to its experts, run them, leave the results in slot
 * order for the next norm to combine.
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
import {
  BLOCK_COLUMNS,
  type LinearLayout,
  type LinearWeight,
  segments,
  type WeightDtype,
} from "../../kernels/linear/layout.ts";
import { linear } from "../../kernels/linear/linear.ts";
import { expertDown } from "../../kernels/moe/expert_down.ts";
import { expertGateUp } from "../../kernels/moe/expert_gate_up.ts";
import { type RoutingRule, route } from "../../kernels/moe/route.ts";
import { sortPairs, tileLimit } from "../../kernels/moe/sort.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Step } from "./batch.ts";
import { type BlockRows, rowsFor } from "./block_rows.ts";
import { ExpertMatrices } from "./expert_matrices.ts";
import { allocateMatrix, mergeSpecs } from "./matrix_destination.ts";
import { Mlp } from "./mlp.ts";
import { type VectorWeight, vectorWeight } from "./vector_weight.ts";

export interface MoeShape {
  readonly hiddenSize: number;
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
}

/** Pairs of one tile of the sorted form. */
const PAIR_TILE = 4;

export interface MoeScratch {
  /** `[maxRows, logitsStride]` */
  readonly routerLogits: Tensor;
  readonly logitsStride: number;
  /** `[maxRows, slots]` u32 physical experts, f32 weights */
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

export function allocateMoeScratch(
  memory: DeviceMemory,
  shape: MoeShape,
  { maxRows, hiddenStride }: { readonly maxRows: number; readonly hiddenStride: number },
): MoeScratch {
  const allocate = (words: number, label: string) =>
    memory.allocate("activations", words * 4, label);
  const pairs = maxRows * (shape.perToken + shape.shared);
  const experts = shape.routed + shape.shared;
  const logitsStride = Math.ceil(shape.routed / 4) * 4;
  const intermediateStride = Math.ceil(shape.intermediate / 4) * 4;
  const sharedStride = Math.ceil((shape.shared * shape.intermediate) / 4) * 4;
  return {
    routerLogits: allocate(maxRows * logitsStride, "router logits"),
    logitsStride,
    experts: allocate(pairs, "chosen experts"),
    weights: allocate(pairs, "expert weights"),
    sortedPairs: allocate(pairs, "sorted pairs"),
    sortScratch: allocate(pairs, "sorted pairs scratch"),
    tiles: allocate((1 + tileLimit(pairs, experts, PAIR_TILE)) * 4, "expert tiles"),
    intermediate: allocate(pairs * intermediateStride, "expert intermediates"),
    intermediateStride,
    output: allocate(pairs * hiddenStride, "expert outputs"),
    sharedIntermediate: allocate(maxRows * sharedStride, "shared intermediates"),
    sharedStride,
  };
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

/** The result is the scratch's `output`, to be combined. */
export interface MoeBinding extends Omit<BlockRows, "output"> {
  readonly scratch: MoeScratch;
}

export class Moe {
  readonly specs: readonly WeightSpec[];
  /** Slots of a row: routed choices, then shared experts. */
  readonly slots: number;
  readonly #shape: MoeShape;
  readonly #memory: DeviceMemory;
  readonly #router: LinearWeight;
  readonly #bias: VectorWeight | undefined;
  readonly #gateUp: ExpertMatrices;
  readonly #down: ExpertMatrices;
  /** The shared experts, where they are one MLP. */
  readonly #wide: Mlp | undefined;
  /** `[routed]` u32: the physical expert of each logical one */
  readonly #placement: Tensor;
  /** `[routed]` u32: how often each logical expert was chosen */
  readonly #hits: Tensor;

  /** @param options `name` is the prefix of its tensors, "model.layers.3.mlp". */
  constructor(
    memory: DeviceMemory,
    shape: MoeShape,
    options: {
      readonly name: string;
      readonly layout: LinearLayout;
      readonly dtypeOf: (name: string) => WeightDtype;
    },
  ) {
    const { hiddenSize, routed, shared, perToken, intermediate, selection } = shape;
    const { name, layout, dtypeOf } = options;
    const dtype = dtypeOf(`${name}.experts.0.gate_proj`);
    const downDtype = dtypeOf(`${name}.experts.0.down_proj`);
    const cut = shared > 1 && downDtype === "fp8" && intermediate % BLOCK_COLUMNS !== 0;
    const sameDtypes =
      dtypeOf(`${name}.shared_experts.gate_proj`) === dtype &&
      dtypeOf(`${name}.shared_experts.down_proj`) === downDtype;
    const wide = shared > 0 && (cut || !sameDtypes);
    const router = allocateMatrix(memory, `${name}.gate`, {
      dtype: dtypeOf(`${name}.gate`),
      columns: hiddenSize,
      parts: [routed],
      layout,
    });
    this.#shape = shape;
    this.#memory = memory;
    this.#router = router.weight;
    this.#bias =
      selection === "noaux_tc"
        ? vectorWeight(memory, `${name}.gate.e_score_correction_bias`, routed)
        : undefined;
    this.slots = perToken + (wide ? 1 : shared);
    this.#wide = wide
      ? new Mlp(memory, {
          name: `${name}.shared_experts`,
          hiddenSize,
          intermediate: shared * intermediate,
          layout,
          dtypeOf,
        })
      : undefined;
    const count = routed + (wide ? 0 : shared);
    this.#gateUp = new ExpertMatrices(memory, `${name} experts gate and up`, {
      count,
      dtype,
      columns: hiddenSize,
      parts: [intermediate, intermediate],
      layout,
    });
    this.#down = new ExpertMatrices(memory, `${name} experts down`, {
      count,
      dtype: downDtype,
      columns: intermediate,
      parts: [hiddenSize],
      layout,
    });
    this.#placement = memory.allocate("weights", routed * 4, `${name} placement`);
    this.#hits = memory.allocate("activations", routed * 4, `${name} hits`);
    this.specs = [
      ...router.place.specs(0, { name: `${name}.gate`, split: "none" }),
      ...(this.#bias === undefined ? [] : [this.#bias.spec]),
      ...this.#routedSpecs(name),
      ...(this.#wide?.specs ?? (shared > 0 ? this.#sharedSpecs(name) : [])),
    ];
  }

  #routedSpecs(name: string): WeightSpec[] {
    return Array.from({ length: this.#shape.routed }, (_, e) => {
      const source = (matrix: string) =>
        ({ name: `${name}.experts.${e}.${matrix}`, split: "experts" }) as const;
      return [
        ...this.#gateUp.places[e]!.specs(0, source("gate_proj")),
        ...this.#gateUp.places[e]!.specs(1, source("up_proj")),
        ...this.#down.places[e]!.specs(0, source("down_proj")),
      ];
    }).flat();
  }

  /** The checkpoint holds all shared experts as one wide MLP: a slice of it is one of them. */
  #sharedSpecs(name: string): WeightSpec[] {
    const { routed, shared, hiddenSize, intermediate } = this.#shape;
    const slices = (matrix: "gate_proj" | "up_proj" | "down_proj") =>
      Array.from({ length: shared }, (_, i) => {
        const down = matrix === "down_proj";
        const places = down ? this.#down.places : this.#gateUp.places;
        return places[routed + i]!.specs(matrix === "up_proj" ? 1 : 0, {
          name: `${name}.shared_experts.${matrix}`,
          split: down ? "columns" : "rows",
          shape: down ? [hiddenSize, shared * intermediate] : [shared * intermediate, hiddenSize],
          ...(down ? { sourceColumn: i * intermediate } : { sourceRow: i * intermediate }),
        });
      });
    return (["gate_proj", "up_proj", "down_proj"] as const).flatMap((matrix) =>
      mergeSpecs(slices(matrix)),
    );
  }

  /** Adds four launches, five with many rows. */
  compile(plan: Plan<Step>, binding: MoeBinding): void {
    const { recorder } = plan;
    const { scratch, normed, quantized, hiddenStride } = binding;
    const { routed, perToken, intermediate } = this.#shape;
    const { slots } = this;
    // The slot of a wide MLP has an expert number too, which no slab holds.
    const shared = slots - perToken;
    this.#memory.write(
      this.#placement,
      0,
      Uint32Array.from({ length: routed }, (_, i) => i),
    );
    const logits = linear(recorder, {
      x: normed,
      xStride: hiddenStride,
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
    const arrange = sortPairs(recorder, {
      experts: scratch.experts,
      sortedPairs: scratch.sortedPairs,
      scratch: scratch.sortScratch,
      tiles: scratch.tiles,
      expertCount: routed + shared,
      tileSize: PAIR_TILE,
    });
    const first = expertGateUp(recorder, {
      x: rowsFor(binding, this.#gateUp.weights),
      xStride: hiddenStride,
      slots,
      experts: scratch.experts,
      sortedPairs: scratch.sortedPairs,
      tiles: scratch.tiles,
      weights: this.#gateUp.weights,
      intermediate,
      out: scratch.intermediate,
      outStride: scratch.intermediateStride,
      quantize: quantized !== undefined && this.#down.weights.dtype === "fp8",
    });
    const second = expertDown(recorder, {
      x: scratch.intermediate,
      xStride: scratch.intermediateStride,
      slots,
      experts: scratch.experts,
      sortedPairs: scratch.sortedPairs,
      tiles: scratch.tiles,
      weights: this.#down.weights,
      out: scratch.output,
      outStride: hiddenStride,
      segments: segments(intermediate),
    });
    plan.add((step) => logits(step.rows));
    plan.add((step) => choose(step.rows));
    plan.add((step) => {
      // Sorting pays once an expert serves several rows; the bits are the same either way.
      const sorted = step.rows * slots > 2 * (routed + shared);
      if (sorted) arrange(step.rows * slots);
      first(step.rows, sorted);
      second(step.rows, sorted);
    });
    this.#wide?.compile(plan, {
      ...binding,
      intermediate: scratch.sharedIntermediate,
      intermediateStride: scratch.sharedStride,
      output: scratch.output,
      outputStride: slots * hiddenStride,
      outputColumn: perToken * hiddenStride,
    });
  }
}
