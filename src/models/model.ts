/**
 * What an architecture is to the engine: a config it understands, weights it wants, and a plan.
 *
 * @module
 */

import { isFp8 } from "../../kernels/cache/cache_kernel.ts";
import type { WeightDtype } from "../../kernels/linear/weights/layout.ts";
import type { CacheDtype, KvCacheShape } from "../cache/kv_cache.ts";
import type { ConfigReader } from "../checkpoint/config.ts";
import type { Quantization } from "../checkpoint/quantization.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import type { Plan } from "../gpu/plan.ts";
import type { PartedRopeShape } from "../layers/attention/parted_rope.ts";
import type { Step } from "../layers/batch.ts";
import type { ExpertHits } from "../layers/moe/expert_hits.ts";
import type { DefinedRanks } from "../layers/ranks/ranked_model.ts";
import type { Unshared } from "../layers/ranks/unshared.ts";
import type { MatrixFormat } from "../layers/weights/matrix_format.ts";
import type { DraftNetwork } from "./drafts/draft_network.ts";
import type { CreateOptions, DraftBinding, PlanTensors } from "./model_options.ts";
import type { NumericClasses } from "./numeric_class.ts";
import type { VisionTower } from "./vision/vision_tower.ts";

/** Numbers that the engine plans with; of the cache and of activations, those of one rank. */
export interface ModelShape {
  readonly vocabularySize: number;
  /** Width of a row between layers, and of an embedding. */
  readonly hiddenSize: number;
  /** Positions the model is defined for. */
  readonly contextLength: number;
  readonly layers: number;
  /** Layers of the checkpoint's multi-token-prediction modules; 0 for none. */
  readonly draftLayers: number;
  /** Elements of one token's cache entry in one layer. */
  readonly cacheEntryWidth: number;
  /** Bytes of it in FP8: codes, their scales and what stays in BF16. */
  readonly cacheEntryFp8Bytes: number;
  /** Keys of one attention split: a function of the shape alone. */
  readonly splitLength: number;
  /**
   * Bytes of one cached entry as prompt attention expands it, in all tensors of its workspace and in
   * the widest of them; undefined when it reads the cache as it stands.
   */
  readonly expandedEntry: { readonly bytes: number; readonly widest: number } | undefined;
  /** Whether prompt rows run another form of attention than generated ones, with other bits. */
  readonly promptsDiffer: boolean;
  /** Rows of one work item of prompt attention. */
  readonly prefillRowTile: number;
  /** Where positions have parts, of which each turns some pairs of a head. */
  readonly partedRope?: PartedRopeShape | undefined;
  /** Bytes of the widest activations of one row, and of one row of generated tokens. */
  readonly maxRowBytes: { readonly row: number; decodeRow(contextLength: number): number };
}

/** A model laid out in memory. Weights are undefined until its specs are loaded. */
export interface Model {
  readonly specs: readonly WeightSpec[];
  /** A format of each dtype that its matrices have on the GPU. */
  readonly weightFormats: ReadonlyMap<WeightDtype, MatrixFormat>;
  readonly numericClasses: NumericClasses;
  /** Whether its plan heeds `Step.onlyBest`. */
  readonly findsBest: boolean;
  /** What every rank of several holds and computes whole. */
  readonly unshared: readonly Unshared[];
  /** Has the slots of a layer hold other experts; absent in models without experts. */
  moveExperts?(device: GPUDevice, layer: number, after: readonly number[]): Promise<void>;
  /** Where choices of experts are counted; absent in models without experts. */
  readonly expertHits?: ExpertHits | undefined;
  /** Tensors of the checkpoint that are known and not wanted. */
  ignores(name: string): boolean;
  /** Binds the launches of one step. */
  compile(plan: Plan<Step>, tensors: PlanTensors): BindDrafts;
  /** What it is to a model that it drafts for. */
  asDraft(): DraftNetwork;
  /** Makes rows of pictures; absent in models of text alone. */
  readonly vision?: VisionTower;
  /** Bytes of the weights that it has for them. */
  readonly visionWeightBytes?: number;
}

