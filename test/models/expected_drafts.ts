/**
 * Drafts of a network beside those of its reference: logits of drafts that follow each other, behind
 * prompts and behind drafts that were right or wrong.
 *
 * @module
 */
import { expect } from "vitest";
import type { ModelSession, SessionSequence } from "../support/engines/model_session.ts";
import type { ReferenceDraft } from "../support/reference/reference_eagle.ts";

/** Drafts that follow each other. */
export const DRAFTS = 3;
export const PROMPTS = [
  [5, 70, 104, 200, 32, 17, 88],
  [9, 109, 35],
];

/** What drafts behind tokens, of which the last is the newest, in plain loops. */
export interface ReferenceDrafter {
  drafts(tokens: readonly number[], count: number): readonly ReferenceDraft[];
}

/** The largest difference, in parts of the spread of what is wanted. */
export function differenceOf(got: Float32Array, want: Float64Array): number {
  const spread = Math.max(...want) - Math.min(...want);
  return Math.max(...want.map((value, i) => Math.abs(value - got[i]!))) / spread;
}

/** @param session Of the target, with what drafts for it. */
export async function expectDrafts(
  session: ModelSession,
  reference: ReferenceDrafter,
): Promise<void> {
  for (const prompt of PROMPTS) {
    const sequence = session.sequence(prompt, 1);
    const given = { session, reference, sequence };
    await expectStep({ ...given, phase: "prefill", count: prompt.length });
    // One draft that is right, as the target draws it, and one that is not.
    const { tokens } = await session.draft([{ sequence, phase: "decode", count: 1 }], {
      steps: DRAFTS,
    });
    sequence.computed -= 1;
    sequence.tokens.push(tokens[0]!, 1);
    await expectStep({ ...given, phase: "decode", count: 3, right: 1 });
    session.release(sequence);
  }
}

interface ExpectedStep {
  readonly session: ModelSession;
  readonly reference: ReferenceDrafter;
  readonly sequence: SessionSequence;
  readonly phase: "prefill" | "decode";
  readonly count: number;
  /** Of the rows behind the first, how many are of right drafts. Default 0. */
  readonly right?: number;
}

/** One step, with one draft, two and so on; the sequence has the token behind its last right row then. */
async function expectStep(given: ExpectedStep): Promise<void> {
  const { session, reference, sequence, phase, count, right = 0 } = given;
  const base = sequence.computed;
  for (let steps = 1; steps <= DRAFTS; steps++) {
    sequence.computed = base;
    const part = { sequence, phase, count };
    const { tokens, drafts } = await session.draft([part], { steps, keepsLogits: true });
    const last = phase === "prefill" ? count - 1 : right;
    const known = sequence.tokens.slice(0, base + last + 1);
    const want = reference.drafts([...known, tokens[last]!], steps);
    expect([...drafts[0]!]).toEqual(want.map(({ token }) => token));
    const [logits] = await session.draftLogits(1);
    const { logits: wanted } = want.at(-1)!;
    expect(differenceOf(logits!.slice(0, wanted.length), wanted)).toBeLessThan(2e-5);
    if (steps < DRAFTS) continue;
    sequence.tokens.length = base + last + 1;
    sequence.computed = base + last + 1;
    sequence.tokens.push(tokens[last]!);
  }
}
