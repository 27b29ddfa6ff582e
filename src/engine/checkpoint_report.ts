/**
 * What is told of a checkpoint: its sizes, and how many devices hold it.
 *
 * @module
 */
import type { Quantization } from "../checkpoint/quantization.ts";
import type { WeightSource } from "../checkpoint/source.ts";
import type { Unshared } from "../layers/ranks/unshared.ts";
import type { AttentionFacts, ModelFacts } from "../models/model.ts";
import type { DraftReport } from "./draft_model/inspect_draft.ts";
import type { VisionBytes } from "./load/memory_budget.ts";
import type { Fit, ParameterCount } from "./load/sizing.ts";

export interface InspectOptions {
  /** Bytes of one device, each to be answered for. Default 8, 24, 80 and 141 GiB. */
  readonly deviceMemory?: readonly number[] | undefined;
  /** Share of it for weights and KV cache. Default 0.88. */
  readonly memFractionStatic?: number | undefined;
  /** Tokens of one sequence. Default, and at most: what the model is defined for. */
  readonly contextLength?: number | undefined;
  /** Sequences of that length to be cached at once. Default 1. */
  readonly concurrency?: number | undefined;
  /** A model that is to draft beside it, or an exported layer. Default: none. */
  readonly draftModel?: WeightSource | undefined;
  /** Ranks of which is told what each would hold. Default 1: nothing is told. */
  readonly tensorParallelSize?: number | undefined;
  /** Groups of these ranks that attend to different sequences, a divisor of how many there are. Default 1. */
  readonly attentionGroups?: number | undefined;
  /** As for an engine. */
  readonly headByGroup?: boolean | undefined;
  readonly wholeDenseLayers?: boolean | undefined;
}

/** What each of several ranks would hold of the weights as published. */
export interface RanksReport {
  readonly size: number;
  /** That attend to different sequences. */
  readonly attentionGroups: number;
  /** Undefined where the model cannot be loaded. */
  readonly gpuBytes: number | undefined;
  /** BF16 keys and values of the sequences that are asked for, or of a group's part of them. */
  readonly cacheBytes: number;
  /** Ranks, of one group, that hold the same of these. */
  readonly cacheCopies: number;
  /** What each of them would hold and compute whole. */
  readonly unshared: readonly Unshared[];
}

export interface CheckpointReport {
  /** Path or address. */
  readonly name: string;
  readonly architecture: string;
  readonly layers: number;
  readonly hiddenSize: number;
  readonly attention: AttentionFacts;
  /** Positions that the model is defined for. */
  readonly contextLength: number;
  readonly vocabularySize: number;
  readonly experts: Omit<NonNullable<ModelFacts["experts"]>, "groups"> | undefined;
  readonly tiedEmbeddings: boolean;
  /** Layers that predict the token after the next, which `speculation` can draft with; 0 for none. */
  readonly draftLayers: number;
  /** What a vision tower takes of the weights, and for its largest picture; absent without one. */
  readonly vision?: VisionBytes;
  /** As published; `method` is "none" for plain weights. */
  readonly quantization: Quantization;
  readonly parameters: ParameterCount;
  /** What the files hold; undefined while some are missing. */
  readonly stored: StoredBytes | undefined;
  /** Files of weights that are not there. */
  readonly missing: readonly string[];
  /** Why it cannot be loaded as it is. */
  readonly problem: string | undefined;
  /** Bytes of one token's keys and values, by how the cache stores them. */
  readonly cacheBytesPerToken: {
    readonly bf16: number;
    readonly f32: number;
    readonly fp8: number;
  };
  /** The model that is to draft beside it; absent without one, and where it is a layer of this one. */
  readonly draft?: DraftReport;
  /** What the devices are asked to hold beside the weights. */
  readonly demand: Demand;
  readonly weights: readonly WeightsReport[];
  /** Absent for one rank. */
  readonly ranks?: RanksReport;
}

export interface StoredBytes {
  readonly total: number;
  /** By element type, as the files spell it. */
  readonly byDtype: Readonly<Record<string, number>>;
  /** Of tensors that nothing reads, as those of multi-token prediction. */
  readonly unused: number;
}

export interface Demand {
  readonly contextLength: number;
  readonly concurrency: number;
  /** BF16 keys and values of so many tokens, those of the draft model among them. */
  readonly cacheBytes: number;
  readonly memFractionStatic: number;
}

/** The same weights in one form. */
export interface WeightsReport {
  /**
   * "published", a value of the option `quantization` that applies, or the weight type that a
   * checkpoint of this shape could have: "fp8", "bf16", "awq", "int8".
   */
  readonly form: string;
  readonly kind: "published" | "upload" | "shape";
  /** Undefined where the shape does not come in this form, as `problem` says. */
  readonly gpuBytes: number | undefined;
  readonly problem: string | undefined;
  /** One for each `deviceMemory`; without `fit` it does not fit on any number of them. */
  readonly devices: readonly { readonly deviceMemory: number; readonly fit: Fit | undefined }[];
}
