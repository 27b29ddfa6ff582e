/**
 * The decoder of DeepSeek-V2 and V3: latent attention, dense layers first, mixtures of experts
 * after them. The residual stream is f32; a block's result is added by the norm that follows it.
 *
 * Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 2.1.
 *
 * @module
 */

import { PREFILL_ROW_TILE } from "../../kernels/attention/mla_prefill.ts";
import type { WeightDtype } from "../../kernels/linear/layout.ts";
import { addNorm } from "../../kernels/norm/add_norm.ts";
import type { Addend } from "../../kernels/norm/addend.ts";
import { finalNorm } from "../../kernels/norm/final_norm.ts";
import type { ConfigReader } from "../checkpoint/config.ts";
import type { Quantization } from "../checkpoint/quantization.ts";
import { layerIndex, type WeightSpec } from "../checkpoint/weight_spec.ts";
import { UnsupportedError } from "../errors.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Step } from "../layers/batch.ts";
import type { BlockRows } from "../layers/block_rows.ts";
import { Embedding } from "../layers/embedding.ts";
import { Linear } from "../layers/linear.ts";
import { mergeSpecs, storedDtype } from "../layers/matrix_destination.ts";
import { MlaAttention } from "../layers/mla_attention.ts";
import { allocateMlaScratch, type MlaShape } from "../layers/mla_scratch.ts";
import { Mlp } from "../layers/mlp.ts";
import { allocateMoeScratch, Moe, type MoeShape } from "../layers/moe.ts";
import { ropeTable, softmaxScale } from "../layers/rope_table.ts";
import { type VectorWeight, vectorWeight } from "../layers/vector_weight.ts";
import { type DeepseekConfig, readDeepseekConfig } from "./deepseek_config.ts";
import type { Model, ModelDefinition, ModelOptions, ModelShape, PlanTensors } from "./model.ts";

interface Layer {
  readonly attentionNorm: VectorWeight;
  readonly attention: MlaAttention;
  readonly feedForwardNorm: VectorWeight;
  readonly feedForward: { readonly dense: Mlp } | { readonly experts: Moe };
}

/** Heads times value width from which a split of keys is worth 2048: its partials are that large. */
const WIDE_ATTENTION = 16384;

export function defineDeepseek(
  generation: "v2" | "v3",
  reader: ConfigReader,
  quantization: Quantization,
): ModelDefinition {
  const config = readDeepseekConfig(reader, generation);
  const splitLength = config.heads * config.latent >= WIDE_ATTENTION ? 2048 : 256;
  const shape: ModelShape = {
    vocabularySize: config.vocabularySize,
    contextLength: config.contextLength,
    layers: config.layers,
    cacheEntryWidth: config.latent + config.rope,
    splitLength,
    prefillCapacity: 2 * splitLength,
    prefillRowTile: PREFILL_ROW_TILE,
    maxRowBytes: maxRowBytes(config, splitLength),
  };
  const { method } = quantization;
  if (method !== "none" && method !== "fp8_block") {
    throw new UnsupportedError(`quantization method "${quantization.name}" of ${reader.file}`);
  }
  const quantized = method === "fp8_block";
  return {
    architecture: generation === "v2" ? "DeepseekV2ForCausalLM" : "DeepseekV3ForCausalLM",
    shape,
    create: (options) =>
      new Deepseek(config, shape, {
        ...options,
        quantizeActivations: options.quantizeActivations && quantized,
      }),
  };
}

/** Bytes of the widest activations: what one binding holds bounds the rows of a step. */
function maxRowBytes(config: DeepseekConfig, splitLength: number): ModelShape["maxRowBytes"] {
  const { heads, latent, nope, rope, value, hiddenSize, denseIntermediate, experts } = config;
  const slots = experts === undefined ? 1 : experts.perToken + experts.shared;
  const widths = [
    heads * Math.max(nope + rope, value + 2),
    denseIntermediate,
    slots * Math.max(hiddenSize, experts?.intermediate ?? 0),
  ];
  return {
    row: Math.max(...widths) * 4,
    decodeRow: (contextLength) => Math.ceil(contextLength / splitLength) * heads * (latent + 2) * 4,
  };
}

