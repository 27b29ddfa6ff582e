/**
 * The matrices of a layer's experts.
 *
 * Shared experts follow the routed ones as experts of their own. Where they cannot be cut out of the
 * wide MLP that the checkpoint holds (columns that share a scale would be torn apart, they are kept
 * in another dtype) they stay one MLP that fills one slot.
 *
 * @module
 */
import { BLOCK_COLUMNS } from "../../../kernels/linear/weights/layout.ts";
import { layerIndex, type WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import { ONE_RANK } from "../../parallel/communicator.ts";
import { ExpertLayout } from "../../parallel/experts/expert_layout.ts";
import type { LayerContext } from "../layer_context.ts";
import { gateUpFormat, Mlp } from "../mlp.ts";
import { wholeSpec } from "../ranks/rank_specs.ts";
import { countProblem, ranksFor } from "../ranks/unshared.ts";
import { mergeSpecs } from "../weights/destinations.ts";
import { type MatrixFormat, sameStorage } from "../weights/matrix_format.ts";
import { placeBytes } from "../weights/matrix_place.ts";
import type { MatrixSource } from "../weights/matrix_source.ts";
import { matrixSpecs } from "../weights/matrix_specs.ts";
import { ExpertMatrices } from "./expert_matrices.ts";
import type { SlotBytes } from "./expert_mover.ts";
import { MXFP4_FORMAT, mxfp4Specs } from "./mxfp4_experts.ts";

export interface ExpertsShape {
  readonly hiddenSize: number;
  /** On all ranks together: see `ExpertLayout`. */
  readonly routed: number;
  /** Every rank has all of them. */
  readonly shared: number;
  /** Of one expert. */
  readonly intermediate: number;
  readonly stackedMxfp4?: boolean;
}

type Half = "gate_proj" | "up_proj" | "down_proj";

/** How the routed experts of a model lie on the ranks of its group. */
export function expertLayout(
  { communicator, expertLayout }: Pick<LayerContext, "communicator" | "expertLayout">,
  { routed }: Pick<ExpertsShape, "routed">,
): ExpertLayout {
  return expertLayout ?? ExpertLayout.plain(communicator, routed);
}

export class Experts {
  readonly specs: readonly WeightSpec[];
  readonly gateUp: ExpertMatrices;
  readonly down: ExpertMatrices;
  /** The shared experts, where they are one MLP. */
  readonly wide: Mlp | undefined;
  /** Slots of a row that shared experts fill. */
  readonly sharedSlots: number;
  readonly #context: LayerContext;
  readonly #shape: ExpertsShape;
  /** Slots of routed experts on all ranks; those of shared ones follow. */
  readonly #routedSlots: number;
  /** This rank's, by the expert that they hold. */
  readonly #slotsOf: ReadonlyMap<number, readonly number[]>;

  /** @param name Prefix of the layer's tensors, "model.layers.3.mlp". */
  constructor(context: LayerContext, shape: ExpertsShape, name: string) {
    const { memory, layout, formats, communicator } = context;
    const { hiddenSize, routed, shared, intermediate, stackedMxfp4 = false } = shape;
    const placed = expertLayout(context, shape);
    this.#context = context;
    this.#shape = shape;
    this.#routedSlots = placed.slots;
    this.#slotsOf = placed.slotsByExpert(layerIndex(`${name}.`) ?? 0, communicator.rank);
    const first = `${name}.experts.0`;
    const stacked = stackedMxfp4 ? formats.use(MXFP4_FORMAT) : undefined;
    const gateUpKept = stacked ?? gateUpFormat(formats, first).format;
    const downKept = stacked ?? formats.linear(`${first}.down_proj`);
    const whole = shared > 0 && !this.#canCut(name, gateUpKept, downKept);
    if (!placed.isShared) {
      const problem = countProblem(communicator, { count: placed.slots, dimension: "experts" });
      ranksFor(context, { name: `${name}.experts`, problem });
    }
    const cut = whole ? 0 : shared;
    const runs = placed.isShared
      ? [placed.runOf(communicator.rank), { first: placed.slots, count: cut }]
      : [{ first: 0, count: placed.slots + cut }];
    const common = { total: placed.slots + cut, runs, layout, bias: stackedMxfp4 };
    this.gateUp = new ExpertMatrices(memory, `${name} experts gate and up`, {
      ...common,
      format: gateUpKept,
      columns: hiddenSize,
      parts: [intermediate, intermediate],
    });
    this.down = new ExpertMatrices(memory, `${name} experts down`, {
      ...common,
      format: downKept,
      columns: intermediate,
      parts: [hiddenSize],
    });
    const wideShape = { hiddenSize, intermediate: shared * intermediate };
    const alone = { ...context, communicator: ONE_RANK };
    this.wide = whole
      ? new Mlp(alone, { name: `${name}.shared_experts`, ...wideShape })
      : undefined;
    this.sharedSlots = whole ? 1 : shared;
    this.specs = [
      ...(stackedMxfp4
        ? mxfp4Specs(
            `${name}.experts`,
            { total: routed, slotsOf: this.#slotsOf },
            { gateUp: this.gateUp, down: this.down, uploads: context.uploads },
          )
        : this.#routedSpecs(name)),
      // Shared experts are small beside the routed ones, and their slots need no exchange this way.
      ...(this.wide?.specs ?? (shared > 0 ? this.#sharedSpecs(name) : [])).map(wholeSpec),
    ];
  }

  /** All that a slot of this rank consists of. */
  slotBytes(slot: number): readonly SlotBytes[] {
    return [this.gateUp, this.down].flatMap((matrices) => {
      const { at, shape } = matrices.places.get(slot)!;
      const bytes = placeBytes(shape);
      const part = (tensor: Tensor | undefined, offset: number, size: number) =>
        tensor === undefined ? [] : [{ tensor, offset, size }];
      return [
        ...part(at.words, at.wordsOffset, bytes.words),
        ...part(at.scales, at.scalesOffset, bytes.scales),
        ...part(at.bias, at.biasOffset, bytes.bias),
      ];
    });
  }

  /** Whether each shared expert can be an expert like the routed ones. */
  #canCut(name: string, gateUp: MatrixFormat, down: MatrixFormat): boolean {
    const { shared, intermediate } = this.#shape;
    const { formats } = this.#context;
    const of = (half: Half) => formats.linear(`${name}.shared_experts.${half}`);
    const alike =
      sameStorage(of("gate_proj"), gateUp) &&
      sameStorage(of("up_proj"), gateUp) &&
      sameStorage(of("down_proj"), down);
    const tears = down.encoding.kind !== "plain" && intermediate % BLOCK_COLUMNS !== 0;
    return alike && !(shared > 1 && tears);
  }

  #routedSpecs(name: string): WeightSpec[] {
    return Array.from(this.#slotsOf, ([expert, slots]) =>
      (["gate_proj", "up_proj", "down_proj"] as const).flatMap((half) =>
        mergeSpecs(slots.map((slot) => this.#specs(`${name}.experts.${expert}`, half, slot))),
      ),
    ).flat();
  }

  /** The checkpoint holds all shared experts as one wide MLP: a slice of it is one of them. */
  #sharedSpecs(name: string): WeightSpec[] {
    const { shared } = this.#shape;
    const slices = (half: Half) =>
      Array.from({ length: shared }, (_, i) =>
        this.#specs(`${name}.shared_experts`, half, this.#routedSlots + i, i),
      );
    return (["gate_proj", "up_proj", "down_proj"] as const).flatMap((half) =>
      mergeSpecs(slices(half)),
    );
  }

  /** @param slice Which of the shared experts it is. Default: a routed one, with tensors of its own. */
  #specs(module: string, half: Half, slot: number, slice?: number): WeightSpec[] {
    const { shared, hiddenSize, intermediate } = this.#shape;
    const { formats, uploads } = this.#context;
    const down = half === "down_proj";
    const place = (down ? this.down : this.gateUp).places.get(slot)!;
    const name = `${module}.${half}`;
    const own = formats.linear(name);
    const { format } = place.shape;
    // Of another storage than the others: the checkpoint's check then says what is wrong with it.
    const { encoding } = sameStorage(own, format) ? own : format;
    const part = half === "up_proj" ? 1 : 0;
    if (slice === undefined) {
      return matrixSpecs(place, part, { name, split: "experts", encoding }, uploads);
    }
    const wide = shared * intermediate;
    const source: MatrixSource = down
      ? { name, split: "columns", shape: [hiddenSize, wide], sourceColumn: slice * intermediate }
      : { name, split: "rows", shape: [wide, hiddenSize], sourceRow: slice * intermediate };
    return matrixSpecs(place, part, { ...source, encoding }, uploads);
  }
}
