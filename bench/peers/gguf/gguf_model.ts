/**
 * A checkpoint as llama.cpp wants it: the metadata and tensors of its GGUF file.
 *
 * llama.cpp's names and layouts, as far as they differ from the published ones:
 * * `llama` rotates adjacent elements, so rows of q and k are interleaved;
 * * experts are stacked, `[experts, rows, columns]`;
 * * `deepseek2` wants kv_b in two, the key part transposed, and knows layers without a query latent
 *   only in models of 26 or 27 layers: see `queryTensors`;
 * * `gpt-oss` has rows of gate and up apart, and always rounds YaRN's ramp to whole dimensions.
 *
 * @module
 */
import type { SyntheticModel } from "../../../test/support/synthetic/source.ts";
import type { CheckpointRows } from "../checkpoint_rows.ts";
import { llama3Factors } from "../reference_rope.ts";
import { ggufMetadata, type ModelConfig } from "./gguf_metadata.ts";
import type { GgufMetadata, GgufTensor, GgufType } from "./gguf_writer.ts";

/** Tensors of a layer that only change their name. */
const LAYER_NAMES: Readonly<Record<string, string>> = {
  "input_layernorm.weight": "attn_norm.weight",
  "post_attention_layernorm.weight": "ffn_norm.weight",
  "self_attn.q_proj.bias": "attn_q.bias",
  "self_attn.k_proj.bias": "attn_k.bias",
  "self_attn.v_proj.bias": "attn_v.bias",
  "self_attn.v_proj.weight": "attn_v.weight",
  "self_attn.o_proj.weight": "attn_output.weight",
  "self_attn.o_proj.bias": "attn_output.bias",
  "self_attn.q_norm.weight": "attn_q_norm.weight",
  "self_attn.k_norm.weight": "attn_k_norm.weight",
  "self_attn.q_a_proj.weight": "attn_q_a.weight",
  "self_attn.q_a_layernorm.weight": "attn_q_a_norm.weight",
  "self_attn.q_b_proj.weight": "attn_q_b.weight",
  "self_attn.kv_a_proj_with_mqa.weight": "attn_kv_a_mqa.weight",
  "self_attn.kv_a_layernorm.weight": "attn_kv_a_norm.weight",
  "self_attn.sinks": "attn_sinks.weight",
  "mlp.gate_proj.weight": "ffn_gate.weight",
  "mlp.up_proj.weight": "ffn_up.weight",
  "mlp.down_proj.weight": "ffn_down.weight",
  "mlp.gate.weight": "ffn_gate_inp.weight",
  "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
  "mlp.router.weight": "ffn_gate_inp.weight",
  "mlp.router.bias": "ffn_gate_inp.bias",
  "mlp.shared_experts.gate_proj.weight": "ffn_gate_shexp.weight",
  "mlp.shared_experts.up_proj.weight": "ffn_up_shexp.weight",
  "mlp.shared_experts.down_proj.weight": "ffn_down_shexp.weight",
};
const OUTER_NAMES: Readonly<Record<string, string>> = {
  "model.embed_tokens.weight": "token_embd.weight",
  "model.norm.weight": "output_norm.weight",
  "lm_head.weight": "output.weight",
};
const EXPERT_PARTS = { gate_proj: "gate", up_proj: "up", down_proj: "down" } as const;

export interface GgufModel {
  readonly metadata: GgufMetadata;
  readonly tensors: readonly GgufTensor[];
}

