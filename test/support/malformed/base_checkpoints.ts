/**
 * Small whole checkpoints of every kind of config, weights, tokenizer and template, to be changed.
 *
 * @module
 */
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { FALLBACK_TEMPLATES } from "../../../src/text/fallback_templates.ts";
import { byteLevelJson, llamaJson, metaspaceJson } from "../../text/small_tokenizers.ts";
import { type RandomDeepseek, randomDeepseek } from "../checkpoints/random_deepseek.ts";
import { type RandomGqa, randomGqa } from "../checkpoints/random_gqa.ts";
import { jsonFile } from "../checkpoints/write_checkpoint.ts";

export type Files = Readonly<Record<string, Uint8Array>>;

const SPLIT = {
  type: "Sequence",
  pretokenizers: [
    { type: "Split", pattern: { Regex: "\\p{N}{1,3}| ?\\p{L}+|\\s+" }, behavior: "Isolated" },
    { type: "ByteLevel", add_prefix_space: false, use_regex: false },
  ],
};

const TEMPLATE_PROCESSING = {
  type: "TemplateProcessing",
  single: [{ SpecialToken: { id: "<s>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
  pair: [],
  special_tokens: {},
};

const UNIGRAM = {
  ...metaspaceJson(),
  added_tokens: [],
  model: {
    type: "Unigram",
    unk_id: 0,
    vocab: [
      ["<unk>", 0],
      ["▁", -1],
      ["a", -2],
      ["▁a", -1.5],
    ],
  },
};

const CONFIGURATION = {
  add_bos_token: true,
  bos_token: { content: "<s>", lstrip: false, normalized: false },
  eos_token: "</s>",
  pad_token: null,
  additional_special_tokens: ["<s>"],
  added_tokens_decoder: { 300: { content: "<more>", special: true } },
  model_max_length: 2048,
  tokenizer_class: "GPT2Tokenizer",
  chat_template: FALLBACK_TEMPLATES.chatml.source,
};

const NAMED = {
  ...CONFIGURATION,
  added_tokens_decoder: undefined,
  chat_template: [
    { name: "default", template: FALLBACK_TEMPLATES.llama3.source },
    { name: "tool_use", template: FALLBACK_TEMPLATES.deepseekV3.source },
  ],
};

const GENERATION = {
  bos_token_id: 256,
  eos_token_id: [257, 258],
  do_sample: true,
  temperature: 0.6,
  top_k: 20,
  top_p: 0.95,
};

const text = (value: string) => new TextEncoder().encode(value);

/** Files about text in four forms. */
const TEXTS: readonly Files[] = [
  {
    "tokenizer.json": jsonFile({
      ...byteLevelJson(),
      pre_tokenizer: SPLIT,
      post_processor: TEMPLATE_PROCESSING,
    }),
    "tokenizer_config.json": jsonFile(CONFIGURATION),
    "generation_config.json": jsonFile(GENERATION),
  },
  {
    "tokenizer.json": jsonFile(llamaJson()),
    "tokenizer_config.json": jsonFile(NAMED),
    "special_tokens_map.json": jsonFile({ unk_token: "<unk>" }),
  },
  {
    "tokenizer.json": jsonFile(UNIGRAM),
    "chat_template.jinja": text(FALLBACK_TEMPLATES.harmony.source),
  },
  {
    "vocab.json": jsonFile(byteLevelJson().model.vocab),
    "merges.txt": text("#version: 0.2\na b\nab c\n"),
    "added_tokens.json": jsonFile({ "<|endoftext|>": 256 }),
    "tokenizer_config.json": jsonFile({ tokenizer_class: "GPT2Tokenizer" }),
    "chat_template.json": jsonFile({ chat_template: FALLBACK_TEMPLATES.chatml.source }),
  },
];

const GQA: readonly RandomGqa[] = [
  { family: "llama" },
  { family: "qwen2", storage: { kind: "F16" }, shards: 2 },
  { family: "qwen3Moe", storage: { kind: "FP8", per: "row" } },
  { family: "gptOss" },
  { family: "mistral", storage: { kind: "INT8", per: "block" } },
  {
    family: "qwen3",
    storage: { kind: "GPTQ", group: 32 },
    config: { hidden_size: 64, intermediate_size: 96, head_dim: 32, num_attention_heads: 2 },
  },
  {
    family: "llama",
    storage: { kind: "AWQ", group: 32 },
    config: { hidden_size: 64, intermediate_size: 96, head_dim: 32, num_attention_heads: 2 },
  },
];

const DEEPSEEK: readonly RandomDeepseek[] = [
  { dtype: "FP8", shards: 3 },
  { dtype: "BF16", config: { architectures: ["DeepseekV2ForCausalLM"], topk_method: "greedy" } },
];

/** Every form of weights with one of the forms of text. */
export async function baseCheckpoints(): Promise<readonly Files[]> {
  const sources = [...GQA.map(randomGqa), ...DEEPSEEK.map(randomDeepseek)];
  return Promise.all(
    sources.map(async (source, i) => ({
      ...(await filesOf(source)),
      ...TEXTS[i % TEXTS.length],
    })),
  );
}

async function filesOf(source: WeightSource): Promise<Files> {
  const files: Record<string, Uint8Array> = {};
  for (const { name, size } of await source.list()) files[name] = await source.read(name, 0, size);
  return files;
}
