/**
 * Decoders with grouped-query attention: Llama, Mistral, Qwen and gpt-oss are this with different
 * switches.
 *
 * @module
 */
import { GQA_PREFILL_ROW_TILE } from "../../kernels/attention/gqa/gqa_prefill.ts";
import { gqaFp8EntryBytes } from "../../kernels/cache/gqa_write.ts";
import { normedShape } from "../../kernels/norm/normed_rows.ts";
import type { ConfigReader } from "../checkpoint/config.ts";
import type { Quantization } from "../checkpoint/quantization.ts";
import {
  allocateGqaScratch,
  GqaAttention,
  type GqaShape,
} from "../layers/attention/gqa_attention.ts";
import { ropeTable } from "../layers/attention/rope_table.ts";
import { isFused } from "../layers/block_rows.ts";
import { gatheredWidth } from "../layers/ranks/rank_sums.ts";
import {
  type DefinedRanks,
  headCopies,
  rankedModel,
  type SharedHeads,
  sharedAttention,
} from "../layers/ranks/ranked_model.ts";
import type { RankOf } from "../parallel/communicator.ts";
import { activationRounding } from "./activation_rounding.ts";
import { type GqaConfig, type GqaFamily, readGqaConfig } from "./config/gqa_config.ts";
import { Decoder } from "./decoder.ts";
import type { AttentionBlocks, DecoderShape } from "./decoder_shape.ts";
import type { ModelArchitecture, ModelDefinition, ModelShape } from "./model.ts";
import type { ModelOptions } from "./model_options.ts";

/** Keys of a split: its partials are small, and a long context gives many workgroups work. */
const SPLIT_LENGTH = 256;

export function gqaArchitecture(family: GqaFamily): ModelArchitecture {
  return {
    names: [family.architecture],
    define: (reader, quantization, ranks) => define(family, { reader, quantization, ranks }),
  };
}

function define(
  family: GqaFamily,
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
  const whole = readGqaConfig(reader, family);
  reader.finish({ ignored: ["quantization_config", "compression_config"] });
  const shared = sharedHeads(whole);
  const ranked = rankedModel(ranks, shared);
  const kvCopies = headCopies(shared, ranked.attention);
  const config = {
    ...whole,
    heads: whole.heads / ranked.attention.size,
    kvHeads: (whole.kvHeads * kvCopies) / ranked.attention.size,
    kvCopies,
  };
  const rounding = activationRounding(quantization);
  const normed = normedShape(config.hiddenSize, isFused(rounding)).stride;
  const shape = gqaModelShape(config, Math.max(normed, gatheredRow(whole, ranked.communicator)));
  const { hiddenSize, intermediate, bias, experts } = config;
  const decoder: DecoderShape = {
    ...config,
    mlp: { intermediate, bias: bias.mlp },
    experts: experts && { hiddenSize, ...experts },
    rounding,
  };
  return {
    architecture: config.architecture,
    shape,
    facts: {
      attention: {
        kind: "gqa",
        heads: whole.heads,
        kvHeads: whole.kvHeads,
        headDim: whole.headDim,
      },
      experts,
      tiedEmbeddings: config.tiedEmbeddings,
    },
    create: (given) => {
      const { model, attention } = ranked.options(given, rounding?.group === "row");
      return new Decoder(decoder, gqaBlocks(config, attention), model);
    },
  };
}

/** @param widest Elements of the widest row beside those of the layers. */
export function gqaModelShape(config: GqaConfig, widest: number): ModelShape {
  const { heads, kvHeads, headDim } = config;
  return {
    vocabularySize: config.vocabularySize,
    hiddenSize: config.hiddenSize,
    contextLength: config.rope.contextLength,
    layers: config.layers,
    draftLayers: 0,
    cacheEntryWidth: 2 * kvHeads * headDim,
    cacheEntryFp8Bytes: gqaFp8EntryBytes(kvHeads, headDim),
    splitLength: SPLIT_LENGTH,
    expandedEntry: undefined,
    promptsDiffer: false,
    prefillRowTile: GQA_PREFILL_ROW_TILE,
    partedRope: config.rope.parts && { ...config.rope, parts: config.rope.parts },
    maxRowBytes: {
      row: Math.max(widest, widestRow(config)) * 4,
      decodeRow: (context) => Math.ceil(context / SPLIT_LENGTH) * heads * (headDim + 2) * 4,
    },
  };
}

