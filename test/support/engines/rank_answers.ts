/**
 * What ranks that share a model answer, beside what one rank does.
 *
 * @module
 */
import { expect } from "vitest";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { seeded } from "../devices/gpu.ts";
import { best, ModelSession, type SessionSequence } from "./model_session.ts";
import { openRanks, type RankSession } from "./rank_sessions.ts";

/** A vocabulary with all tokens of the prompts, which have smaller ones where it is smaller. */
export const RANK_VOCABULARY = 512;
const OPTIONS = { maxRowsPerStep: 32, maxTotalTokens: 512, pageSize: 4 };

/** Prompts in chunks beside generated tokens: the bits of every row's logits, step by step. */
async function answers(session: ModelSession): Promise<Uint32Array[]> {
  const random = seeded(5);
  const vocabulary = Math.min(RANK_VOCABULARY, session.loaded.definition.shape.vocabularySize);
  const tokens = (count: number) =>
    Array.from({ length: count }, () => Math.floor(random() * vocabulary));
  const first = session.sequence(tokens(21));
  const second = session.sequence(tokens(9), 2);
  const rows: Float32Array[] = [];
  const last = new Map<SessionSequence, Float32Array>();
  const run = async (...parts: [SessionSequence, "prefill" | "decode", number][]) => {
    const all = parts.map(([sequence, phase, count]) => ({ sequence, phase, count }));
    const logits = await session.run(all);
    rows.push(...logits);
    let end = 0;
    for (const { sequence, count } of all) {
      end += count;
      last.set(sequence, logits[end - 1]!);
    }
  };
  const draw = (sequence: SessionSequence) => sequence.tokens.push(best(last.get(sequence)!));
  await run([first, "prefill", 16]);
  await run([first, "prefill", 5]);
  draw(first);
  await run([first, "decode", 1], [second, "prefill", 9]);
  for (let step = 0; step < 3; step++) {
    draw(first);
    draw(second);
    await run([first, "decode", 1], [second, "decode", 1]);
  }
  return rows.map((row) => new Uint32Array(row.buffer, row.byteOffset, row.length));
}

export async function answersOfOne(source: WeightSource, options: Partial<LoadOptions> = {}) {
  const session = await ModelSession.open(source, { ...OPTIONS, ...options });
  const bits = await answers(session);
  const { weightBytes } = session.loaded.memoryBudget;
  session.close();
  return { bits, weightBytes };
}

/** Every rank must have the bits of one rank. */
export async function expectAlike(
  source: WeightSource,
  want: Awaited<ReturnType<typeof answersOfOne>>,
  { size, ...options }: { readonly size: number } & Partial<LoadOptions>,
): Promise<RankSession[]> {
  const ranks = await openRanks(source, size, { ...OPTIONS, ...options });
  await expectBits(ranks, want);
  return ranks;
}

export async function expectBits(
  ranks: readonly RankSession[],
  want: Awaited<ReturnType<typeof answersOfOne>>,
): Promise<void> {
  const all = await Promise.all(ranks.map(({ session }) => answers(session)));
  for (const bits of all) {
    // Lists of so many numbers take long to be told apart in print.
    const unlike = bits.findIndex((row, i) => !want.bits[i]?.every((bit, j) => bit === row[j]));
    expect({ rows: bits.length, unlike }).toEqual({ rows: want.bits.length, unlike: -1 });
  }
}

export const closeRanks = (ranks: readonly RankSession[]) => {
  for (const { session } of ranks) session.close();
};
