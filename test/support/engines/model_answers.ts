/**
 * What a model answers when its prompt comes in chunks, token by token, or beside others.
 *
 * @module
 */
import { expect } from "vitest";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { largestDifference } from "../reference/log_probabilities.ts";
import { ModelSession } from "./model_session.ts";

/** Nothing rounds what a reference does not round. */
const PRECISE = {
  maxTotalTokens: 1024,
  maxRunningRequests: 4,
  cacheDtype: "f32",
  quantizeActivations: false,
} as const;

/** Logits of a prompt in chunks, then of the last `decode` tokens one by one. */
export async function answerTokens(
  source: WeightSource,
  tokens: readonly number[],
  run: { readonly chunk: number; readonly decode: number; readonly options?: Partial<LoadOptions> },
): Promise<Float32Array[]> {
  const { chunk, decode, options } = run;
  const session = await ModelSession.open(source, { ...PRECISE, ...options });
  const sequence = session.sequence(tokens.slice(0, -decode), 1);
  const logits = await session.prefill(sequence, chunk);
  for (const token of tokens.slice(-decode)) {
    sequence.tokens.push(token);
    logits.push(...(await session.decode([sequence])));
  }
  session.close();
  return logits;
}

/** Tokens in the cache, and rows of the step in question. */
const MIXED = [
  { past: 6, rows: 1, phase: "decode" },
  { past: 270, rows: 1, phase: "decode" },
  { past: 290, rows: 60, phase: "prefill" },
  { past: 10, rows: 100, phase: "prefill" },
  { past: 0, rows: 37, phase: "prefill" },
  { past: 255, rows: 2, phase: "prefill" },
] as const;

/** A reference implementation, as far as these need it. */
interface Reference {
  logProbabilities(tokens: readonly number[]): Float64Array[];
}

/**
 * Largest difference from the reference over one step of several sequences of different pasts.
 *
 * @param tokensOf `count` tokens of sequence number i.
 */
export async function mixedStepDifference(
  source: WeightSource,
  reference: Reference,
  tokensOf: (count: number, i: number) => readonly number[],
): Promise<number> {
  const sizes = { maxTotalTokens: 1600, pageSize: 4, maxRowsPerStep: 300 };
  const options = { ...PRECISE, ...sizes, maxRunningRequests: MIXED.length };
  const session = await ModelSession.open(source, options);
  const sequences = MIXED.map(({ past, rows }, i) => session.sequence(tokensOf(past + rows, i), i));
  for (const [i, { past }] of MIXED.entries()) {
    if (past > 0) await session.run([{ sequence: sequences[i]!, phase: "prefill", count: past }]);
  }
  const parts = MIXED.map(({ rows, phase }, i) => ({
    sequence: sequences[i]!,
    phase,
    count: rows,
  }));
  const logits = await session.run(parts);
  session.close();
  const want = MIXED.flatMap(({ past }, i) =>
    reference.logProbabilities(sequences[i]!.tokens).slice(past),
  );
  return largestDifference(logits, want);
}

/**
 * Compares answers with a reference's, as far as f32 allows: four times what noise on every normed
 * value moves in the reference itself.
 */
export function expectNearNoise(
  logits: readonly Float32Array[],
  reference: Reference & { with(options: { noise: number }): Reference },
  tokens: readonly number[],
): void {
  const want = reference.logProbabilities(tokens);
  const noisy = reference.with({ noise: 1e-6 }).logProbabilities(tokens);
  const moved = noisy.reduce(
    (most, row, i) => row.reduce((m, x, k) => Math.max(m, Math.abs(x - want[i]![k]!)), most),
    0,
  );
  expect(largestDifference(logits, want)).toBeLessThan(3e-5 + 4 * moved);
}