/** Heads of keys and values, each with the heads of queries that read it. */
function sharedHeads({ heads, kvHeads, headDim, hiddenSize, layers }: GqaConfig): SharedHeads {
  const matrices = Array.from({ length: layers }, (_, i) => [
    {
      name: `model.layers.${i}.self_attn.q_proj`,
      rows: (heads / kvHeads) * headDim,
      isOfReaders: true,
    },
    { name: `model.layers.${i}.self_attn.k_proj`, rows: headDim },
    { name: `model.layers.${i}.self_attn.v_proj`, rows: headDim },
  ]).flat();
  const readers = heads / kvHeads;
  return { count: kvHeads, readers, dimension: "heads of keys", matrices, columns: hiddenSize };
}

/** Elements of a row of what all ranks send at once: attention's output, or sums. */
function gatheredRow({ hiddenSize, heads, headDim, intermediate }: GqaConfig, { size }: RankOf) {
  const columns = [heads * headDim, intermediate];
  return Math.max(heads * headDim, gatheredWidth(hiddenSize, { size, columns }));
}

/** Elements of the widest activations of a row, the normed ones aside: what one binding holds bounds the rows of a step. */
function widestRow({ heads, kvHeads, headDim, hiddenSize, intermediate, experts }: GqaConfig) {
  const slots = experts === undefined ? 1 : experts.perToken + experts.shared;
  return Math.max(
    (heads + 2 * kvHeads) * headDim,
    intermediate,
    slots * Math.max(hiddenSize, experts?.intermediate ?? 0),
  );
}

/** @param special `name`: of a layer, in front of its tensors' names; `inputSize`: of the rows that it projects. */
export function gqaBlocks(
  config: GqaConfig & Pick<GqaShape, "kvCopies">,
  options: ModelOptions,
  special: { readonly name?: (layer: number) => string; readonly inputSize?: number } = {},
): AttentionBlocks {
  const { name: nameOf = (layer) => `model.layers.${layer}`, ...input } = special;
  const { rope, headDim, windows, layers: count } = config;
  const shape: GqaShape = {
    ...config,
    ...input,
    rotary: rope.dim,
    eps: config.normEps,
    softmaxScale: headDim ** -0.5,
    splitLength: SPLIT_LENGTH,
  };
  const layers = Array.from({ length: count }, (_, i) => {
    const name = `${nameOf(i)}.self_attn`;
    return new GqaAttention(options, shape, { name, window: windows[i] });
  });
  return {
    layers: layers.map((layer) => sharedAttention(layer, options.communicator)),
    bind({ inputs, cache }, rows) {
      const { memory, contextLength: positions, pageSize } = options;
      const { parted } = inputs;
      const table =
        parted?.turns ?? memory.allocate("weights", positions * rope.dim * 4, "rope table");
      if (parted === undefined) {
        memory.write(table, 0, ropeTable({ ...rope, positions }) as Float32Array<ArrayBuffer>);
      }
      const scratch = allocateGqaScratch(memory, shape, options);
      const cacheDtype = cache.shape.dtype;
      const binding = { scratch, inputs, ropeTable: table, cacheDtype, pageSize, ...rows };
      return (plan, i, residual, own = inputs, its = rows) => {
        const given = { ...binding, ...its, inputs: own };
        return layers[i]!.compile(plan, { ...given, residual, cache: cache.layers[i]! });
      };
    },
  };
}