/**
 * Binds the launches of drafts, and adds those that run in front of the drawing of tokens.
 *
 * @param network Makes the drafts, in place of the model's own module.
 * @returns What adds the others, behind the drawing.
 */
export type BindDrafts = (tensors: DraftBinding, network: DraftNetwork | undefined) => () => void;

/** How a model attends, in the numbers its config has. */
export type AttentionFacts =
  | {
      readonly kind: "mla";
      readonly heads: number;
      /** Width of the query's latent; `null` when queries are projected in one step. */
      readonly queryLatent: number | null;
      /** Width of the latent that keys and values share. */
      readonly latent: number;
      /** Elements per head without and with rotation, and of a value. */
      readonly nope: number;
      readonly rope: number;
      readonly value: number;
    }
  | {
      readonly kind: "gqa";
      readonly heads: number;
      readonly kvHeads: number;
      readonly headDim: number;
    };

/** What people ask about a model; nothing is computed with it. */
export interface ModelFacts {
  readonly attention: AttentionFacts;
  readonly experts:
    | {
        readonly routed: number;
        readonly perToken: number;
        readonly shared: number;
        /** Groups that the router tells apart; 1 for none. */
        readonly groups: number;
      }
    | undefined;
  /** Whether the token table is the output head too. */
  readonly tiedEmbeddings: boolean;
}

/** How a model sees pictures, by the family whose processor prepares them. */
export type VisionFacts =
  | {
      readonly kind: "idefics3";
      /** Token in whose place each row of a picture stands. */
      readonly placeholder: number;
      readonly patchSide: number;
      /** Pixels of a side of a tile, and rows that it becomes. */
      readonly tileSide: number;
      readonly tileTokens: number;
    }
  | {
      readonly kind: "llava";
      readonly placeholder: number;
      readonly patchSide: number;
      /** Pixels of a side, and rows that a picture becomes. */
      readonly side: number;
      readonly tokens: number;
    }
  | {
      readonly kind: "qwen2_5_vl";
      readonly placeholder: number;
      readonly patchSide: number;
      /** Patches of a side of the square that becomes one row, such rows of a window's side. */
      readonly merge: number;
      readonly window: number;
      /** Patches of a picture at most. */
      readonly maxPatches: number;
    }
  | {
      readonly kind: "deepseek_vl2";
      readonly patchSide: number;
      /** Pixels of a side of a tile, of the part that patches cover, and rows of a tile's side. */
      readonly tileSide: number;
      readonly seenSide: number;
      readonly rowSide: number;
      /** Sizes that pictures are cut into tiles in: width and height. */
      readonly resolutions: readonly (readonly [width: number, height: number])[];
    };

/** A checkpoint's config, understood, for one of the ranks that share the model. */
export interface ModelDefinition {
  readonly architecture: string;
  readonly shape: ModelShape;
  readonly facts: ModelFacts;
  /** Absent in models of text alone. */
  readonly vision?: VisionFacts;
  create(options: CreateOptions): Model;
}

export interface ModelArchitecture {
  /** Class names in `architectures` of config.json. */
  readonly names: readonly string[];
  /**
   * @param ranks Which of how many ranks it is for. Default: one rank.
   * @throws {CheckpointError | UnsupportedError} naming the field.
   */
  define(config: ConfigReader, quantization: Quantization, ranks?: DefinedRanks): ModelDefinition;
}

/** @param drafts Whether the draft module's layers have a cache too. */
export function kvCacheShape(shape: ModelShape, dtype: CacheDtype, drafts = false): KvCacheShape {
  const entryWidth = isFp8(dtype) ? shape.cacheEntryFp8Bytes : shape.cacheEntryWidth;
  return { layers: shape.layers + (drafts ? shape.draftLayers : 0), entryWidth, dtype };
}