class Deepseek implements Model {
  readonly specs: readonly WeightSpec[];
  readonly #config: DeepseekConfig;
  readonly #shape: ModelShape;
  readonly #options: ModelOptions;
  readonly #attentionShape: MlaShape;
  readonly #moeShape: MoeShape | undefined;
  readonly #embedding: Embedding;
  readonly #layers: readonly Layer[];
  readonly #norm: VectorWeight;
  readonly #head: Linear;

  constructor(config: DeepseekConfig, shape: ModelShape, options: ModelOptions) {
    const { hiddenSize, vocabularySize, yarn: scaling, nope, rope } = config;
    const { memory, layout } = options;
    this.#config = config;
    this.#shape = shape;
    this.#options = options;
    this.#attentionShape = {
      ...config,
      eps: config.normEps,
      softmaxScale: softmaxScale({ nope, rope, scaling }),
      splitLength: shape.splitLength,
    };
    this.#moeShape = config.experts && { hiddenSize, ...config.experts };
    const common = { vocabularySize, hiddenSize, layout };
    const headName = config.tiedEmbeddings ? "model.embed_tokens" : "lm_head";
    this.#embedding = new Embedding(memory, {
      ...common,
      name: "model.embed_tokens",
      dtype: this.#dtypeOf("model.embed_tokens"),
    });
    this.#head = new Linear(memory, {
      name: headName,
      rows: vocabularySize,
      columns: hiddenSize,
      dtype: this.#dtypeOf(headName),
      split: "rows",
      layout,
    });
    this.#norm = vectorWeight(memory, "model.norm.weight", hiddenSize);
    this.#layers = Array.from({ length: config.layers }, (_, i) => this.#createLayer(i));
    this.specs = [...this.#embeddingSpecs(), ...this.#layers.flatMap(layerSpecs), this.#norm.spec];
  }

  ignores(name: string): boolean {
    if (name === "lm_head.weight" && this.#config.tiedEmbeddings) return true;
    // Layers beyond the last are the multi-token-prediction module.
    return (layerIndex(name) ?? -1) >= this.#config.layers;
  }

  #dtypeOf = (module: string): WeightDtype => {
    const name = `${module}.weight`;
    // A tensor that is missing is reported by the checkpoint's own check.
    return storedDtype(name, this.#options.dtypeOf(name) ?? "BF16");
  };

  #embeddingSpecs(): WeightSpec[] {
    const [table] = this.#embedding.specs;
    if (!this.#config.tiedEmbeddings) return [table!, ...this.#head.specs];
    return mergeSpecs([[table!], this.#head.specs]);
  }

  #createLayer(index: number): Layer {
    const { hiddenSize, denseIntermediate, experts } = this.#config;
    const { memory, layout } = this.#options;
    const name = `model.layers.${index}`;
    const common = { layout, dtypeOf: this.#dtypeOf };
    const norm = (which: string) => vectorWeight(memory, `${name}.${which}.weight`, hiddenSize);
    const sparse =
      experts !== undefined && index >= experts.firstLayer && index % experts.layerPeriod === 0;
    return {
      attentionNorm: norm("input_layernorm"),
      attention: new MlaAttention(memory, this.#attentionShape, {
        name: `${name}.self_attn`,
        ...common,
      }),
      feedForwardNorm: norm("post_attention_layernorm"),
      feedForward: sparse
        ? { experts: new Moe(memory, this.#moeShape!, { name: `${name}.mlp`, ...common }) }
        : {
            dense: new Mlp(memory, {
              name: `${name}.mlp`,
              hiddenSize,
              intermediate: denseIntermediate,
              ...common,
            }),
          },
    };
  }

  compile(plan: Plan<Step>, tensors: PlanTensors): void {
    const { recorder } = plan;
    const { hiddenSize, normEps: eps } = this.#config;
    const { memory, maxRows, quantizeActivations } = this.#options;
    const stride = Math.ceil(hiddenSize / 4) * 4;
    const rows = (label: string, width = stride) =>
      memory.allocate("activations", maxRows * width * 4, label);
    const hidden = rows("hidden rows");
    const normed = rows("normed rows");
    const quantized = quantizeActivations ? rows("quantized rows") : undefined;
    const output = rows("block output");
    const blockRows: BlockRows = { normed, quantized, output, hiddenStride: stride };
    const attention = this.#attentionBinding(tensors, blockRows);
    const dense = this.#denseBinding(blockRows);
    const moe = this.#moeShape && {
      scratch: allocateMoeScratch(memory, this.#moeShape, { maxRows, hiddenStride: stride }),
      ...blockRows,
    };

    plan.group("embedding");
    this.#embedding.compile(plan, { inputs: tensors.inputs, out: hidden, stride });
    plan.tap("embedding", hidden);
    const fromRow: Addend = { kind: "row", tensor: output };
    let addend: Addend | undefined;
    const norm = (weight: VectorWeight, added: Addend | undefined) => {
      const shape = {
        x: hidden,
        weight: weight.tensor,
        normed,
        quantized,
        cols: hiddenSize,
        stride,
      };
      const record = addNorm(recorder, { ...shape, addend: added, eps });
      plan.add((step) => record(step.rows));
    };
    this.#layers.forEach((layer, i) => {
      plan.group(`layer ${i}`);
      norm(layer.attentionNorm, addend);
      if (i > 0) plan.tap(`layer${i - 1}.out`, hidden);
      layer.attention.compile(plan, { ...attention, cache: tensors.cache.layers[i]! });
      plan.tap(`layer${i}.attn_out`, output);
      norm(layer.feedForwardNorm, fromRow);
      plan.tap(`layer${i}.after_attn`, hidden);
      if ("dense" in layer.feedForward) {
        layer.feedForward.dense.compile(plan, dense);
        addend = fromRow;
        return;
      }
      const { scratch } = moe!;
      const { experts } = layer.feedForward;
      experts.compile(plan, moe!);
      plan.tap(`layer${i}.router_logits`, scratch.routerLogits);
      plan.tap(`layer${i}.experts`, scratch.experts);
      plan.tap(`layer${i}.expert_weights`, scratch.weights);
      const { output: y, weights } = scratch;
      addend = { kind: "combine", y, weights, slots: experts.slots };
    });

    plan.group("output head");
    const record = finalNorm(recorder, {
      rowIndices: tensors.inputs.logitRows,
      x: hidden,
      addend,
      weight: this.#norm.tensor,
      out: normed,
      cols: hiddenSize,
      stride,
      eps,
    });
    plan.add((step) => record(step.logitRows));
    plan.tap("final_norm", normed);
    const head = this.#head.bind(recorder, {
      x: normed,
      xStride: stride,
      out: tensors.logits,
      outStride: tensors.logitsStride,
    });
    plan.add((step) => head(step.logitRows));
    plan.tap("logits", tensors.logits);
  }

  #attentionBinding({ inputs, cache }: PlanTensors, rows: BlockRows) {
    const { rope, ropeTheta, yarn } = this.#config;
    const { memory, contextLength, pageSize } = this.#options;
    const table = memory.allocate("weights", contextLength * rope * 4, "rope table");
    const angles = { theta: ropeTheta, dim: rope, scaling: yarn, positions: contextLength };
    memory.write(table, 0, ropeTable(angles) as Float32Array<ArrayBuffer>);
    const { prefillCapacity } = this.#shape;
    return {
      scratch: allocateMlaScratch(memory, this.#attentionShape, {
        ...this.#options,
        prefillCapacity,
      }),
      inputs,
      ropeTable: table,
      cacheDtype: cache.shape.dtype,
      pageSize,
      prefillCapacity,
      ...rows,
    };
  }

  #denseBinding(rows: BlockRows) {
    const { memory, maxRows } = this.#options;
    const intermediateStride = Math.ceil(this.#config.denseIntermediate / 4) * 4;
    return {
      ...rows,
      intermediate: memory.allocate(
        "activations",
        maxRows * intermediateStride * 4,
        "dense intermediates",
      ),
      intermediateStride,
    };
  }
}

function layerSpecs({ attentionNorm, attention, feedForwardNorm, feedForward }: Layer) {
  const block = "dense" in feedForward ? feedForward.dense : feedForward.experts;
  return [attentionNorm.spec, ...attention.specs, feedForwardNorm.spec, ...block.specs];
}
