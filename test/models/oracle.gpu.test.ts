import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { fullTest, smallestCaseOnly } from "../support/gpu.ts";
import { best, logSoftmax, ModelSession } from "../support/model_session.ts";
import {
  FIXED_TOKENS,
  ORACLE_CASES,
  type OracleAnswers,
  type OracleCase,
  type OraclePrompt,
} from "../support/synthetic/oracle_cases.ts";
import { syntheticSource } from "../support/synthetic/source.ts";

/** Positions at the end of each prompt that are computed one by one, as generated tokens are. */
const DECODED = 6;

/** The convention of the golden files; differences measured are a few times 1e-5. */
const TOLERANCE = 3e-4;
/** Best tokens nearer than this to the second may change places. */
const SMALL_MARGIN = 1e-3;

const CASES = ORACLE_CASES.filter(({ large }) => fullTest || !large);
const MODELS = smallestCaseOnly ? CASES.slice(0, 1) : CASES;

function answersOf({ name }: OracleCase): OracleAnswers {
  const file = fileURLToPath(new URL(`oracle/${name}.json`, import.meta.url));
  return JSON.parse(readFileSync(file, "utf8")) as OracleAnswers;
}

/** Logits after each token of the prompts: all but the last few of a prompt computed together. */
async function logitsOf(
  session: ModelSession,
  prompts: readonly OraclePrompt[],
): Promise<Float32Array[][]> {
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
  return logits;
}

describe("a model of true layer shapes gives llama.cpp's log-probabilities", () => {
  test.each(MODELS)("$name", async (one) => {
    const { config, seed, prompts } = answersOf(one);
    const model = one.model();
    expect(JSON.parse(JSON.stringify(model.config))).toEqual(config);
    expect(one.seed).toBe(seed);
    const session = await ModelSession.open(syntheticSource(model, seed), {
      quantizeActivations: false,
      cacheDtype: "f32",
      contextLength: 256,
      pageSize: 16,
      maxTotalTokens: 512,
      maxRunningRequests: prompts.length,
    });
    const logits = await logitsOf(session, prompts);
    session.close();

    let largest = 0;
    const wrongBest: string[] = [];
    for (const [p, { tokens, positions, next, top, topLogprobs, fixed }] of prompts.entries()) {
      for (const [i, position] of positions.entries()) {
        const row = logits[p]![position]!;
        const logprobs = logSoftmax(row);
        const compare = (token: number, want: number) => {
          largest = Math.max(largest, Math.abs(logprobs[token]! - want));
        };
        top[i]!.forEach((token, t) => {
          compare(token, topLogprobs[i]![t]!);
        });
        FIXED_TOKENS.forEach((token, t) => {
          compare(token, fixed[i]![t]!);
        });
        if (next[i] !== null) compare(tokens[position + 1]!, next[i]!);
        const margin = topLogprobs[i]![0]! - topLogprobs[i]![1]!;
        const got = best(row);
        if (margin > SMALL_MARGIN && got !== top[i]![0]) {
          wrongBest.push(`prompt ${p}, position ${position}: got ${got}, want ${top[i]![0]}`);
        }
      }
    }
    console.log(`${one.name}: largest difference ${largest.toExponential(1)}`);
    expect(largest).toBeLessThanOrEqual(TOLERANCE);
    expect(wrongBest).toEqual([]);
  });
});
