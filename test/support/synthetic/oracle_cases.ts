/**
 * Models that an independent engine answered for, and what it was asked. The answers are in
 * test/models/oracle, one file a case; bench/peers/oracle.ts writes them.
 *
 * @module
 */
import { deepseekV2 } from "./deepseek_v2.ts";
import { DEEPSEEK_6_LAYERS, deepseekV3 } from "./deepseek_v3.ts";
import { gptOss } from "./gpt_oss.ts";
import { llama } from "./llama.ts";
import { qwen3, qwen3Moe } from "./qwen3.ts";
import { fillOf } from "./random_words.ts";
import type { SyntheticModel } from "./source.ts";

export interface OracleCase {
  /** Of the answers' file. */
  readonly name: string;
  readonly model: () => SyntheticModel;
  readonly seed: number;
  readonly promptLengths: readonly number[];
  /** Who answers. Default llama.cpp. */
  readonly oracle?: "reference";
  /** True for those that take long: gigabytes of experts, for example. */
  readonly large?: boolean;
}

const SHORT = [40, 24] as const;
/** Some positions are behind a sliding window of 128. */
const PAST_WINDOW = [150, 24] as const;

/** llama.cpp always rounds the ramp of YaRN to whole dimensions, the published gpt-oss does not. */
const truncated = (fields: Parameters<typeof gptOss>[0] = {}) => {
  const rope = gptOss().config.rope_scaling as { truncate: boolean };
  const rope_scaling = { ...rope, truncate: true } as never;
  return gptOss({ ...fields, rope_scaling });
};

export const ORACLE_CASES: readonly OracleCase[] = [
  { name: "qwen3-0.6b", model: () => qwen3(), seed: 1, promptLengths: SHORT },
  { name: "llama-3.2-1b", model: () => llama(), seed: 2, promptLengths: SHORT },
  {
    name: "qwen3-30b-a3b-16-experts",
    model: () => qwen3Moe({ num_experts: 16 }),
    seed: 3,
    promptLengths: SHORT,
  },
  {
    name: "deepseek-v2-lite-8-experts",
    model: () => deepseekV2({ n_routed_experts: 8 }),
    seed: 4,
    promptLengths: SHORT,
  },
  {
    name: "deepseek-v3-16-experts",
    model: () =>
      deepseekV3({ ...DEEPSEEK_6_LAYERS, num_hidden_layers: 2, vocab_size: 512 }, { fp8: false }),
    seed: 9,
    promptLengths: SHORT,
  },
  {
    name: "gpt-oss-20b-8-experts",
    model: () => truncated({ num_local_experts: 8 }),
    seed: 5,
    promptLengths: PAST_WINDOW,
  },
  {
    name: "qwen3-30b-a3b",
    model: () => qwen3Moe(),
    seed: 6,
    promptLengths: SHORT,
    large: true,
  },
  {
    name: "deepseek-v2-lite",
    model: () => deepseekV2(),
    seed: 7,
    promptLengths: SHORT,
    large: true,
  },
  {
    name: "gpt-oss-20b",
    model: () => truncated(),
    seed: 8,
    promptLengths: PAST_WINDOW,
    large: true,
  },
  {
    name: "gpt-oss-20b-8-experts-not-truncated",
    model: () => gptOss({ num_local_experts: 8 }),
    seed: 5,
    promptLengths: PAST_WINDOW,
    oracle: "reference",
    large: true,
  },
];

/** What an oracle said about one prompt. */
export interface OraclePrompt {
  readonly tokens: readonly number[];
  /** Where the rest was recorded. */
  readonly positions: readonly number[];
  /** Log-probability of the token that follows, `null` behind the last. */
  readonly next: readonly (number | null)[];
  /** The likeliest tokens, best first. */
  readonly top: readonly (readonly number[])[];
  readonly topLogprobs: readonly (readonly number[])[];
  /** Log-probabilities of `FIXED_TOKENS`. */
  readonly fixed: readonly (readonly number[])[];
}

export interface OracleAnswers {
  readonly engine: string;
  readonly seed: number;
  readonly config: Readonly<Record<string, unknown>>;
  readonly prompts: readonly OraclePrompt[];
}

export const FIXED_TOKENS = [0, 7, 100, 255, 300, 511];
export const TOP_TOKENS = 20;

/** Prompts longer than this are recorded densely at their end only. */
const DENSE_POSITIONS = 40;
const SPARSE_STEP = 8;

export function promptTokens({ seed, model }: OracleCase, length: number): number[] {
  const bytes = new Uint8Array(length * 4);
  fillOf(seed, `prompt of ${length}`, { kind: "nibbles" })(bytes, 0);
  const vocabulary = model().config.vocab_size as number;
  return Array.from(new Uint32Array(bytes.buffer), (word) => word % vocabulary);
}

export function recordedPositions(length: number): number[] {
  return Array.from({ length }, (_, position) => position).filter(
    (position) => position >= length - DENSE_POSITIONS || position % SPARSE_STEP === 0,
  );
}
