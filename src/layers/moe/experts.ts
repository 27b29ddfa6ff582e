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
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import { type Communicator, ONE_RANK, type RankOf } from "../../parallel/communicator.ts";
import type { LayerContext } from "../layer_context.ts";
import { gateUpFormat, Mlp } from "../mlp.ts";
import { wholeSpec } from "../ranks/rank_specs.ts";
import { countProblem, ranksFor } from "../ranks/unshared.ts";
import { mergeSpecs } from "../weights/destinations.ts";
import { type MatrixFormat, sameStorage } from "../weights/matrix_format.ts";
import type { MatrixSource } from "../weights/matrix_source.ts";
import { matrixSpecs } from "../weights/matrix_specs.ts";
import { ExpertMatrices, type ExpertRun } from "./expert_matrices.ts";
import { MXFP4_FORMAT, mxfp4Specs } from "./mxfp4_experts.ts";

export interface ExpertsShape {
  readonly hiddenSize: number;
  /** On all ranks together: each has a run of them. */
  readonly routed: number;
  /** Every rank has all of them. */
  readonly shared: number;
  /** Of one expert. */
  readonly intermediate: number;
  readonly stackedMxfp4?: boolean;
}

type Half = "gate_proj" | "up_proj" | "down_proj";

/** The ranks that share the routed experts: all of the group, where each gets as many. */
export function expertRanks(communicator: Communicator, routed: number): Communicator {
  return countProblem(communicator, { count: routed, dimension: "experts" }) === undefined
    ? communicator
    : ONE_RANK;
}

/** The routed experts of a rank: a run of neighbours. */
export function expertRun({ rank, size }: RankOf, routed: number): ExpertRun {
  const count = routed / size;
  return { first: rank * count, count };
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
  readonly #routed: ExpertRun;

  /** @param name Prefix of the layer's tensors, "model.layers.3.mlp". */
  constructor(context: LayerContext, shape: ExpertsShape, name: string) {
    const { memory, layout, formats } = context;
    const { hiddenSize, routed, shared, intermediate, stackedMxfp4 = false } = shape;
    this.#context = context;
    this.#shape = shape;
    const first = `${name}.experts.0`;
    const stacked = stackedMxfp4 ? formats.use(MXFP4_FORMAT) : undefined;
    const gateUpKept = stacked ?? gateUpFormat(formats, first).format;
    const downKept = stacked ?? formats.linear(`${first}.down_proj`);
    const whole = shared > 0 && !this.#canCut(name, gateUpKept, downKept);
    const problem = countProblem(context.communicator, { count: routed, dimension: "experts" });
    const communicator = ranksFor(context, { name: `${name}.experts`, problem });
    this.#routed = expertRun(communicator, routed);
    const cut = whole ? 0 : shared;
    const runs =
      communicator.size === 1
        ? [{ first: 0, count: routed + cut }]
        : [this.#routed, { first: routed, count: cut }];
    const common = { total: routed + cut, runs, layout, bias: stackedMxfp4 };
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
            { total: routed, first: this.#routed.first },
            { gateUp: this.gateUp, down: this.down, uploads: context.uploads },
          )
        : this.#routedSpecs(name)),
      // Shared experts are small beside the routed ones, and their slots need no exchange this way.
      ...(this.wide?.specs ?? (shared > 0 ? this.#sharedSpecs(name) : [])).map(wholeSpec),
    ];
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
    const { first, count } = this.#routed;
    return Array.from({ length: count }, (_, i) => {
      const e = first + i;
      return (["gate_proj", "up_proj", "down_proj"] as const).flatMap((half) =>
        this.#specs(`${name}.experts.${e}`, half, e),
      );
    }).flat();
  }

  /** The checkpoint holds all shared experts as one wide MLP: a slice of it is one of them. */
  #sharedSpecs(name: string): WeightSpec[] {
    const { routed, shared } = this.#shape;
    const slices = (half: Half) =>
      Array.from({ length: shared }, (_, i) =>
        this.#specs(`${name}.shared_experts`, half, routed + i, i),
      );
    return (["gate_proj", "up_proj", "down_proj"] as const).flatMap((half) =>
      mergeSpecs(slices(half)),
    );
  }

  /** @param slice Which of the shared experts it is. Default: a routed one, with tensors of its own. */
  #specs(module: string, half: Half, expert: number, slice?: number): WeightSpec[] {
    const { shared, hiddenSize, intermediate } = this.#shape;
    const { formats, uploads } = this.#context;
    const down = half === "down_proj";
    const place = (down ? this.down : this.gateUp).places.get(expert)!;
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
