/**
 * The ranks that share a model's attention: each has whole heads of all layers, or each has all.
 *
 * @module
 */
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import {
  attentionRanks,
  type Communicator,
  ONE_RANK,
  type RankOf,
} from "../../parallel/communicator.ts";
import type { LayerContext } from "../layer_context.ts";
import type { MatrixFormats } from "../weights/matrix_format.ts";
import { cutProblem, specOnRank, wholeSpec } from "./rank_specs.ts";
import { countProblem, ranksFor, UnsharedParts } from "./unshared.ts";

/** The ranks that a model is defined for, and how the checkpoint keeps what they share. */
export interface DefinedRanks {
  readonly communicator: Communicator;
  readonly formats: MatrixFormats;
}

/** Heads that are shared out, each with rows of some matrices. */
export interface SharedHeads {
  readonly count: number;
  /** Heads of queries that read each; ranks may share them out where there are more ranks than `count`. */
  readonly readers?: number;
  /** What there is `count` of, for messages: "heads". */
  readonly dimension: string;
  /** Matrices of every layer: their names, and the rows that belong to one head. */
  readonly matrices: readonly {
    readonly name: string;
    readonly rows: number;
    /** Whether the rows are of the readers: ranks that have the same head have parts of them. */
    readonly isOfReaders?: boolean;
  }[];
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
  const sharing = attentionRanks(communicator);
  const problem = ranks && headsProblem({ ...ranks, communicator: sharing }, heads);
  const attention = ranksFor({ communicator: sharing }, { name: "self_attn", problem });
  return {
    communicator,
    attention,
    options(given, roundsRows) {
      const unshared = new UnsharedParts();
      const common = { ...given, unshared, roundsRows: roundsRows && given.quantizeActivations };
      ranksFor({ communicator: sharing, unshared }, { name: "self_attn", problem });
      if (headCopies(heads, attention) > 1) {
        const why = `its ${heads.count} ${heads.dimension} are fewer than ${attention.size} ranks`;
        unshared.add("one head of self_attn.k_proj and v_proj", why);
      }
      return {
        model: { ...common, communicator },
        attention: { ...common, communicator: attention },
      };
    },
  };
}

/** Ranks in a row that have the same head, with parts of its readers; 1 where there are enough heads. */
export function headCopies({ count, readers = 1 }: SharedHeads, { size }: RankOf): number {
  const copies = size / count;
  return Number.isInteger(copies) && readers % copies === 0 ? copies : 1;
}

function headsProblem(
  { communicator, formats }: DefinedRanks,
  heads: SharedHeads,
): string | undefined {
  const { count, dimension, matrices, columns } = heads;
  const { size } = communicator;
  if (size === 1) return undefined;
  const copies = headCopies(heads, communicator);
  const uneven = countProblem(communicator, { count: count * copies, dimension });
  if (uneven !== undefined) return uneven;
  for (const { name, rows, isOfReaders = false } of matrices) {
    const ofHead = isOfReaders ? rows / copies : rows;
    const share = { rows: ((count * copies) / size) * ofHead, columns, split: "heads" } as const;
    const problem = cutProblem(communicator, { ...share, format: formats.published(name) });
    if (problem !== undefined) return `${name}: ${problem}`;
  }
  return undefined;
}

/** The weights of a layer's attention, of which one of the ranks that share it has its part. */
export function sharedAttention(
  { specs }: { readonly specs: readonly WeightSpec[] },
  attention: RankOf,
) {
  return { specs: specs.map((spec) => wholeSpec(specOnRank(spec, attention))) };
}
