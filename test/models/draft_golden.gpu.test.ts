import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { SHARED_MODELS } from "../support/checkpoints/folder_source.ts";
import { smallestCaseOnly } from "../support/devices/gpu.ts";
import {
  best,
  logSoftmax,
  ModelSession,
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
/** The slowest driver computes the mini and one tiny model. */
const wanted = (model: string) => !smallestCaseOnly || !model.includes("bf16");
const STEPS = [1, 3] as const;
/** Rows of one step, each of which may get a draft of its own. */
const AT_ONCE = 96;
/** Below this margin between the two best logits a token may differ. */
const SMALL_MARGIN = 0.05;

const goldenCases = (model: string): readonly DraftCase[] => {
  const file = join(SHARED_MODELS!, "../golden", `${model}.w.json`);
  const { cases } = JSON.parse(readFileSync(file, "utf8")) as { cases: DraftCase[] };
  return smallestCaseOnly ? cases.slice(0, 2) : cases;
};

/** Log-probabilities of the draft behind every row of a prompt and its answer, which are given. */
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
    const phase = isPrompt ? "prefill" : "decode";
    const drafted = Array.from({ length: count }, (_, row) => {
      return { sequence: 0, firstLogitRow: row, logitRows: 1 };
    });
    const kept = { keepsLogits: true, knowsNext: true };
    await session.draft([{ sequence, phase, count }], { steps: 1, drafted, ...kept });
    rows.push(...(await session.draftLogits(count)).map(logSoftmax));
  }
  session.release(sequence);
  return rows;
}

/** One answer while it is generated: its tokens end with drafts that are not verified yet. */
interface Answer {
  readonly sequence: SessionSequence;
  readonly wanted: number;
  readonly rounds: Round[];
  drafts: readonly number[];
}

/** Verifies drafts and makes the next ones, as a scheduler does, for all cases together. */
async function speculate(
  session: ModelSession,
  cases: readonly DraftCase[],
  steps: (typeof STEPS)[number],
): Promise<readonly (readonly Round[])[]> {
  const answers: Answer[] = [];
  for (const { input_ids: prompt, mtp } of cases) {
    const sequence = session.sequence(prompt, 1);
    const prefill = { sequence, phase: "prefill", count: prompt.length } as const;
    const { tokens, drafts } = await session.draft([prefill], { steps });
    sequence.tokens.push(tokens.at(-1)!);
    const wanted = mtp[`speculative_steps${steps}`].rounds.length;
    answers.push({ sequence, wanted, rounds: [], drafts: [...drafts[0]!] });
  }
  for (;;) {
    const running = answers.filter(({ rounds, wanted }) => rounds.length < wanted);
    if (running.length === 0) break;
    const parts = running.map(({ sequence, drafts }) => {
      sequence.tokens.push(...drafts);
      return { sequence, phase: "decode", count: steps + 1 } as const;
    });
    const { tokens, drafts } = await session.draft(parts, { steps });
    running.forEach((answer, i) => {
      const drawn = tokens.subarray(i * (steps + 1), (i + 1) * (steps + 1));
      commit(answer, [...drawn]);
      answer.drafts = [...drafts[i]!];
    });
  }
  for (const { sequence } of answers) session.release(sequence);
  return answers.map(({ rounds }) => rounds);
}

/** Keeps the drafts that are the drawn tokens, and the token drawn behind them. */
function commit({ sequence, drafts, rounds }: Answer, drawn: readonly number[]): void {
  const start = sequence.tokens.length - 1 - drafts.length;
  let accepted = 0;
  while (accepted < drafts.length && drafts[accepted] === drawn[accepted]) accepted += 1;
  const kept = drawn.slice(0, accepted + 1);
  sequence.tokens.splice(start + 1, drafts.length, ...kept);
  sequence.computed = start + 1 + accepted;
  rounds.push({ start, drafts, accepted, new: kept });
}

/** The golden rounds whose tokens all stand behind larger margins. */
function certain({ input_ids: prompt, greedy, mtp }: DraftCase, steps: (typeof STEPS)[number]) {
  const firstSmall = greedy.margin.findIndex((margin) => margin <= SMALL_MARGIN);
  const end = firstSmall < 0 ? greedy.ids.length : firstSmall;
  const { rounds } = mtp[`speculative_steps${steps}`];
  // A refused draft is compared with the token in its place: that behind the last new one.
  return rounds.filter(({ start, new: added }) => start + 1 + added.length - prompt.length <= end);
}

const share = (values: readonly boolean[]) => values.filter(Boolean).length / values.length;

describe.skipIf(SHARED_MODELS === undefined)("drafts (need ../shared/data)", () => {
  test.each(MODELS.filter(wanted))(
    "%s drafts the golden tokens, behind every row and in rounds",
    async (model) => {
      const session = await ModelSession.open(model, {
        quantizeActivations: false,
        maxDrafts: 3,
        maxRunningRequests: AT_ONCE,
        maxRowsPerStep: 4 * AT_ONCE,
      });
      const cases = goldenCases(model);
      const errors: number[] = [];
      const wrong: string[] = [];
      for (const one of cases) {
        const rows = await draftsOfAllRows(session, one);
        expect(rows.length).toBe(one.mtp.draft_top1.length);
        rows.forEach((row, i) => {
          const id = one.mtp.draft_top1[i]!;
          errors.push(Math.abs(row[id]! - one.mtp.draft_logprob[i]!));
          if (row[best(row)]! - row[id]! > SMALL_MARGIN) wrong.push(`${one.name}[${i}]`);
        });
      }
      expect(wrong).toEqual([]);
      console.log(
        model,
        errors.length,
        Math.max(...errors),
        errors.filter((e) => e > 1e-2).length,
        errors.filter((e) => e > 5e-3).length,
      );
      const sameDrafts: boolean[] = [];
      for (const steps of STEPS) {
        const got = await speculate(session, cases, steps);
        cases.forEach((one, c) => {
          certain(one, steps).forEach((want, i) => {
            const { drafts, ...round } = got[c]![i]!;
            sameDrafts.push(drafts.join() === want.drafts.join());
            expect(round, `${one.name}, round ${i} of ${steps}`).toEqual({
              ...{ start: want.start, accepted: want.accepted, new: want.new },
            });
          });
        });
      }
      expect(share(sameDrafts)).toBeGreaterThanOrEqual(0.98);
      session.close();
    },
  );
});
