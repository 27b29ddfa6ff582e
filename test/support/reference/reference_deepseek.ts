/**
 * DeepSeek-V2 and V3 in plain loops and f64, to compare the engine with: one sequence, no cache but
 * arrays, keys and values of every head written out. It shares no code with the model it judges and
 * reads config.json itself.
 *
 * @module
 */
import { type Fp8Dtype, roundFp8Latent } from "../../../kernels/cache/host_fp8.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { decodeBf16, encodeBf16 } from "../../../src/dtype.ts";
import {
  addTo,
  dot,
  largest,
  logSoftmax,
  magnitude,
  matrixTimes,
  type Row,
  roundInput,
  rowOf,
} from "./reference_math.ts";
import { type ReferenceTensor, referenceWeights } from "./reference_weights.ts";

export interface ReferenceOptions {
  /** Rounds what a cache would hold: to BF16 when true, else latents to FP8 and rope parts to BF16. */
  readonly roundCache?: boolean | Fp8Dtype;
  /** Rounds the inputs of quantized linears, all but `kv_b_proj`, as their scheme says. */
  readonly quantizeActivations?: boolean;
  /** Relative size of random noise on every normed value: how sensitive the answer is. */
  readonly noise?: number;
}

/** The fields of config.json that matter; absent ones as the public code takes them. */
interface Config {
  readonly architectures: readonly string[];
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly q_lora_rank?: number | null;
  readonly kv_lora_rank: number;
  readonly qk_nope_head_dim: number;
  readonly qk_rope_head_dim: number;
  readonly v_head_dim: number;
  readonly rms_norm_eps?: number;
  readonly rope_theta?: number;
  readonly rope_scaling?: RopeScaling | null;
  readonly rope_parameters?: RopeScaling & { readonly rope_theta: number };
  readonly n_routed_experts?: number | null;
  readonly n_shared_experts?: number | null;
  readonly num_experts_per_tok?: number;
  readonly first_k_dense_replace?: number;
  readonly moe_layer_freq?: number;
  readonly scoring_func?: string;
  readonly topk_method?: string;
  readonly norm_topk_prob?: boolean;
  readonly n_group?: number | null;
  readonly topk_group?: number | null;
  readonly routed_scaling_factor?: number;
  readonly tie_word_embeddings?: boolean;
}

interface RopeScaling {
  readonly type?: string;
  readonly rope_type?: string;
  readonly factor: number;
  readonly original_max_position_embeddings: number;
  readonly beta_fast?: number;
  readonly beta_slow?: number;
  readonly mscale?: number;
  readonly mscale_all_dim?: number;
}

export class ReferenceDeepseek {
  readonly #config: Config;
  readonly #weights: ReadonlyMap<string, ReferenceTensor>;
  readonly #scaling: RopeScaling | undefined;
  readonly #frequencies: Row;
  readonly #options: ReferenceOptions;
  #noise = 1;

  constructor(
    config: Config,
    weights: ReadonlyMap<string, ReferenceTensor>,
    options: ReferenceOptions = {},
  ) {
    const scaling = config.rope_parameters ?? config.rope_scaling;
    const plain = (scaling?.rope_type ?? scaling?.type ?? "default") === "default";
    this.#config = config;
    this.#weights = weights;
    this.#options = options;
    this.#scaling = plain ? undefined : (scaling ?? undefined);
    this.#frequencies = this.#inverseFrequencies();
  }

  static async open(source: WeightSource, options?: ReferenceOptions): Promise<ReferenceDeepseek> {
    const file = (await source.list()).find(({ name }) => name === "config.json")!;
    const text = new TextDecoder().decode(await source.read(file.name, 0, file.size));
    return new ReferenceDeepseek(JSON.parse(text), await referenceWeights(source), options);
  }

