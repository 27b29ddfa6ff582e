import { describe, expect, test } from "vitest";
import { SHARED_MODELS } from "../support/checkpoints/folder_source.ts";
import { seeded, smallestCaseOnly } from "../support/devices/gpu.ts";
import {
  best,
  ModelSession,
  type Rows,
  type SessionSequence,
} from "../support/engines/model_session.ts";

const random = seeded(7);
const tokens = (count: number) =>
  Array.from({ length: count }, () => 3 + Math.floor(random() * 2000));
/** Longer than a split of 256 keys, so that a merge of splits is part of what is compared. */
const PROMPT = tokens(smallestCaseOnly ? 70 : 300);
const STEPS = smallestCaseOnly ? 2 : 6;
const MODEL = "tiny-deepseek-v3-fp8";

const bits = (rows: readonly Float32Array[]) => rows.map((row) => new Uint32Array(row.buffer));

/** Greedy steps alone: the logits of each. */
async function decodeAlone(session: ModelSession, sequence: SessionSequence, first: Float32Array) {
  const logits: Float32Array[] = [];
  let last = first;
  for (let step = 0; step < STEPS; step++) {
    sequence.tokens.push(best(last));
    last = (await session.decode([sequence]))[0]!;
    logits.push(last);
  }
  return logits;
}

describe.skipIf(SHARED_MODELS === undefined)(
  "batch invariance (needs ../shared/data)",
  async () => {
    let want: { readonly prompt: Uint32Array[]; readonly steps: Uint32Array[] };

    test("a sequence alone, its prompt in one piece", async () => {
      const session = await ModelSession.open(MODEL, { maxRowsPerStep: 512, pageSize: 16 });
      const sequence = session.sequence(PROMPT);
      const prompt = await session.prefill(sequence);
      const steps = await decodeAlone(session, sequence, prompt.at(-1)!);
      want = { prompt: bits(prompt), steps: bits(steps) };
      expect(prompt).toHaveLength(PROMPT.length);
      // A different prompt gives different bits: the comparison is not of constants.
      const other = await session.prefill(session.sequence(PROMPT.toReversed()));
      expect(bits(other)).not.toEqual(want.prompt);
      session.close();
    });

    test.each(
      smallestCaseOnly
        ? [[16, 16]]
        : [
            [16, 16],
            [64, 16],
            [512, 16],
            [64, 1],
            [64, 64],
            [7, 3],
          ],
    )("prefill chunks of %i and pages of %i give the same bits", async (chunk, pageSize) => {
      const session = await ModelSession.open(MODEL, { maxRowsPerStep: 512, pageSize });
      const sequence = session.sequence(PROMPT, 3);
      const prompt = await session.prefill(sequence, chunk);
      expect(bits(prompt)).toEqual(want.prompt);
      const steps = await decodeAlone(session, sequence, prompt.at(-1)!);
      expect(bits(steps)).toEqual(want.steps);
      session.close();
    });

    test("eight different neighbours in the same steps give the same bits", async () => {
      const session = await ModelSession.open(MODEL, { maxRowsPerStep: 512, pageSize: 16 });
      const others = Array.from({ length: 7 }, (_, i) => session.sequence(tokens(3 + 11 * i), i));
      const sequence = session.sequence(PROMPT, 1);
      for (const other of others) await session.prefill(other);

      // The prompt goes in while the others decode, and one more prompt beside it.
      const logits: Float32Array[] = [];
      while (sequence.computed < PROMPT.length) {
        for (const other of others) other.tokens.push(42 + other.tokens.length);
        const count = Math.min(64, PROMPT.length - sequence.computed);
        const late = session.sequence(tokens(5));
        const parts: Rows[] = [
          ...others.map((other) => ({ sequence: other, phase: "decode", count: 1 }) as const),
          { sequence: late, phase: "prefill", count: 5 },
          { sequence, phase: "prefill", count },
        ];
        const rows = await session.run(parts);
        expect(rows).toHaveLength(others.length + 5 + count);
        logits.push(...rows.slice(others.length + 5));
        session.release(late);
      }
      expect(bits(logits)).toEqual(want.prompt);

      // Then all eight decode together, in an order that changes.
      let last = logits.at(-1)!;
      for (let step = 0; step < STEPS; step++) {
        sequence.tokens.push(best(last));
        for (const other of others) other.tokens.push(42 + other.tokens.length);
        const order = [...others];
        order.splice(step % 8, 0, sequence);
        const rows = await session.decode(order);
        expect(rows).toHaveLength(8);
        last = rows[step % 8]!;
        expect(bits([last])).toEqual([want.steps[step]]);
      }
      session.close();
    });
  },
);
