/**
 * The families with grouped-query attention in plain f64 loops, for what llama.cpp cannot express:
 * gpt-oss as published, whose YaRN ramp is not rounded. Written from the published descriptions
 * alone; it shares nothing with the engine but the checkpoint's bytes.
 *
 * @module
 */
import type { CheckpointRows } from "./checkpoint_rows.ts";
import type { ModelConfig } from "./gguf/gguf_metadata.ts";
import { type Frequencies, rotaryFrequencies } from "./reference_rope.ts";

export const REFERENCE = "f64 reference of bench/peers/reference.ts";

type Rows = readonly Float64Array[];

/** For each position the log-probabilities of all tokens. */
export async function referenceLogProbabilities(
  config: ModelConfig,
  weights: CheckpointRows,
  tokens: readonly number[],
): Promise<Float64Array[]> {
  const reference = new Reference(config, weights);
  const embeddings = await weights.rows("model.embed_tokens.weight", 0, config.vocab_size);
  const { hidden_size: width } = config;
  let rows: Rows = tokens.map((token) =>
    Float64Array.from(embeddings.subarray(token * width, (token + 1) * width)),
  );
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    rows = await reference.layer(layer, rows);
  }
  rows = await reference.norm("model.norm", rows);
  const head = config.tie_word_embeddings ? "model.embed_tokens" : "lm_head";
  return (await reference.linear(head, rows)).map(logSoftmax);
}

class Reference {
  readonly #config: ModelConfig;
  readonly #weights: CheckpointRows;
  readonly #rotary: Frequencies;

  constructor(config: ModelConfig, weights: CheckpointRows) {
    this.#config = config;
    this.#weights = weights;
    this.#rotary = rotaryFrequencies(config);
  }

  async layer(layer: number, rows: Rows): Promise<Rows> {
    const name = `model.layers.${layer}`;
    const normed = await this.norm(`${name}.input_layernorm`, rows);
    const attended = sums(rows, await this.#attention(layer, normed));
    const ready = await this.norm(`${name}.post_attention_layernorm`, attended);
    return sums(attended, await this.#mlp(`${name}.mlp`, ready));
  }

  async norm(name: string, rows: Rows): Promise<Rows> {
    const weight = await this.#weights.rows(`${name}.weight`, 0, 1);
    return rows.map((row) => this.#normed(row, weight));
  }

  async linear(name: string, rows: Rows): Promise<Float64Array[]> {
    const [count] = this.#weights.shape(`${name}.weight`) as readonly [number, number];
    const matrix = await this.#weights.rows(`${name}.weight`, 0, count);
    const bias = this.#weights.has(`${name}.bias`)
      ? await this.#weights.rows(`${name}.bias`, 0, 1)
      : undefined;
    return rows.map((row) => times(matrix, row, bias));
  }

  #normed(row: Float64Array, weight: Float32Array): Float64Array {
    const square = row.reduce((sum, value) => sum + value * value, 0) / row.length;
    const size = Math.sqrt(square + this.#config.rms_norm_eps);
    return row.map((value, i) => (value / size) * weight[i]!);
  }

  async #attention(layer: number, rows: Rows): Promise<Rows> {
    const { num_attention_heads: heads, num_key_value_heads: kvHeads } = this.#config;
    const size = this.#config.head_dim!;
    const name = `model.layers.${layer}.self_attn`;
    const [queries, keys, values] = [
      await this.#heads(`${name}.q`, rows),
      await this.#heads(`${name}.k`, rows),
      (await this.linear(`${name}.v_proj`, rows)).map((row) => split(row, size)),
    ];
    const sinks = this.#weights.has(`${name}.sinks`)
      ? await this.#weights.rows(`${name}.sinks`, 0, 1)
      : undefined;
    const slides = this.#config.layer_types?.[layer] === "sliding_attention";
    const window = slides ? this.#config.sliding_window! : Number.POSITIVE_INFINITY;
    const mixed = rows.map((_, position) => {
      const out = new Float64Array(heads * size);
      const first = Math.max(0, position - window + 1);
      for (let head = 0; head < heads; head++) {
        const kvHead = Math.floor((head * kvHeads) / heads);
        const scores = Float64Array.from({ length: position - first + 1 }, (_, i) => {
          const key = keys[first + i]![kvHead]!;
          return dot(queries[position]![head]!, key) / Math.sqrt(size);
        });
        const shares = softmax(scores, sinks?.[head]);
        shares.forEach((share, i) => {
          const value = values[first + i]![kvHead]!;
          for (let d = 0; d < size; d++) out[head * size + d]! += share * value[d]!;
        });
      }
      return out;
    });
    return this.linear(`${name}.o_proj`, mixed);
  }

  /** Queries or keys by position and head: normed where the model does that, turned. */
  async #heads(name: string, rows: Rows): Promise<Rows[]> {
    const norm = this.#weights.has(`${name}_norm.weight`)
      ? await this.#weights.rows(`${name}_norm.weight`, 0, 1)
      : undefined;
    const projected = await this.linear(`${name}_proj`, rows);
    return projected.map((row, position) =>
      split(row, this.#config.head_dim!).map((head) =>
        this.#turned(norm === undefined ? head : this.#normed(head, norm), position),
      ),
    );
  }

  #turned(head: Float64Array, position: number): Float64Array {
    const { frequencies, magnitude } = this.#rotary;
    const half = head.length / 2;
    const out = new Float64Array(head.length);
    for (let i = 0; i < half; i++) {
      const [cos, sin] = [Math.cos, Math.sin].map(
        (of) => of(position * frequencies[i]!) * magnitude,
      );
      out[i] = head[i]! * cos! - head[i + half]! * sin!;
      out[i + half] = head[i + half]! * cos! + head[i]! * sin!;
    }
    return out;
  }

