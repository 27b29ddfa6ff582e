/**
 * The ranks that share a model's attention: each has whole heads of all layers, or each has all.
 *
 * @module
 */
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import { type Communicator, ONE_RANK } from "../../parallel/communicator.ts";
import type { LayerContext } from "../layer_context.ts";
import type { MatrixFormats } from "../weights/matrix_format.ts";
import { cutProblem, wholeSpec } from "./rank_specs.ts";
import { countProblem, ranksFor, UnsharedParts } from "./unshared.ts";

/** The ranks that a model is defined for, and how the checkpoint keeps what they share. */
export interface DefinedRanks {
  readonly communicator: Communicator;
  readonly formats: MatrixFormats;
}

/** Heads that are shared out, each with rows of some matrices. */
export interface SharedHeads {
  readonly count: number;
  /** What there is `count` of, for messages: "heads". */
  readonly dimension: string;
  /** Matrices of every layer: their names, and the rows that belong to one head. */
  readonly matrices: readonly { readonly name: string; readonly rows: number }[];
  /** Their columns play no part in whether they can be cut. */
  readonly columns: number;
}

type RankContext = Pick<LayerContext, "communicator" | "unshared" | "roundsRows">;

/** What a definition of several ranks is made with. */
export interface RankedModel {
  /** Of the whole group. */
  readonly communicator: Communicator;
  /** That share the attention. */
  readonly attention: Communicator;
  /** What the model and its attention are created with. */
  options<T extends { readonly quantizeActivations: boolean }>(
    given: T,
    roundsRows: boolean,
  ): { readonly model: T & RankContext; readonly attention: T & RankContext };
}

/** @param ranks Absent for one rank. */
export function rankedModel(ranks: DefinedRanks | undefined, heads: SharedHeads): RankedModel {
  const communicator = ranks?.communicator ?? ONE_RANK;
  const problem = ranks && headsProblem(ranks, heads);
  const attention = ranksFor({ communicator }, { name: "self_attn", problem });
  return {
    communicator,
    attention,
    options(given, roundsRows) {
      const unshared = new UnsharedParts();
      const common = { ...given, unshared, roundsRows: roundsRows && given.quantizeActivations };
      ranksFor({ communicator, unshared }, { name: "self_attn", problem });
      return {
        model: { ...common, communicator },
        attention: { ...common, communicator: attention },
      };
    },
  };
}

function headsProblem(
  { communicator, formats }: DefinedRanks,
  { count, dimension, matrices, columns }: SharedHeads,
): string | undefined {
  const { size } = communicator;
  if (size === 1) return undefined;
  const uneven = countProblem(communicator, { count, dimension });
  if (uneven !== undefined) return uneven;
  for (const { name, rows } of matrices) {
    const share = { rows: (count / size) * rows, columns, split: "heads" } as const;
    const problem = cutProblem(communicator, { ...share, format: formats.published(name) });
    if (problem !== undefined) return `${name}: ${problem}`;
  }
  return undefined;
}

/** The weights of a layer's attention, where each rank has all of them. */
export function wholeAttention({ specs }: { readonly specs: readonly WeightSpec[] }) {
  return { specs: specs.map(wholeSpec) };
}
