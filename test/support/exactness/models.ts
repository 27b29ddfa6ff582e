/**
 * Models of the exactness matrix.
 *
 * @module
 */
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { Engine } from "../../../src/engine/engine.ts";
import type { EngineOptions } from "../../../src/engine/engine_options.ts";
import type { GenerationRequest } from "../../../src/generation.ts";
import { EMBEDDED_MODEL } from "../checkpoints/embedded_model.ts";
import { folderSource } from "../checkpoints/folder_source.ts";
import { randomEagle } from "../checkpoints/random_eagle.ts";
import { device, fullTest, smallestCaseOnly } from "../devices/gpu.ts";
import { deepseekV2 } from "../synthetic/deepseek_v2.ts";
import { gptOss } from "../synthetic/gpt_oss.ts";
import { llama } from "../synthetic/llama.ts";
import { syntheticSource } from "../synthetic/source.ts";

/** Completion tokens of a request, and prompt tokens of the longest. */
export const [TOKENS, LONGEST] = fullTest ? [32, 700] : smallestCaseOnly ? [6, 92] : [8, 300];
export const SHORT = 45;

export interface Probe extends GenerationRequest {
  readonly requestId: string;
}

/** @param load What is made of the checkpoint. Default: an engine. */
type OpenModel = <T = Engine>(
  options: Partial<EngineOptions>,
  load?: (open: () => WeightSource, options: EngineOptions) => Promise<T>,
) => Promise<T>;

export interface ExactModel {
  readonly name: string;
  readonly open: OpenModel;
  readonly vocabularySize: number;
  /** Whether prompts and answers are computed in one form, so that even answers can be reused. */
  readonly oneForm: boolean;
  /** Whether they are because an option says so. */
  readonly isForced?: true;
  /** Whether the checkpoint has a module that drafts. */
  readonly hasModule?: true;
  /** A model of other weights that drafts for it, which is seldom right. */
  readonly draftModel: () => WeightSource;
  /** Requests whose answers are compared. Default: of tokens at random. */
  readonly probes?: (engine: Engine) => Promise<readonly Probe[]>;
  /** Whether no step makes drafts for it: those of texts it verifies. */
  readonly noneMade?: boolean;
  /** Heads of random weights that draft for it; its only variants are those with heads then. */
  readonly head?: (generation: "EAGLE" | "EAGLE3") => WeightSource;
}

/** Latent attention and experts. */
export const tinyDeepseek = (layers?: number) =>
  deepseekV2({
    ...(layers !== undefined && { num_hidden_layers: layers }),
    hidden_size: 64,
    intermediate_size: 64,
    kv_lora_rank: 32,
    moe_intermediate_size: 32,
    n_routed_experts: 4,
    num_attention_heads: 2,
    num_experts_per_tok: 2,
    num_key_value_heads: 2,
    qk_nope_head_dim: 16,
    qk_rope_head_dim: 8,
    v_head_dim: 16,
  });

/** Windows shorter than a prompt, sinks, and experts in MXFP4. */
export const tinyGptOss = () =>
  gptOss({
    experts_per_token: 2,
    head_dim: 16,
    hidden_size: 64,
    intermediate_size: 64,
    num_attention_heads: 4,
    num_experts_per_tok: 2,
    num_key_value_heads: 2,
    num_local_experts: 4,
    sliding_window: 24,
  });

/** What heads are made for. */
const LLAMA_SIZES = { hidden_size: 64, intermediate_size: 64, vocab_size: 512 };
const LLAMA_HEADS = { head_dim: 16, num_attention_heads: 4, num_key_value_heads: 2 };
const tinyLlama = () =>
  llama({ ...LLAMA_SIZES, ...LLAMA_HEADS, num_hidden_layers: 4, tie_word_embeddings: false });

const opener =
  (source: () => WeightSource): OpenModel =>
  async (options, load) => {
    const given = { device, contextLength: 2048, ...options };
    if (load !== undefined) return load(source, given);
    return (await Engine.load(source(), given)) as never;
  };
/** With a cache that rounds no small difference of the two forms away. */
const openLatent: OpenModel = (options, load) =>
  opener(() => syntheticSource(tinyDeepseek(), 8))({ cacheDtype: "f32", ...options }, load);

/** Of another seed than the target's. */
const otherLatent = () => syntheticSource(tinyDeepseek(), 18);

const EMBEDDED: ExactModel = {
  name: "embedded model",
  draftModel: () => folderSource(EMBEDDED_MODEL),
  open: opener(() => folderSource(EMBEDDED_MODEL)),
  vocabularySize: 2048,
  oneForm: false,
  hasModule: true,
};

/** Attention of the target and of the head is cut in two ways. */
const LATENT_WITH_HEADS: ExactModel = {
  name: "latent attention that heads of grouped-query attention draft for",
  draftModel: otherLatent,
  head: (generation) =>
    randomEagle({
      generation,
      config: { ...LLAMA_SIZES, ...LLAMA_HEADS, num_hidden_layers: 1 },
    }),
  open: (options, load) =>
    opener(() => syntheticSource(tinyDeepseek(4), 8))({ cacheDtype: "f32", ...options }, load),
  vocabularySize: 512,
  oneForm: false,
};

export const EXACT_MODELS: readonly ExactModel[] = [
  // A second for each variant on the slow driver.
  ...(smallestCaseOnly ? [] : [EMBEDDED]),
  {
    name: "latent attention",
    draftModel: otherLatent,
    open: openLatent,
    vocabularySize: 512,
    oneForm: false,
  },
  {
    name: "latent attention, deterministic inference",
    draftModel: otherLatent,
    // Nothing rounds small differences away.
    open: (options, load) =>
      openLatent({ deterministicInference: true, cacheDtype: "f32", ...options }, load),
    vocabularySize: 512,
    oneForm: true,
    isForced: true,
  },
  {
    name: "grouped-query attention",
    draftModel: () => syntheticSource(tinyGptOss(), 19),
    open: opener(() => syntheticSource(tinyGptOss(), 9)),
    vocabularySize: 512,
    oneForm: true,
  },
  {
    name: "grouped-query attention that heads draft for",
    draftModel: () => syntheticSource(tinyLlama(), 20),
    head: (generation) =>
      randomEagle({
        generation,
        config: { ...LLAMA_SIZES, ...LLAMA_HEADS, num_hidden_layers: 1 },
      }),
    open: opener(() => syntheticSource(tinyLlama(), 10)),
    vocabularySize: 512,
    oneForm: true,
  },
  // Its kernels compile for long on the slow driver, where heads for latent attention have a test too.
  ...(smallestCaseOnly ? [] : [LATENT_WITH_HEADS]),
];
