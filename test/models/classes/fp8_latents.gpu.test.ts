import { describe, expect, test } from "vitest";
import { randomDeepseek, SMALL_DEEPSEEK } from "../../support/checkpoints/random_deepseek.ts";
import { seeded, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { best, ModelSession, type SessionSequence } from "../../support/engines/model_session.ts";

/** Longer than a split of 256 keys, so that a merge of splits is part of what is compared. */
const LENGTH = smallestCaseOnly ? 30 : 290;
const STEPS = smallestCaseOnly ? 2 : 4;

const random = seeded(5);
const tokens = (count: number) =>
  Array.from({ length: count }, () => Math.floor(random() * SMALL_DEEPSEEK.vocab_size));
const bits = (rows: readonly Float32Array[]) => rows.map((row) => new Uint32Array(row.buffer));

/** Greedy steps beside others that decode too: the logits of each. */
async function decode(
  session: ModelSession,
  sequence: SessionSequence,
  { first, others = [] }: { first: Float32Array; others?: readonly SessionSequence[] },
) {
  const logits: Float32Array[] = [];
  let last = first;
  for (let step = 0; step < STEPS; step++) {
    sequence.tokens.push(best(last));
    for (const other of others) other.tokens.push(step);
    last = (await session.decode([...others, sequence])).at(-1)!;
    logits.push(last);
  }
  return logits;
}

describe("latents in FP8", () => {
  // Runs of 128 and of 12.
  const source = randomDeepseek({ config: { kv_lora_rank: 140 } });
  const prompt = tokens(LENGTH);
  const open = (pageSize: number) =>
    ModelSession.open(source, {
      cacheDtype: "fp8_e4m3",
      maxRowsPerStep: 512,
      maxTotalTokens: 1024,
      pageSize,
    });

  test("chunks, pages and neighbours change no bit of prompts and answers", async () => {
    const whole = await open(16);
    const sequence = whole.sequence(prompt);
    const want = await whole.prefill(sequence);
    const steps = await decode(whole, sequence, { first: want.at(-1)! });
    whole.close();

    const pieces = await open(3);
    const others = [pieces.sequence(tokens(9), 1), pieces.sequence(tokens(40), 2)];
    for (const other of others) await pieces.prefill(other);
    const again = pieces.sequence(prompt, 3);
    const logits = await pieces.prefill(again, 37);
    expect(bits(logits)).toEqual(bits(want));
    const beside = await decode(pieces, again, { first: logits.at(-1)!, others });
    expect(bits(beside)).toEqual(bits(steps));
    pieces.close();
  });
});
