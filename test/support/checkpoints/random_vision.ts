/**
 * Checkpoints of the models that read images, with random weights, of any shape: a vision tower of
 * their own around the text model of another checkpoint, whose tensors have other names here.
 *
 * @module
 */
import { readJson } from "../../../src/checkpoint/json_file.ts";
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { seeded } from "../devices/gpu.ts";
import { type RandomDeepseek, randomDeepseek } from "./random_deepseek.ts";
import { type RandomGqa, randomGqa } from "./random_gqa.ts";
import { checkpointFiles, type TensorInput } from "./write_checkpoint.ts";

export type VisionFamily = "llava" | "idefics3" | "qwen2_5_vl" | "deepseek_vl2";
type Fields = Readonly<Record<string, unknown>>;
type Numbers = Readonly<Record<string, number>>;

export interface RandomVision {
  readonly family: VisionFamily;
  /** Fields of `vision_config`, and of config.json itself, beside those of `SMALL_VISION`. */
  readonly vision?: Fields;
  readonly top?: Fields;
  readonly projector?: Fields;
  /** The text model: shape, storage, seed. */
  readonly text?: RandomGqa & Pick<RandomDeepseek, "dtype">;
  readonly seed?: number;
  /** Of tokenizer and processor, where an engine is to have them. Default none. */
  readonly files?: Readonly<Record<string, Uint8Array>>;
}

/** Odd in what a family allows. */
export const SMALL_VISION = {
  llava: {
    architecture: "LlavaForConditionalGeneration",
    text: "text_config",
    vision: {
      model_type: "clip_vision_model",
      hidden_size: 36,
      intermediate_size: 52,
      image_size: 35,
      patch_size: 7,
      num_attention_heads: 3,
      num_hidden_layers: 3,
    },
    top: { image_token_index: 9, vision_feature_layer: -2 },
  },
  idefics3: {
    architecture: "Idefics3ForConditionalGeneration",
    text: "text_config",
    vision: {
      hidden_size: 24,
      intermediate_size: 44,
      image_size: 36,
      patch_size: 6,
      num_attention_heads: 2,
      num_hidden_layers: 2,
    },
    top: { image_token_id: 9, scale_factor: 3 },
  },
  qwen2_5_vl: {
    architecture: "Qwen2_5_VLForConditionalGeneration",
    text: undefined,
    vision: {
      depth: 3,
      hidden_size: 40,
      intermediate_size: 60,
      num_heads: 2,
      patch_size: 6,
      spatial_merge_size: 2,
      temporal_patch_size: 2,
      window_size: 24,
      fullatt_block_indexes: [1],
    },
    top: { image_token_id: 9, rope_scaling: { type: "mrope", mrope_section: [2, 4, 4] } },
  },
  deepseek_vl2: {
    architecture: "DeepseekVLV2ForCausalLM",
    text: "language_config",
    vision: { width: 32, heads: 2, layers: 2, mlp_ratio: 2.3, image_size: 44, patch_size: 8 },
    top: { candidate_resolutions: [[44, 44]], tile_tag: "2D", global_view_pos: "head" },
  },
} as const;

/** The config.json that such a checkpoint has, around its text model's. */
function configOf({ family, ...given }: RandomVision, text: Fields): Fields {
  const small = SMALL_VISION[family];
  const { quantization_config, architectures: _, ...model } = text;
  const vision = { ...small.vision, ...given.vision } as Fields;
  const hidden = model.hidden_size;
  const projector = {
    projector_type: "downsample_mlp_gelu",
    depth: 2,
    mlp_ratio: 1,
    input_dim: vision.width,
    n_embed: hidden,
    ...given.projector,
  };
  const inside = small.text === undefined ? model : { [small.text]: textFields(family, model) };
  return {
    architectures: [small.architecture],
    ...inside,
    ...small.top,
    ...given.top,
    vision_config: small.text === undefined ? { ...vision, out_hidden_size: hidden } : vision,
    ...(family === "deepseek_vl2" && { projector_config: projector }),
    ...(quantization_config !== undefined && { quantization_config }),
  };
}

const textFields = (family: VisionFamily, model: Fields): Fields =>
  family === "deepseek_vl2" ? model : { ...model, model_type: "llama" };

/** A checkpoint whose text model is `textOf` the same options. */
export async function randomVision(options: RandomVision): Promise<WeightSource> {
  const { tensors, config } = await textTensors(options);
  const whole = configOf(options, config);
  const own = towerTensors(options, whole);
  const { files = {} } = options;
  return memorySource(checkpointFiles({ tensors: [...tensors, ...own], config: whole, files }));
}