/** @param type Of the matrices; vectors, routers and sinks stay f32. */
export function ggufModel(
  model: SyntheticModel,
  weights: CheckpointRows,
  type: GgufType = "f32",
): GgufModel {
  const config = model.config as unknown as ModelConfig;
  const plain = (from: string, to: string): GgufTensor => {
    const shape = weights.shape(from);
    const kept = shape.length < 2 || /gate_inp|norm/.test(to);
    const rows = (first: number, count: number) => weights.rows(from, first, count);
    return { name: to, shape, type: kept ? "f32" : type, rows };
  };
  const tensors: GgufTensor[] = [];
  for (const { name } of model.tensors) {
    const outer = OUTER_NAMES[name];
    if (outer !== undefined) tensors.push(plain(name, outer));
  }
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    const from = `model.layers.${layer}.`;
    const to = `blk.${layer}.`;
    const names = new Set(
      model.tensors
        .filter(({ name }) => name.startsWith(from))
        .map(({ name }) => name.slice(from.length)),
    );
    for (const [theirs, ours] of Object.entries(LAYER_NAMES)) {
      if (!names.has(theirs)) continue;
      const renamed = config.model_type === "gpt_oss" && ours === "ffn_norm.weight";
      tensors.push(plain(from + theirs, to + (renamed ? "post_attention_norm.weight" : ours)));
    }
    const context: Layer = { config, weights, type, from, to };
    // With a query latent the names were all.
    if (names.has("self_attn.q_proj.weight")) tensors.push(...queryTensors(context));
    if (names.has("self_attn.kv_b_proj.weight")) tensors.push(...keyValueTensors(context));
    if (names.has("mlp.experts.0.gate_proj.weight")) tensors.push(...stackedExperts(context));
    if (names.has("mlp.experts.down_proj_blocks")) tensors.push(...mxfp4Experts(context));
  }
  if (config.rope_scaling?.rope_type === "llama3") {
    const factors = Float32Array.from(llama3Factors(config));
    const rows = async () => factors;
    tensors.push({ name: "rope_freqs.weight", shape: [factors.length], type: "f32", rows });
  }
  return { metadata: ggufMetadata(config), tensors };
}

interface Layer {
  readonly config: ModelConfig;
  readonly weights: CheckpointRows;
  readonly type: GgufType;
  /** Prefixes of the layer's names. */
  readonly from: string;
  readonly to: string;
}

function queryTensors(layer: Layer): GgufTensor[] {
  const { config, weights, type, from, to } = layer;
  const whole = (name: string) => {
    const source = `${from}self_attn.${name}_proj.weight`;
    return { shape: weights.shape(source), source };
  };
  const q = whole("q");
  if (config.model_type === "deepseek_v2") {
    // Queries in two steps that undo each other: divide by the norm before, and the result has
    // size 1 already when the latent's norm, of the same weights, puts them back.
    const hidden = config.hidden_size;
    const norm = `${from}input_layernorm.weight`;
    return [
      {
        name: `${to}attn_q_a.weight`,
        shape: [hidden, hidden],
        type: "f32",
        async rows(first, count) {
          const factors = await weights.rows(norm, 0, 1);
          const out = new Float32Array(count * hidden);
          for (let i = 0; i < count; i++) out[i * hidden + first + i] = 1 / factors[first + i]!;
          return out;
        },
      },
      {
        name: `${to}attn_q_a_norm.weight`,
        shape: [hidden],
        type: "f32",
        rows: (first, count) => weights.rows(norm, first, count),
      },
      {
        name: `${to}attn_q_b.weight`,
        shape: q.shape,
        type,
        rows: (first, count) => weights.rows(q.source, first, count),
      },
    ];
  }
  const interleaved = config.model_type === "llama";
  return [q, whole("k")].map(({ shape, source }, i) => ({
    name: `${to}attn_${"qk"[i]}.weight`,
    shape,
    type,
    rows: (first, count) =>
      interleaved
        ? interleavedRows({ weights, source, head: config.head_dim!, first, count })
        : weights.rows(source, first, count),
  }));
}

/** Row 2i of a head is its row i, row 2i + 1 the one half a head further. */
async function interleavedRows(options: {
  readonly weights: CheckpointRows;
  readonly source: string;
  readonly head: number;
  readonly first: number;
  readonly count: number;
}): Promise<Float32Array> {
  const { weights, source, head, first, count } = options;
  const columns = weights.shape(source).at(-1)!;
  const firstHead = Math.floor(first / head);
  const heads = Math.ceil((first + count) / head) - firstHead;
  const held = await weights.rows(source, firstHead * head, heads * head);
  const out = new Float32Array(count * columns);
  for (let i = 0; i < count; i++) {
    const row = first + i - firstHead * head;
    const start = row - (row % head);
    const from = start + Math.floor((row % head) / 2) + (row % 2) * (head / 2);
    out.set(held.subarray(from * columns, (from + 1) * columns), i * columns);
  }
  return out;
}

