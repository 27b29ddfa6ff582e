/**
 * Llama, Mistral, Qwen2, Qwen3, Qwen3-MoE and gpt-oss in plain loops and f64, to compare the engine
 * with: one sequence, no cache but arrays. It shares no code with the models it judges and reads
 * config.json itself.
 *
 * @module
 */
import { type Fp8Dtype, roundFp8 } from "../../../kernels/cache/host_fp8.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { decodeBf16, encodeBf16 } from "../../../src/dtype.ts";
import {
  addTo,
  dot,
  largest,
  logSoftmax,
  matrixTimes,
  type Row,
  roundInput,
  rowOf,
} from "./reference_math.ts";
import { type RopeAngles, type RopeSection, referenceRope } from "./reference_rope.ts";
import { type ReferenceTensor, referenceWeights } from "./reference_weights.ts";

export interface GqaReferenceOptions {
  /** Rounds what a cache would hold, to BF16 when true. */
  readonly roundCache?: boolean | Fp8Dtype;
  /** Rounds the inputs of quantized linears as their scheme says. */
  readonly quantizeActivations?: boolean;
  /** Positions the engine was opened with. Default `max_position_embeddings`. */
  readonly positions?: number;
  /** Relative size of random noise on every normed value: how sensitive the answer is. */
  readonly noise?: number;
}

/** The fields of config.json that matter; absent ones as the public code takes them. */
interface Config {
  readonly architectures: readonly string[];
  readonly hidden_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads?: number;
  readonly head_dim?: number;
  readonly max_position_embeddings: number;
  readonly original_max_position_embeddings?: number;
  readonly partial_rotary_factor?: number;
  readonly rms_norm_eps?: number;
  readonly rope_theta?: number;
  readonly rope_scaling?: RopeSection | null;
  readonly rope_parameters?: RopeSection;
  readonly sliding_window?: number | null;
  readonly use_sliding_window?: boolean;
  readonly max_window_layers?: number;
  readonly layer_types?: readonly string[];
  readonly num_experts?: number;
  readonly num_experts_per_tok?: number;
  readonly norm_topk_prob?: boolean;
  readonly decoder_sparse_step?: number;
  readonly mlp_only_layers?: readonly number[];
  readonly swiglu_alpha?: number;
  readonly swiglu_limit?: number;
}

type Weights = ReadonlyMap<string, ReferenceTensor>;

export class ReferenceGqa {
  readonly #config: Config;
  readonly #weights: Weights;
  readonly #options: GqaReferenceOptions;
  readonly #heads: number;
  readonly #kvHeads: number;
  readonly #headDim: number;
  readonly #rotary: number;
  readonly #rope: RopeAngles;
  #noise = 1;

