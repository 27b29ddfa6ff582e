/**
 * The decoder of DeepSeek-V2 and V3: latent attention, dense layers first, mixtures of experts
 * after them.
 *
 * Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 2.1.
 *
 * @module
 */

import { PREFILL_ROW_TILE } from "../../kernels/attention/mla/mla_prefill.ts";
import { mlaFp8EntryBytes } from "../../kernels/cache/mla_write.ts";
import { normedShape } from "../../kernels/norm/normed_rows.ts";
import type { ConfigReader } from "../checkpoint/config.ts";
import type { Quantization } from "../checkpoint/quantization.ts";
import { largestOf } from "../extremes.ts";
import { MlaAttention } from "../layers/attention/mla_attention.ts";
import {
  allocateMlaScratch,
  expandedEntry,
  type MlaShape,
} from "../layers/attention/mla_scratch.ts";
import { ropeTable, softmaxScale } from "../layers/attention/rope_table.ts";
import { isFused } from "../layers/block_rows.ts";
import { gatheredWidth } from "../layers/ranks/rank_sums.ts";
import {
  type DefinedRanks,
  rankedModel,
  type SharedHeads,
  sharedAttention,
} from "../layers/ranks/ranked_model.ts";
import { activationRounding } from "./activation_rounding.ts";
import { type DeepseekConfig, readDeepseekConfig } from "./config/deepseek_config.ts";
import { Decoder } from "./decoder.ts";
import type { AttentionBlocks, DecoderShape } from "./decoder_shape.ts";
import type { ModelDefinition, ModelFacts, ModelShape } from "./model.ts";
import type { ModelOptions } from "./model_options.ts";

/**
 * Added to the mean squares of both latents: the published code makes their norms with its default
 * and gives `rms_norm_eps` to all others.
 */
const LATENT_NORM_EPS = 1e-6;
/** Heads times value width from which a split of keys is worth 2048: its partials are that large. */
const WIDE_ATTENTION = 16384;

export function defineDeepseek(
  generation: "v2" | "v3",
  {
    reader,
    quantization,
    ranks,
  }: {
    readonly reader: ConfigReader;
    readonly quantization: Quantization;
    readonly ranks: DefinedRanks | undefined;
  },
): ModelDefinition {
  const whole = readDeepseekConfig(reader, generation);
  const ranked = rankedModel(ranks, sharedHeads(whole));
  const config = { ...whole, heads: whole.heads / ranked.attention.size };
  const rounding = activationRounding(quantization);
  const { size } = ranked.communicator;
  const sizes = { size, allHeads: whole.heads, rounds: isFused(rounding) };
  const shape = latentShape(config, sizes);
  const decoder = { ...decoderShape(config), rounding };
  return {
    architecture: generation === "v2" ? "DeepseekV2ForCausalLM" : "DeepseekV3ForCausalLM",
    shape,
    facts: factsOf(whole),
    create: (given) => {
      const { model, attention } = ranked.options(given, rounding?.group === "row");
      return new Decoder(decoder, mlaBlocks(config, shape, attention), model);
    },
  };
}

/**
 * @param config With the heads that one of `size` ranks has.
 * @param options `allHeads`: of all ranks together; `rounds`: whether norms round what they write.
 */
export function latentShape(
  config: DeepseekConfig,
  options: { readonly size: number; readonly allHeads: number; readonly rounds: boolean },
): ModelShape {
  const splitLength = options.allHeads * config.latent >= WIDE_ATTENTION ? 2048 : 256;
  return {
    vocabularySize: config.vocabularySize,
    hiddenSize: config.hiddenSize,
    contextLength: config.contextLength,
    layers: config.layers,
    draftLayers: config.draftLayers,
    cacheEntryWidth: config.latent + config.rope,
    cacheEntryFp8Bytes: mlaFp8EntryBytes(config.latent, config.rope),
    splitLength,
    expandedEntry: expandedEntry(config),
    promptsDiffer: true,
    prefillRowTile: PREFILL_ROW_TILE,
    maxRowBytes: maxRowBytes(config, { splitLength, ...options }),
  };
}