function keyValueTensors({ config, weights, type, from, to }: Layer): GgufTensor[] {
  const { num_attention_heads: heads, kv_lora_rank: latent } = config;
  const { qk_nope_head_dim: nope, v_head_dim: value } = config;
  const source = `${from}self_attn.kv_b_proj.weight`;
  const perHead = nope! + value!;
  return [
    {
      name: `${to}attn_k_b.weight`,
      shape: [heads, latent!, nope!],
      type,
      async rows(first, count) {
        const held = await weights.rows(source, 0, heads * perHead);
        const out = new Float32Array(count * nope!);
        for (let i = 0; i < count; i++) {
          const head = Math.floor((first + i) / latent!);
          const column = (first + i) % latent!;
          for (let n = 0; n < nope!; n++) {
            out[i * nope! + n] = held[(head * perHead + n) * latent! + column]!;
          }
        }
        return out;
      },
    },
    {
      name: `${to}attn_v_b.weight`,
      shape: [heads, value!, latent!],
      type,
      async rows(first, count) {
        const held = await weights.rows(source, 0, heads * perHead);
        const out = new Float32Array(count * latent!);
        for (let i = 0; i < count; i++) {
          const head = Math.floor((first + i) / value!);
          const row = head * perHead + nope! + ((first + i) % value!);
          out.set(held.subarray(row * latent!, (row + 1) * latent!), i * latent!);
        }
        return out;
      },
    },
  ];
}

function stackedExperts({ config, weights, type, from, to }: Layer): GgufTensor[] {
  const experts = (config.num_experts ?? config.n_routed_experts)!;
  return Object.entries(EXPERT_PARTS).map(([theirs, ours]) => {
    const source = (expert: number) => `${from}mlp.experts.${expert}.${theirs}.weight`;
    const [rows, columns] = weights.shape(source(0)) as readonly [number, number];
    return {
      name: `${to}ffn_${ours}_exps.weight`,
      shape: [experts, rows, columns],
      type,
      async rows(first, count) {
        const out = new Float32Array(count * columns);
        for (let done = 0; done < count; ) {
          const row = (first + done) % rows;
          const many = Math.min(count - done, rows - row);
          const name = source(Math.floor((first + done) / rows));
          out.set(await weights.rows(name, row, many), done * columns);
          done += many;
        }
        return out;
      },
    };
  });
}

function mxfp4Experts({ config, weights, type, from, to }: Layer): GgufTensor[] {
  const { num_local_experts: experts, hidden_size: hidden, intermediate_size: width } = config;
  const name = `${from}mlp.experts`;
  const everySecond = (held: Float32Array, columns: number, which: number) => {
    const out = new Float32Array(held.length / 2);
    for (let i = 0; i * columns < out.length; i++) {
      const row = 2 * i + which;
      out.set(held.subarray(row * columns, (row + 1) * columns), i * columns);
    }
    return out;
  };
  const halves = (["gate", "up"] as const).flatMap((part, which): GgufTensor[] => [
    {
      name: `${to}ffn_${part}_exps.weight`,
      shape: [experts!, width, hidden],
      type,
      rows: async (first, count) =>
        everySecond(
          await weights.mxfp4Rows(`${name}.gate_up_proj`, 2 * first, 2 * count),
          hidden,
          which,
        ),
    },
    {
      name: `${to}ffn_${part}_exps.bias`,
      shape: [experts!, width],
      type: "f32",
      rows: async (first, count) =>
        everySecond(await weights.rows(`${name}.gate_up_proj_bias`, first, count), 1, which),
    },
  ]);
  return [
    ...halves,
    {
      name: `${to}ffn_down_exps.weight`,
      shape: [experts!, hidden, width],
      type,
      rows: (first, count) => weights.mxfp4Rows(`${name}.down_proj`, first, count),
    },
    {
      name: `${to}ffn_down_exps.bias`,
      shape: [experts!, hidden],
      type: "f32",
      rows: (first, count) => weights.rows(`${name}.down_proj_bias`, first, count),
    },
  ];
}