  constructor(config: Config, weights: Weights, options: GqaReferenceOptions = {}) {
    const { num_attention_heads: heads, max_position_embeddings: maxPosition } = config;
    this.#config = config;
    this.#weights = weights;
    this.#options = options;
    this.#heads = heads;
    this.#kvHeads = config.num_key_value_heads ?? heads;
    this.#headDim = config.head_dim ?? config.hidden_size / heads;
    this.#rotary = this.#headDim * (config.partial_rotary_factor ?? 1);
    const section = config.rope_parameters ?? config.rope_scaling ?? {};
    this.#rope = referenceRope(section, {
      theta: section.rope_theta ?? config.rope_theta ?? 10000,
      dim: this.#rotary,
      positions: options.positions ?? maxPosition,
      original: config.original_max_position_embeddings ?? maxPosition,
      maxPosition,
    });
  }

  static async open(source: WeightSource, options?: GqaReferenceOptions): Promise<ReferenceGqa> {
    const file = (await source.list()).find(({ name }) => name === "config.json")!;
    const text = new TextDecoder().decode(await source.read(file.name, 0, file.size));
    return new ReferenceGqa(JSON.parse(text), await referenceWeights(source), options);
  }

  /** The same model under other options, or with other numbers in some of its matrices. */
  with(options: GqaReferenceOptions, changed: Weights = new Map()): ReferenceGqa {
    return new ReferenceGqa(this.#config, new Map([...this.#weights, ...changed]), options);
  }

  get weights(): Weights {
    return this.#weights;
  }

  /** Log-probabilities of the whole vocabulary after each token. */
  logProbabilities(tokens: readonly number[]): Row[] {
    return this.states(tokens).final.map((row) => logSoftmax(this.head(row)));
  }

  embedding(token: number): Row {
    return rowOf(this.#tensor("model.embed_tokens.weight"), token).slice();
  }

  head(row: Row): Row {
    // A tied head may have been given numbers of its own.
    const head = this.#weights.has("lm_head.weight") ? "lm_head" : "model.embed_tokens";
    return this.linear(row, head);
  }

  /** Rows in front of each layer, and behind the final norm. */
  states(tokens: readonly number[]): { readonly layers: Row[][]; readonly final: Row[] } {
    const hidden = tokens.map((token) => this.embedding(token));
    const layers: Row[][] = [];
    for (let layer = 0; layer < this.#config.num_hidden_layers; layer++) {
      layers.push(hidden.map((row) => row.slice()));
      const name = `model.layers.${layer}`;
      const normed = hidden.map((row) => this.norm(row, `${name}.input_layernorm`));
      this.attention(normed, layer).forEach((row, i) => {
        addTo(hidden[i]!, row, 1);
      });
      for (const row of hidden) {
        const input = this.norm(row, `${name}.post_attention_layernorm`);
        addTo(row, this.#feedForward(input, layer), 1);
      }
    }
    return { layers, final: hidden.map((row) => this.norm(row, "model.norm")) };
  }

  attention(normed: readonly Row[], layer: number): Row[] {
    const name = `model.layers.${layer}.self_attn`;
    const dim = this.#headDim;
    const heads = (row: Row, which: string, position: number) => {
      const norm = `${name}.${which}_norm`;
      const all = this.linear(row, `${name}.${which}_proj`);
      return Array.from({ length: all.length / dim }, (_, h) => {
        const head = all.slice(h * dim, (h + 1) * dim);
        if (which === "v") return head;
        const hasNorm = this.#weights.has(`${norm}.weight`);
        return this.#rotate(hasNorm ? this.norm(head, norm) : head, position);
      });
    };
    const queries = normed.map((row, position) => heads(row, "q", position));
    const keys = normed.map((row, position) => heads(row, "k", position).map(this.#cached));
    const values = normed.map((row, position) => heads(row, "v", position).map(this.#cached));
    const sinks = this.#weights.get(`${name}.sinks`)?.values;
    const window = this.#window(layer);
    return queries.map((query, position) => {
      const context = new Float64Array(this.#heads * dim);
      const first = Math.max(0, position + 1 - window);
      query.forEach((head, h) => {
        const kvHead = Math.floor(h / (this.#heads / this.#kvHeads));
        const scores: number[] = [];
        for (let key = first; key <= position; key++) {
          scores.push(dot(head, keys[key]![kvHead]!) * dim ** -0.5);
        }
        if (sinks !== undefined) scores.push(sinks[h]!);
        const shares = logSoftmax(Float64Array.from(scores));
        const out = context.subarray(h * dim, (h + 1) * dim);
        for (let key = first; key <= position; key++) {
          addTo(out, values[key]![kvHead]!, Math.exp(shares[key - first]!));
        }
      });
      return this.linear(context, `${name}.o_proj`);
    });
  }

  /** Keys that a row of the layer sees. */
  #window(layer: number): number {
    const { architectures, layer_types: types, sliding_window: window } = this.#config;
    const [architecture] = architectures;
    const { use_sliding_window: uses = false, max_window_layers: from = 28 } = this.#config;
    const qwen = uses && (architecture === "Qwen3MoeForCausalLM" || layer >= from);
    const slides =
      types === undefined
        ? architecture === "MistralForCausalLM" ||
          (architecture === "GptOssForCausalLM" && layer % 2 === 0) ||
          (architecture!.startsWith("Qwen") && qwen)
        : types[layer] === "sliding_attention";
    // Null is none; not a word of it is the default of the class.
    const absent = architecture === "GptOssForCausalLM" ? 128 : 4096;
    const width = window === undefined ? absent : window;
    return slides && width !== null ? width : Number.POSITIVE_INFINITY;
  }

  #feedForward(input: Row, layer: number): Row {
    const { num_experts_per_tok: chosen = 1, norm_topk_prob: normalize = false } = this.#config;
    const { num_experts: routed, decoder_sparse_step: period = 1 } = this.#config;
    const name = `model.layers.${layer}.mlp`;
    if (this.#weights.has(`${name}.router.weight`)) return this.#clampedExperts(input, name);
    const dense = this.#config.mlp_only_layers?.includes(layer) || (layer + 1) % period !== 0;
    if (routed === undefined || dense) return this.mlp(input, name);
    const shares = logSoftmax(this.linear(input, `${name}.gate`)).map(Math.exp);
    const picked = largest([...shares], chosen);
    const sum = picked.reduce((total, expert) => total + shares[expert]!, 0);
    const out = new Float64Array(input.length);
    for (const expert of picked) {
      const weight = normalize ? shares[expert]! / sum : shares[expert]!;
      addTo(out, this.mlp(input, `${name}.experts.${expert}`), weight);
    }
    return out;
  }

  mlp(input: Row, name: string): Row {
    const gate = this.linear(input, `${name}.gate_proj`);
    const up = this.linear(input, `${name}.up_proj`);
    const product = gate.map((g, i) => (g / (1 + Math.exp(-g))) * up[i]!);
    return this.linear(product, `${name}.down_proj`);
  }

  /** gpt-oss: a softmax over the chosen experts' logits, gates and ups in turns, biases. */
  #clampedExperts(input: Row, name: string): Row {
    const { num_experts_per_tok: chosen = 4, swiglu_limit: limit = 7 } = this.#config;
    const { swiglu_alpha: alpha = 1.702 } = this.#config;
    const logits = [...this.linear(input, `${name}.router`)];
    const picked = largest(logits, chosen);
    const weights = logSoftmax(Float64Array.from(picked, (e) => logits[e]!)).map(Math.exp);
    const out = new Float64Array(input.length);
    picked.forEach((expert, i) => {
      const both = this.#stacked(input, `${name}.experts.gate_up_proj`, expert);
      const product = Float64Array.from({ length: both.length / 2 }, (_, j) => {
        const gate = Math.min(both[2 * j]!, limit);
        const up = Math.min(Math.max(both[2 * j + 1]!, -limit), limit);
        return (gate / (1 + Math.exp(-alpha * gate))) * (up + 1);
      });
      addTo(out, this.#stacked(product, `${name}.experts.down_proj`, expert), weights[i]!);
    });
    return out;
  }

  #stacked(input: Row, name: string, expert: number): Row {
    const bias = rowOf(this.#tensor(`${name}_bias`), expert);
    const { columns, values, rows: all } = this.#tensor(name);
    const rows = bias.length;
    if (rows * (expert + 1) > all) throw new Error(`${name} has no expert ${expert}`);
    const own = values.subarray(expert * rows * columns, (expert + 1) * rows * columns);
    const out = matrixTimes({ rows, columns, values: own }, input);
    addTo(out, bias, 1);
    return out;
  }

  #tensor(name: string): ReferenceTensor {
    const tensor = this.#weights.get(name);
    if (tensor === undefined) throw new Error(`The checkpoint has no ${name}`);
    return tensor;
  }

  linear(input: Row, name: string): Row {
    const weight = this.#tensor(`${name}.weight`);
    const rounds = this.#options.quantizeActivations;
    const out = matrixTimes(weight, rounds ? roundInput(input, weight.rounding) : input);
    const bias = this.#weights.get(`${name}.bias`);
    if (bias !== undefined) addTo(out, bias.values, 1);
    return out;
  }

  norm(row: Row, name: string): Row {
    const { values } = this.#tensor(`${name}.weight`);
    const square = dot(row, row) / row.length;
    const scale = 1 / Math.sqrt(square + (this.#config.rms_norm_eps ?? 1e-6));
    const { noise = 0 } = this.#options;
    return row.map((x, i) => x * scale * values[i]! * (1 + noise * this.#random()));
  }

  /** In [-1, 1), the same from run to run. */
  #random(): number {
    this.#noise = (this.#noise * 48271) % 0x7fffffff;
    return (this.#noise / 0x7fffffff) * 2 - 1;
  }

  #cached = (row: Row): Row => {
    const { roundCache = false } = this.#options;
    if (typeof roundCache === "string") return roundFp8(row, roundCache);
    return roundCache ? row.map((x) => decodeBf16(encodeBf16(x))) : row;
  };

  /** Element i of the first half turns with element i of the second. */
  #rotate(row: Row, position: number): Row {
    const half = this.#rotary / 2;
    const { speeds, length } = this.#rope;
    const out = row.slice();
    speeds.forEach((speed, i) => {
      const angle = Math.fround(position * speed);
      const [cosine, sine] = [Math.cos(angle) * length, Math.sin(angle) * length];
      out[i] = row[i]! * cosine - row[half + i]! * sine;
      out[half + i] = row[half + i]! * cosine + row[i]! * sine;
    });
    return out;
  }
}