/** The text model alone, under the names and with the config that it has anywhere else. */
export function textOf({ family, text = {} }: RandomVision): WeightSource {
  if (family === "deepseek_vl2") {
    const { dtype = "BF16", seed = 1, edit } = text;
    const config = { ...DEEPSEEK_V2, ...text.config };
    return randomDeepseek({ dtype, seed, config, ...(edit && { edit }) });
  }
  const rope = family === "qwen2_5_vl" ? { head_dim: 20, sliding_window: undefined } : {};
  const config = { rope_scaling: undefined, use_sliding_window: undefined, ...rope };
  const all = { max_window_layers: undefined, ...config, ...text.config };
  return randomGqa({ ...text, family: family === "qwen2_5_vl" ? "qwen2" : "llama", config: all });
}

/** Attention by a latent, and none of what came after. */
const DEEPSEEK_V2 = {
  architectures: ["DeepseekV2ForCausalLM"],
  scoring_func: "softmax",
  topk_method: "greedy",
  n_group: 1,
  topk_group: 1,
  q_lora_rank: null,
  norm_topk_prob: false,
  routed_scaling_factor: 1,
};

const SPELLINGS: Readonly<Record<VisionFamily, (name: string) => string>> = {
  llava: (name) => `language_model.${name}`,
  idefics3: (name) => name.replace(/^model\./, "model.text_model."),
  qwen2_5_vl: (name) => name,
  deepseek_vl2: (name) => `language.${name}`,
};

async function textTensors(options: RandomVision) {
  const spell = SPELLINGS[options.family];
  let tensors: readonly TensorInput[] = [];
  const edit = (all: TensorInput[]) => {
    tensors = all.map((one) => ({ ...one, name: spell(one.name) }));
    return all;
  };
  const source = textOf({ ...options, text: { ...options.text, edit } });
  return { tensors, config: (await readJson(source, "config.json")) as Fields };
}

class TowerWriter {
  readonly tensors: TensorInput[] = [];
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = seeded(seed);
  }

  add(name: string, shape: readonly number[], size: number, middle = 0): void {
    const length = shape.reduce((product, one) => product * one, 1);
    const value = () => middle + (this.#random() * 2 - 1) * size;
    const values = Float32Array.from({ length }, value);
    this.tensors.push({ name, shape, dtype: "BF16", values });
  }

  /** `shape`: of its numbers, by rows. */
  linear(
    name: string,
    shape: readonly [number, ...number[]],
    { bias = true, gain = 1 } = {},
  ): void {
    const columns = shape.slice(1).reduce((product, one) => product * one, 1);
    this.add(`${name}.weight`, shape, gain * Math.sqrt(3 / columns));
    if (bias) this.add(`${name}.bias`, [shape[0]], 0.4);
  }

  norm(name: string, length: number, { centered = true } = {}): void {
    this.add(`${name}.weight`, [length], 0.3, 1);
    if (centered) this.add(`${name}.bias`, [length], 0.3);
  }
}

function towerTensors({ family, seed = 1 }: RandomVision, config: Fields): TensorInput[] {
  const writer = new TowerWriter(1000 + seed);
  const vision = config.vision_config as Numbers;
  const section = SMALL_VISION[family].text;
  const text = ((section === undefined ? config : config[section]) as Numbers).hidden_size!;
  if (family === "llava") writeClip(writer, vision, text);
  if (family === "idefics3") writeIdefics3(writer, { ...vision, ...(config as Numbers) }, text);
  if (family === "qwen2_5_vl") writeQwen(writer, vision, text);
  if (family === "deepseek_vl2") {
    const { downsample_ratio = 2 } = config.projector_config as Numbers;
    writeDeepseek(writer, { ...vision, downsample_ratio }, text);
  }
  return writer.tensors;
}

/** Layers as the transformers library spells CLIP's and SigLIP's. */
function writeEncoder(writer: TowerWriter, name: string, vision: Numbers): void {
  const { hidden_size: size = 0, intermediate_size: inner = 0 } = vision;
  for (let i = 0; i < vision.num_hidden_layers!; i++) {
    const layer = `${name}.encoder.layers.${i}`;
    writer.norm(`${layer}.layer_norm1`, size);
    writer.norm(`${layer}.layer_norm2`, size);
    for (const part of ["q", "k", "v", "out"]) {
      const gain = part === "q" || part === "k" ? 1.6 : 1;
      writer.linear(`${layer}.self_attn.${part}_proj`, [size, size], { gain });
    }
    writer.linear(`${layer}.mlp.fc1`, [inner, size], { gain: 1.5 });
    writer.linear(`${layer}.mlp.fc2`, [size, inner]);
  }
}