  /** The same model under other options. */
  with(options: ReferenceOptions): ReferenceDeepseek {
    return new ReferenceDeepseek(this.#config, this.#weights, options);
  }

  /** The number of the layer that predicts the token after the next, where there is one. */
  get draftLayer(): number {
    return this.#config.num_hidden_layers;
  }

  get weights(): ReadonlyMap<string, ReferenceTensor> {
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
    const head = this.#config.tie_word_embeddings ? "model.embed_tokens" : "lm_head";
    return this.linear(row, head);
  }

  /** Rows in front of each layer, and behind the final norm. */
  states(tokens: readonly number[]): { readonly layers: Row[][]; readonly final: Row[] } {
    const hidden = tokens.map((token) => this.embedding(token));
    const layers: Row[][] = [];
    for (let layer = 0; layer < this.#config.num_hidden_layers; layer++) {
      layers.push(hidden.map((row) => row.slice()));
      this.pass(hidden, layer);
    }
    return { layers, final: hidden.map((row) => this.norm(row, "model.norm")) };
  }

  /** Has rows pass one layer, in place. */
  pass(hidden: readonly Row[], layer: number): void {
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

  attention(normed: readonly Row[], layer: number): Row[] {
    const name = `model.layers.${layer}.self_attn`;
    const { num_attention_heads: heads, kv_lora_rank: latent, v_head_dim: value } = this.#config;
    const { qk_nope_head_dim: nope, qk_rope_head_dim: rope } = this.#config;
    const queries = normed.map((row) => this.#query(row, name));
    const keysAndValues: Row[] = [];
    const keyRopes: Row[] = [];
    normed.forEach((row, position) => {
      const entry = this.linear(row, `${name}.kv_a_proj_with_mqa`);
      const cached = this.#cachedLatent(
        this.norm(entry.slice(0, latent), `${name}.kv_a_layernorm`),
      );
      keysAndValues.push(this.linear(cached, `${name}.kv_b_proj`));
      keyRopes.push(this.#cached(this.#rotate(entry.slice(latent), position)));
    });
    const factor = this.#scaling
      ? magnitude(this.#scaling.factor, this.#scaling.mscale_all_dim ?? 0)
      : 1;
    const scale = (nope + rope) ** -0.5 * factor * factor;
    return queries.map((query, position) => {
      const context = new Float64Array(heads * value);
      for (let head = 0; head < heads; head++) {
        const start = head * (nope + rope);
        const plain = query.subarray(start, start + nope);
        const rotated = this.#rotate(query.slice(start + nope, start + nope + rope), position);
        const ofHead = (key: number, from: number, count: number) => {
          const at = head * (nope + value) + from;
          return keysAndValues[key]!.subarray(at, at + count);
        };
        const scores = new Float64Array(position + 1);
        for (let key = 0; key <= position; key++) {
          scores[key] = (dot(plain, ofHead(key, 0, nope)) + dot(rotated, keyRopes[key]!)) * scale;
        }
        const out = context.subarray(head * value, (head + 1) * value);
        logSoftmax(scores).forEach((score, key) => {
          addTo(out, ofHead(key, nope, value), Math.exp(score));
        });
      }
      return this.linear(context, `${name}.o_proj`);
    });
  }

  #query(row: Row, name: string): Row {
    if (this.#config.q_lora_rank == null) return this.linear(row, `${name}.q_proj`);
    const latent = this.norm(this.linear(row, `${name}.q_a_proj`), `${name}.q_a_layernorm`);
    return this.linear(latent, `${name}.q_b_proj`);
  }

  #feedForward(input: Row, layer: number): Row {
    const { n_routed_experts: routed, n_shared_experts: shared } = this.#config;
    const { first_k_dense_replace: first = 0, moe_layer_freq: period = 1 } = this.#config;
    const name = `model.layers.${layer}.mlp`;
    if (routed == null || layer < first || layer % period !== 0) return this.mlp(input, name);
    const out = new Float64Array(input.length);
    for (const { expert, weight } of this.#route(input, `${name}.gate`, routed)) {
      addTo(out, this.mlp(input, `${name}.experts.${expert}`), weight);
    }
    if (shared) addTo(out, this.mlp(input, `${name}.shared_experts`), 1);
    return out;
  }

  mlp(input: Row, name: string): Row {
    const gate = this.linear(input, `${name}.gate_proj`);
    const up = this.linear(input, `${name}.up_proj`);
    const product = gate.map((g, i) => (g / (1 + Math.exp(-g))) * up[i]!);
    return this.linear(product, `${name}.down_proj`);
  }

  #route(input: Row, name: string, routed: number): { expert: number; weight: number }[] {
    const config = this.#config;
    const v3 = config.architectures.includes("DeepseekV3ForCausalLM");
    const method = config.topk_method ?? (v3 ? "noaux_tc" : "greedy");
    const scoring = config.scoring_func ?? (v3 ? "sigmoid" : "softmax");
    const logits = matrixTimes(this.#tensor(`${name}.weight`), input);
    const scores =
      scoring === "sigmoid"
        ? logits.map((x) => 1 / (1 + Math.exp(-x)))
        : logSoftmax(logits).map(Math.exp);
    let choice = scores.slice();
    if (method === "noaux_tc") {
      addTo(choice, this.#tensor(`${name}.e_score_correction_bias`).values, 1);
    }
    const groups = config.n_group ?? (v3 ? 8 : 1);
    if (method !== "greedy" && groups > 1) {
      const size = routed / groups;
      const worth = Array.from({ length: groups }, (_, g) => {
        const best = [...choice.slice(g * size, (g + 1) * size)].sort((a, b) => b - a);
        return method === "noaux_tc" ? best[0]! + best[1]! : best[0]!;
      });
      const kept = largest(worth, config.topk_group ?? (v3 ? 4 : 1));
      choice = choice.map((x, e) =>
        kept.includes(Math.floor(e / size)) ? x : Number.NEGATIVE_INFINITY,
      );
    }
    const picked = largest([...choice], config.num_experts_per_tok ?? 8);
    const sum = picked.reduce((total, expert) => total + scores[expert]!, 0);
    const factor = config.routed_scaling_factor ?? (v3 ? 2.5 : 1);
    const weightOf = (score: number) => {
      if (v3) return ((config.norm_topk_prob ?? true) ? score / sum : score) * factor;
      // V2's code has an "else" before the factor; the edition that knows noaux_tc has it in both.
      if (!config.norm_topk_prob || picked.length === 1) return score * factor;
      return method === "noaux_tc" ? (score / sum) * factor : score / sum;
    };
    return picked.map((expert) => ({ expert, weight: weightOf(scores[expert]!) }));
  }

  #tensor(name: string): ReferenceTensor {
    const tensor = this.#weights.get(name);
    if (tensor === undefined) throw new Error(`The checkpoint has no ${name}`);
    return tensor;
  }

  linear(input: Row, name: string): Row {
    const weight = this.#tensor(`${name}.weight`);
    const rounds = this.#options.quantizeActivations && !name.endsWith("kv_b_proj");
    return matrixTimes(weight, rounds ? roundInput(input, weight.rounding) : input);
  }

  norm(row: Row, name: string): Row {
    const { values } = this.#tensor(`${name}.weight`);
    const square = dot(row, row) / row.length;
    // The norms of latents are made without the config's eps.
    const isLatent = /_a_layernorm$/.test(name);
    const eps = isLatent ? 1e-6 : (this.#config.rms_norm_eps ?? 1e-6);
    const scale = 1 / Math.sqrt(square + eps);
    const { noise = 0 } = this.#options;
    return row.map((x, i) => x * scale * values[i]! * (1 + noise * this.#random()));
  }

  /** In [-1, 1), the same from run to run. */
  #random(): number {
    this.#noise = (this.#noise * 48271) % 0x7fffffff;
    return (this.#noise / 0x7fffffff) * 2 - 1;
  }

  #cachedLatent(row: Row): Row {
    const { roundCache } = this.#options;
    return typeof roundCache === "string" ? roundFp8Latent(row, roundCache) : this.#cached(row);
  }

  #cached(row: Row): Row {
    return this.#options.roundCache ? row.map((x) => decodeBf16(encodeBf16(x))) : row;
  }

  /** Pairs of neighbours, turned by the position's angles. */
  #rotate(row: Row, position: number): Row {
    const scaling = this.#scaling;
    const { factor = 1, mscale = 1, mscale_all_dim = 0 } = scaling ?? {};
    const length = scaling ? magnitude(factor, mscale) / magnitude(factor, mscale_all_dim) : 1;
    const out = new Float64Array(row.length);
    for (let i = 0; i < row.length; i += 2) {
      const angle = Math.fround(position * this.#frequencies[i / 2]!);
      const [cosine, sine] = [Math.cos(angle) * length, Math.sin(angle) * length];
      out[i] = row[i]! * cosine - row[i + 1]! * sine;
      out[i + 1] = row[i]! * sine + row[i + 1]! * cosine;
    }
    return out;
  }

  /** Angles are products of float32 numbers in the public code, so they are here. */
  #inverseFrequencies(): Row {
    const { qk_rope_head_dim: dim, rope_parameters: parameters } = this.#config;
    const theta = parameters?.rope_theta ?? this.#config.rope_theta ?? 10000;
    const plain = Float64Array.from({ length: dim / 2 }, (_, i) => theta ** ((-2 * i) / dim));
    if (this.#scaling === undefined) return plain.map(Math.fround);
    const { factor, original_max_position_embeddings: original } = this.#scaling;
    const { beta_fast: fast = 32, beta_slow: slow = 1 } = this.#scaling;
    const turns = (count: number) =>
      (dim / 2) * (Math.log(original / (count * 2 * Math.PI)) / Math.log(theta));
    const low = Math.max(Math.floor(turns(fast)), 0);
    let high = Math.min(Math.ceil(turns(slow)), dim - 1);
    if (low === high) high += 0.001;
    return plain.map((frequency, i) => {
      const ramp = Math.min(Math.max((i - low) / (high - low), 0), 1);
      return Math.fround((frequency / factor) * ramp + frequency * (1 - ramp));
    });
  }
}