function factsOf(config: DeepseekConfig): ModelFacts {
  const { tiedEmbeddings, experts } = config;
  const { heads, queryLatent, latent, nope, rope, value } = config;
  return {
    attention: { kind: "mla", heads, queryLatent, latent, nope, rope, value },
    experts,
    tiedEmbeddings,
  };
}

function decoderShape(config: DeepseekConfig): Omit<DecoderShape, "rounding"> {
  const { hiddenSize, experts } = config;
  return {
    ...config,
    mlp: { intermediate: config.denseIntermediate, bias: false },
    experts: experts && {
      hiddenSize,
      ...experts,
      isSparse: (layer) => layer >= experts.firstLayer && layer % experts.layerPeriod === 0,
    },
  };
}

/** Bytes of the widest activations: what one binding holds bounds the rows of a step. */
function maxRowBytes(
  config: DeepseekConfig,
  options: {
    readonly splitLength: number;
    readonly size: number;
    readonly allHeads: number;
    readonly rounds: boolean;
  },
): ModelShape["maxRowBytes"] {
  const { splitLength, size, allHeads, rounds } = options;
  const { heads, latent, nope, rope, value, hiddenSize, denseIntermediate, experts } = config;
  const slots = experts === undefined ? 1 : experts.perToken + experts.shared;
  const widths = [
    normedShape(hiddenSize, rounds).stride,
    heads * Math.max(nope + rope, value),
    denseIntermediate,
    slots * Math.max(hiddenSize, experts?.intermediate ?? 0),
    // Attention's output of all ranks, or sums of it.
    allHeads * value,
    gatheredWidth(hiddenSize, { size, columns: [allHeads * value, denseIntermediate] }),
  ];
  return {
    row: largestOf(widths) * 4,
    decodeRow: (contextLength) => Math.ceil(contextLength / splitLength) * heads * (latent + 2) * 4,
  };
}

function sharedHeads({
  heads,
  nope,
  rope,
  value,
  queryLatent,
  latent,
  ...config
}: DeepseekConfig): SharedHeads {
  const query = queryLatent === null ? "q_proj" : "q_b_proj";
  const matrices = Array.from({ length: config.layers + config.draftLayers }, (_, i) => [
    { name: `model.layers.${i}.self_attn.${query}`, rows: nope + rope },
    { name: `model.layers.${i}.self_attn.kv_b_proj`, rows: nope + value },
  ]).flat();
  return { count: heads, dimension: "heads", matrices, columns: latent };
}

/** @param special `name`: of a layer, in front of its tensors' names; `inputSize`: of the rows that it projects. */
export function mlaBlocks(
  config: DeepseekConfig,
  { splitLength }: Pick<ModelShape, "splitLength">,
  options: ModelOptions,
  special: { readonly name?: (layer: number) => string; readonly inputSize?: number } = {},
): AttentionBlocks {
  const { name: nameOf = (layer) => `model.layers.${layer}`, ...input } = special;
  const { nope, rope, ropeTheta, yarn: scaling } = config;
  const shape: MlaShape = {
    ...config,
    ...input,
    eps: LATENT_NORM_EPS,
    softmaxScale: softmaxScale({ nope, rope, scaling }),
    splitLength,
  };
  const layers = Array.from(
    { length: config.layers + (options.drafts ? config.draftLayers : 0) },
    (_, i) => new MlaAttention(options, shape, `${nameOf(i)}.self_attn`),
  );
  return {
    layers: layers.map((layer) => sharedAttention(layer, options.communicator)),
    bind({ inputs, cache }, rows) {
      const { memory, contextLength: positions, pageSize, prefillCapacity } = options;
      const table = memory.allocate("weights", positions * rope * 4, "rope table");
      const angles = { theta: ropeTheta, dim: rope, scaling, positions };
      memory.write(table, 0, ropeTable(angles) as Float32Array<ArrayBuffer>);
      const scratch = allocateMlaScratch(memory, shape, options);
      const binding = {
        scratch,
        inputs,
        ropeTable: table,
        cacheDtype: cache.shape.dtype,
        pageSize,
        prefillCapacity,
        ...rows,
      };
      return (plan, i, residual, own = inputs, its = rows) => {
        const given = { ...binding, ...its, inputs: own };
        return layers[i]!.compile(plan, { ...given, residual, cache: cache.layers[i]! });
      };
    },
  };
}