function writeClip(writer: TowerWriter, vision: Numbers, text: number): void {
  const { hidden_size: size = 0, patch_size: patch = 1, image_size: side = 0 } = vision;
  const tower = "vision_tower.vision_model";
  writer.linear(`${tower}.embeddings.patch_embedding`, [size, 3, patch, patch], { bias: false });
  writer.add(`${tower}.embeddings.class_embedding`, [size], 1);
  const positions = Math.floor(side / patch) ** 2 + 1;
  writer.add(`${tower}.embeddings.position_embedding.weight`, [positions, size], 1);
  writer.norm(`${tower}.pre_layrnorm`, size);
  writeEncoder(writer, tower, vision);
  writer.norm(`${tower}.post_layernorm`, size);
  writer.linear("multi_modal_projector.linear_1", [text, size], { gain: 1.5 });
  writer.linear("multi_modal_projector.linear_2", [text, text]);
}

function writeIdefics3(writer: TowerWriter, sizes: Numbers, text: number): void {
  const { hidden_size: size = 0, patch_size: patch = 1, image_size: side = 0 } = sizes;
  const tower = "model.vision_model";
  writer.linear(`${tower}.embeddings.patch_embedding`, [size, 3, patch, patch]);
  const positions = Math.floor(side / patch) ** 2;
  writer.add(`${tower}.embeddings.position_embedding.weight`, [positions, size], 1);
  writeEncoder(writer, tower, sizes);
  writer.norm(`${tower}.post_layernorm`, size);
  const columns = sizes.scale_factor! ** 2 * size;
  writer.linear("model.connector.modality_projection.proj", [text, columns], { bias: false });
}

function writeQwen(writer: TowerWriter, vision: Numbers, text: number): void {
  const { hidden_size: size = 0, intermediate_size: inner = 0, patch_size: patch = 1 } = vision;
  const { temporal_patch_size: frames = 2, spatial_merge_size: merge = 2 } = vision;
  const plain = { bias: false, centered: false };
  writer.linear("visual.patch_embed.proj", [size, 3, frames, patch, patch], plain);
  for (let i = 0; i < vision.depth!; i++) {
    const layer = `visual.blocks.${i}`;
    writer.norm(`${layer}.norm1`, size, plain);
    writer.norm(`${layer}.norm2`, size, plain);
    writer.linear(`${layer}.attn.qkv`, [3 * size, size], { gain: 1.4 });
    writer.linear(`${layer}.attn.proj`, [size, size]);
    writer.linear(`${layer}.mlp.gate_proj`, [inner, size], { gain: 1.5 });
    writer.linear(`${layer}.mlp.up_proj`, [inner, size], { gain: 1.5 });
    writer.linear(`${layer}.mlp.down_proj`, [size, inner]);
  }
  writer.norm("visual.merger.ln_q", size, plain);
  const width = merge ** 2 * size;
  writer.linear("visual.merger.mlp.0", [width, width], { gain: 1.5 });
  writer.linear("visual.merger.mlp.2", [text, width]);
}

function writeDeepseek(writer: TowerWriter, vision: Numbers, text: number): void {
  const { width: size = 0, patch_size: patch = 1, image_size: side = 0 } = vision;
  const inner = Math.trunc(size * vision.mlp_ratio!);
  writer.linear("vision.patch_embed.proj", [size, 3, patch, patch]);
  writer.add("vision.pos_embed", [1, Math.floor(side / patch) ** 2, size], 1);
  for (let i = 0; i < vision.layers!; i++) {
    const block = `vision.blocks.${i}`;
    writer.norm(`${block}.norm1`, size);
    writer.norm(`${block}.norm2`, size);
    writer.linear(`${block}.attn.qkv`, [3 * size, size], { gain: 1.4 });
    writer.linear(`${block}.attn.proj`, [size, size]);
    writer.linear(`${block}.mlp.fc1`, [inner, size], { gain: 1.5 });
    writer.linear(`${block}.mlp.fc2`, [size, inner]);
  }
  writer.norm("vision.norm", size);
  const columns = vision.downsample_ratio! ** 2 * size;
  writer.linear("projector.layers.0", [text, columns], { gain: 1.5 });
  writer.linear("projector.layers.2", [text, text]);
  for (const mark of ["image_newline", "view_seperator"]) writer.add(mark, [text], 1);
}
