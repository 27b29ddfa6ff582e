import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { DraftedSequence } from "../../src/layers/batch.ts";
import { SHARED_MODELS } from "../support/checkpoints/folder_source.ts";
import { smallestCaseOnly } from "../support/devices/gpu.ts";
import {
  best,
  logSoftmax,
  ModelSession,
  type Rows,
  type SessionSequence,
} from "../support/engines/model_session.ts";

interface Round {
  /** Position of the newest token. */
  readonly start: number;
  readonly drafts: readonly number[];
  readonly accepted: number;
  readonly new: readonly number[];
}

interface DraftCase {
  readonly name: string;
  readonly input_ids: readonly number[];
  readonly greedy: {
    readonly ids: readonly number[];
    readonly margin: readonly number[];
    readonly eos_at: number | null;
  };
  readonly mtp: {
    readonly draft_top1: readonly number[];
    readonly draft_logprob: readonly number[];
    readonly speculative_steps1: { readonly rounds: readonly Round[] };
    readonly speculative_steps3: { readonly rounds: readonly Round[] };
  };
}

const MODELS = ["tiny-deepseek-v3-fp8", "tiny-deepseek-v3-bf16", "mini-deepseek-v3-fp8"];

const goldenCases = (model: string): readonly DraftCase[] => {
  const file = join(SHARED_MODELS!, "../golden", `${model}.w.json`);
  const { cases } = JSON.parse(readFileSync(file, "utf8")) as { cases: DraftCase[] };
  return smallestCaseOnly ? cases.slice(0, 2) : cases;
};

/** Rows of one step, each of which gets a draft of its own. */
const AT_ONCE = 64;

/** Log-probabilities of every row's draft, a prompt's rows first. */
async function draftsOfAllRows(
  session: ModelSession,
  { input_ids: prompt, greedy }: DraftCase,
): Promise<Float64Array[]> {
  const sequence = session.sequence([...prompt, ...greedy.ids], 1);
  const rows: Float64Array[] = [];
  const last = sequence.tokens.length - 1;
  while (sequence.computed < last) {
    const isPrompt = sequence.computed < prompt.length;
    const count = Math.min(AT_ONCE, (isPrompt ? prompt.length : last) - sequence.computed);
    const part: Rows = { sequence, phase: isPrompt ? "prefill" : "decode", count };
    const drafted = Array.from(
      { length: count },
      (_, i): DraftedSequence => ({ sequence: 0, firstLogitRow: i, logitRows: 1 }),
    );
    await session.draft([part], { steps: 1, drafted, keepsLogits: true, knowsNext: true });
    rows.push(...(await session.draftLogits(count)).map(logSoftmax));
  }
  session.release(sequence);
  return rows;
}

/** Verifies drafts and makes the next, as a scheduler does, until a sequence has `count` tokens more. */
async function rounds(
  session: ModelSession,
  { input_ids: prompt }: DraftCase,
  { steps, count }: { readonly steps: number; readonly count: number },
): Promise<Round[]> {
  const sequence: SessionSequence = session.sequence(prompt, 1);
  const first: Rows = { sequence, phase: "prefill", count: prompt.length };
  let { tokens, drafts } = await session.draft([first], { steps });
  sequence.tokens.push(tokens.at(-1)!);
  const done: Round[] = [];
  while (sequence.tokens.length < prompt.length + count) {
    const start = sequence.tokens.length - 1;
    const given = [...drafts[0]!];
    sequence.tokens.push(...given);
    ({ tokens, drafts } = await session.draft([{ sequence, phase: "decode", count: steps + 1 }], {
      steps,
    }));
    let accepted = 0;
    while (accepted < steps && given[accepted] === tokens[accepted]) accepted += 1;
    const drawn = [...tokens.subarray(0, accepted + 1)];
    sequence.tokens.splice(start + 1, steps, ...drawn);
    sequence.computed = start + 1 + accepted;
    done.push({ start, drafts: given, accepted, new: drawn });
  }
  session.release(sequence);
  return done;
}

describe.skipIf(SHARED_MODELS === undefined)("drafts (need ../shared/data)", () => {
  test.each(MODELS)("%s drafts the golden tokens behind every row", async (model) => {
    const session = await ModelSession.open(model, {
      quantizeActivations: false,
      maxDrafts: 1,
      maxRunningRequests: AT_ONCE,
    });
    const errors: number[] = [];
    const wrong: string[] = [];
    for (const one of goldenCases(model)) {
      const rows = await draftsOfAllRows(session, one);
      expect(rows.length).toBe(one.mtp.draft_top1.length);
      rows.forEach((row, i) => {
        const id = one.mtp.draft_top1[i]!;
        errors.push(Math.abs(row[id]! - one.mtp.draft_logprob[i]!));
        const got = best(row);
        if (got !== id && row[got]! - row[id]! > 0.05) wrong.push(`${one.name}[${i}]`);
      });
    }
    session.close();
    console.log(
      model,
      errors.length,
      Math.max(...errors),
      errors.filter((e) => e > 1e-2).length,
      wrong,
    );
    expect(wrong).toEqual([]);
  });

  test.each(MODELS)("%s rounds", async (model) => {
    const session = await ModelSession.open(model, { quantizeActivations: false, maxDrafts: 3 });
    let same = 0,
      all = 0;
    for (const one of goldenCases(model)) {
      for (const steps of [1, 3] as const) {
        const want = one.mtp[`speculative_steps${steps}`].rounds;
        const got = await rounds(session, one, { steps, count: one.greedy.eos_at ?? 40 });
        want.forEach((round, i) => {
          all++;
          if (JSON.stringify(round) === JSON.stringify(got[i])) same++;
          else
            console.log(model, one.name, steps, i, JSON.stringify(round), JSON.stringify(got[i]));
        });
      }
    }
    console.log(model, same, all);
    session.close();
  });
});