  async #mlp(name: string, rows: Rows): Promise<Rows> {
    if (this.#weights.has(`${name}.router.weight`)) return this.#clampedExperts(name, rows);
    if (this.#weights.has(`${name}.gate.weight`)) return this.#experts(name, rows);
    return this.#gated(name, rows);
  }

  async #gated(name: string, rows: Rows): Promise<Rows> {
    const gates = await this.linear(`${name}.gate_proj`, rows);
    const ups = await this.linear(`${name}.up_proj`, rows);
    const inner = gates.map((gate, r) =>
      gate.map((g, i) => (g / (1 + Math.exp(-g))) * ups[r]![i]!),
    );
    return this.linear(`${name}.down_proj`, inner);
  }

  async #experts(name: string, rows: Rows): Promise<Rows> {
    const logits = await this.linear(`${name}.gate`, rows);
    return this.#mixed(rows, logits, (expert, chosen) =>
      this.#gated(`${name}.experts.${expert}`, chosen),
    );
  }

  async #clampedExperts(name: string, rows: Rows): Promise<Rows> {
    const { hidden_size: hidden, intermediate_size: width, swiglu_limit: limit } = this.#config;
    const part = async (which: string, expert: number, count: number, inputs: Rows) => {
      const tensor = `${name}.experts.${which}`;
      const matrix = await this.#weights.mxfp4Rows(tensor, expert * count, count);
      const bias = await this.#weights.rows(`${tensor}_bias`, expert, 1);
      return inputs.map((row) => times(matrix, row, bias));
    };
    const logits = await this.linear(`${name}.router`, rows);
    return this.#mixed(rows, logits, async (expert, chosen) => {
      const both = await part("gate_up_proj", expert, 2 * width, chosen);
      const inner = both.map((row) =>
        Float64Array.from({ length: width }, (_, i) => {
          const gate = Math.min(row[2 * i]!, limit!);
          const up = Math.max(-limit!, Math.min(row[2 * i + 1]!, limit!));
          return (gate / (1 + Math.exp(-1.702 * gate))) * (up + 1);
        }),
      );
      return part("down_proj", expert, hidden, inner);
    });
  }

  /** Each row through its best experts, weighted by a softmax over those alone. */
  async #mixed(
    rows: Rows,
    logits: Rows,
    compute: (expert: number, rows: Rows) => Promise<Rows>,
  ): Promise<Rows> {
    const out = rows.map((row) => new Float64Array(row.length));
    const chosen = logits.map((row) => {
      const order = [...row.keys()].sort((a, b) => row[b]! - row[a]!);
      const best = order.slice(0, this.#config.num_experts_per_tok!);
      const shares = softmax(Float64Array.from(best, (expert) => row[expert]!));
      return new Map(best.map((expert, i) => [expert, shares[i]!]));
    });
    for (let expert = 0; expert < logits[0]!.length; expert++) {
      const theirs = [...rows.keys()].filter((row) => chosen[row]!.has(expert));
      if (theirs.length === 0) continue;
      const results = await compute(
        expert,
        theirs.map((row) => rows[row]!),
      );
      theirs.forEach((row, i) => {
        const share = chosen[row]!.get(expert)!;
        results[i]!.forEach((value, d) => {
          out[row]![d]! += share * value;
        });
      });
    }
    return out;
  }
}

function times(matrix: Float32Array, row: Float64Array, bias?: Float32Array): Float64Array {
  const columns = row.length;
  const out = new Float64Array(matrix.length / columns);
  for (let r = 0; r < out.length; r++) {
    // Four sums, as each addition waits for the one before. Columns are whole fours everywhere.
    let [a, b, c, d] = [bias?.[r] ?? 0, 0, 0, 0];
    for (let i = 0, at = r * columns; i < columns; i += 4, at += 4) {
      a += matrix[at]! * row[i]!;
      b += matrix[at + 1]! * row[i + 1]!;
      c += matrix[at + 2]! * row[i + 2]!;
      d += matrix[at + 3]! * row[i + 3]!;
    }
    out[r] = a + b + c + d;
  }
  return out;
}

function dot(a: Float64Array, b: Float64Array): number {
  return a.reduce((sum, value, i) => sum + value * b[i]!, 0);
}

function sums(a: Rows, b: Rows): Rows {
  return a.map((row, r) => row.map((value, i) => value + b[r]![i]!));
}

function split(row: Float64Array, size: number): Float64Array[] {
  return Array.from({ length: row.length / size }, (_, i) =>
    row.subarray(i * size, (i + 1) * size),
  );
}

/** @param sink A logit that takes its share of the sum and stands for nothing. */
function softmax(logits: Float64Array, sink = Number.NEGATIVE_INFINITY): Float64Array {
  const most = Math.max(sink, ...logits);
  const powers = logits.map((logit) => Math.exp(logit - most));
  const sum = powers.reduce((total, power) => total + power, Math.exp(sink - most));
  return powers.map((power) => power / sum);
}

function logSoftmax(logits: Float64Array): Float64Array {
  const most = Math.max(...logits);
  const sum = logits.reduce((total, logit) => total + Math.exp(logit - most), 0);
  return logits.map((logit) => logit - most - Math.log(sum));
}
