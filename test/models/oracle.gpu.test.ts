import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { fullTest, smallestCaseOnly } from "../support/devices/gpu.ts";
import { best, logSoftmax, ModelSession } from "../support/engines/model_session.ts";
import {
  FIXED_TOKENS,
  ORACLE_CASES,
  type OracleAnswers,
  type OraclePrompt,
} from "../support/synthetic/oracle_cases.ts";
import { type SyntheticModel, syntheticSource } from "../support/synthetic/source.ts";

/** Positions at the end of each prompt that are computed one by one, as generated tokens are. */
const DECODED = 6;

/**
 * The convention of the golden files. Measured on lavapipe and SwiftShader: at most 5e-5 for
 * gpt-oss, 2e-5 for all others.
 */
const TOLERANCE = 3e-4;
/** Best tokens nearer than this to the second may change places. */
const SMALL_MARGIN = 1e-3;

const CASES = ORACLE_CASES.filter(({ large }) => fullTest || !large);
const MODELS = smallestCaseOnly ? CASES.slice(0, 1) : CASES;

function answersOf(name: string): OracleAnswers {
  const file = fileURLToPath(new URL(`oracle/${name}.json`, import.meta.url));
  return JSON.parse(readFileSync(file, "utf8")) as OracleAnswers;
}

/** Logits after each token of the prompts: all but the last few of a prompt computed together. */
async function logitsOf(
  model: SyntheticModel,
  { seed, prompts }: OracleAnswers,
): Promise<Float32Array[][]> {
  const session = await ModelSession.open(syntheticSource(model, seed), {
    quantizeActivations: false,
    cacheDtype: "f32",
    contextLength: 256,
    pageSize: 16,
    maxTotalTokens: 512,
    maxRunningRequests: prompts.length,
  });
  const sequences = prompts.map(({ tokens }) => session.sequence(tokens.slice(0, -DECODED), 1));
  const logits: Float32Array[][] = [];
  for (const sequence of sequences) logits.push(await session.prefill(sequence));
  for (let step = DECODED; step > 0; step--) {
    for (const [p, sequence] of sequences.entries()) {
      sequence.tokens.push(prompts[p]!.tokens.at(-step)!);
    }
    const rows = await session.decode(sequences);
    for (const [p, row] of rows.entries()) logits[p]!.push(row);
  }
  session.close();
  return logits;
}

interface Comparison {
  /** Of all recorded log-probabilities. */
  readonly largest: number;
  readonly wrongBest: readonly string[];
}

function comparePrompt(prompt: OraclePrompt, logits: readonly Float32Array[]): Comparison {
  const { tokens, positions, next, top, topLogprobs, fixed } = prompt;
  let largest = 0;
  const wrongBest: string[] = [];
  for (const [i, position] of positions.entries()) {
    const logprobs = logSoftmax(logits[position]!);
    const compare = (ids: readonly number[], want: readonly number[]) => {
      for (const [k, id] of ids.entries()) {
        largest = Math.max(largest, Math.abs(logprobs[id]! - want[k]!));
      }
    };
    compare(top[i]!, topLogprobs[i]!);
    compare(FIXED_TOKENS, fixed[i]!);
    if (next[i] !== null) compare([tokens[position + 1]!], [next[i]!]);
    const margin = topLogprobs[i]![0]! - topLogprobs[i]![1]!;
    const got = best(logits[position]!);
    if (margin > SMALL_MARGIN && got !== top[i]![0]) {
      wrongBest.push(`position ${position}: got ${got}, want ${top[i]![0]}`);
    }
  }
  return { largest, wrongBest };
}

async function compare(model: SyntheticModel, answers: OracleAnswers): Promise<Comparison[]> {
  const logits = await logitsOf(model, answers);
  return answers.prompts.map((prompt, p) => comparePrompt(prompt, logits[p]!));
}

describe("a model of true layer shapes gives an independent engine's log-probabilities", () => {
  test.each(MODELS)("$name", async ({ name, model, seed }) => {
    const answers = answersOf(name);
    expect(model().config).toEqual(answers.config);
    expect(seed).toBe(answers.seed);
    for (const { largest, wrongBest } of await compare(model(), answers)) {
      expect(largest).toBeLessThanOrEqual(TOLERANCE);
      expect(wrongBest).toEqual([]);
    }
  });
});

/** Fields whose meaning the answers must depend on, each with a value that is not the model's. */
const FAULTS: readonly (readonly [string, string, unknown])[] = [
  ["qwen3-0.6b", "rope_theta", 990_000],
  ["qwen3-0.6b", "rms_norm_eps", 1e-4],
  ["llama-3.2-1b", "rope_scaling.high_freq_factor", 5],
  ["llama-3.2-1b", "rope_scaling.low_freq_factor", 0.5],
  ["qwen3-30b-a3b-16-experts", "norm_topk_prob", false],
  ["qwen3-30b-a3b-16-experts", "num_experts_per_tok", 7],
  ["deepseek-v2-lite-8-experts", "norm_topk_prob", true],
  ["deepseek-v2-lite-8-experts", "rope_scaling.beta_slow", 2],
  ["gpt-oss-20b-8-experts", "sliding_window", 127],
  ["gpt-oss-20b-8-experts", "swiglu_limit", 6.5],
  ["gpt-oss-20b-8-experts", "rope_scaling.truncate", false],
];

describe.skipIf(!fullTest || smallestCaseOnly)("the answers of the oracle", () => {
  test.each(FAULTS)("%s: notice another %s", async (name, path, value) => {
    const { model } = ORACLE_CASES.find((one) => one.name === name)!;
    const { config, tensors } = model();
    const wrong = structuredClone(config) as Record<string, Record<string, unknown>>;
    const [section, field] = path.includes(".") ? path.split(".") : [undefined, path];
    (section === undefined ? wrong : wrong[section]!)[field!] = value as never;
    const compared = await compare({ config: wrong, tensors }, answersOf(name));
    expect(Math.max(...compared.map(({ largest }) => largest))).toBeGreaterThan(3 * TOLERANCE);
  });
});
