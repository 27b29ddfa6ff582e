import { describe, expect, test } from "vitest";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import { PLAIN_TUNING } from "../../src/gpu/tuning.ts";
import { configOf, type RandomGqa, randomGqa } from "../support/checkpoints/random_gqa.ts";
import { fullTest, seeded, smallestCaseOnly } from "../support/devices/gpu.ts";
import {
  best,
  ModelSession,
  type Rows,
  type SessionSequence,
} from "../support/engines/model_session.ts";

interface Case extends RandomGqa {
  readonly name: string;
  readonly options?: Partial<LoadOptions>;
}

/** A generated row alone takes other kernels than rows beside others. */
const FOLDED = { tuning: { ...PLAIN_TUNING, foldsNorms: true } };

const MODELS: readonly Case[] = [
  { name: "Qwen3", family: "qwen3", config: { tie_word_embeddings: true } },
  {
    name: "Llama, AWQ, folded",
    storage: { kind: "AWQ", group: 32 },
    config: {
      hidden_size: 96,
      head_dim: 32,
      num_attention_heads: 7,
      num_key_value_heads: 1,
      intermediate_size: 160,
    },
    options: FOLDED,
  },
  { name: "Qwen3-MoE", family: "qwen3Moe" },
  { name: "gpt-oss", family: "gptOss", config: { sliding_window: 100 } },
  {
    name: "Qwen3, an FP8 cache, folded",
    family: "qwen3",
    options: { cacheDtype: "fp8_e4m3", ...FOLDED },
  },
  {
    name: "Llama, FP8 and rounded activations, folded",
    storage: { kind: "FP8", per: "block" },
    config: { hidden_size: 136, intermediate_size: 150 },
    options: { quantizeActivations: true, ...FOLDED },
  },
];

/** Longer than a split of 256 keys, so that a merge of splits is part of what is compared. */
const LENGTH = smallestCaseOnly ? 40 : 290;
const STEPS = smallestCaseOnly ? 2 : 5;
const OPTIONS = { maxRowsPerStep: 512, maxTotalTokens: 2048, pageSize: 16 };

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

describe.each(smallestCaseOnly ? MODELS.slice(0, 1) : MODELS)("bits of $name", (model) => {
  const random = seeded(7);
  const tokens = (count: number) =>
    Array.from({ length: count }, () => Math.floor(random() * configOf(model).vocab_size));
  const prompt = tokens(LENGTH);
  const open = (more: object = {}) =>
    ModelSession.open(randomGqa(model), { ...OPTIONS, ...model.options, ...more });
  let want: { readonly prompt: Uint32Array[]; readonly steps: Uint32Array[] };

  test("a sequence alone, its prompt in one piece", async () => {
    const session = await open();
    const sequence = session.sequence(prompt);
    const logits = await session.prefill(sequence);
    const steps = await decodeAlone(session, sequence, logits.at(-1)!);
    want = { prompt: bits(logits), steps: bits(steps) };
    expect(logits).toHaveLength(LENGTH);
    // A different prompt gives different bits: the comparison is not of constants.
    const other = await session.prefill(session.sequence(prompt.toReversed()));
    expect(bits(other)).not.toEqual(want.prompt);
    session.close();
  });

  test("rows of generated tokens are the bits of prompt rows", async () => {
    const session = await open();
    for (const first of smallestCaseOnly ? [1] : [1, 249]) {
      const count = smallestCaseOnly ? 3 : 12;
      const sequence = session.sequence(prompt.slice(0, first), 2);
      await session.prefill(sequence);
      for (let i = first; i < first + count; i++) {
        sequence.tokens.push(prompt[i]!);
        expect(bits(await session.decode([sequence]))).toEqual([want.prompt[i]]);
      }
      // And back: prompt rows behind generated ones.
      sequence.tokens.push(...prompt.slice(first + count, first + count + 9));
      const rest = await session.prefill(sequence);
      expect(bits(rest)).toEqual(want.prompt.slice(first + count, first + count + 9));
    }
    session.close();
  });

  test("a step generated is the bits of a prompt that holds it", async () => {
    const session = await open();
    const sequence = session.sequence(prompt);
    await decodeAlone(session, sequence, (await session.prefill(sequence)).at(-1)!);
    const whole = await session.prefill(session.sequence(sequence.tokens));
    expect(bits(whole).slice(LENGTH)).toEqual(want.steps);
    session.close();
  });

  const chunks = [
    [64, 1],
    [7, 3],
    [16, 16],
    [100, 64],
  ] as const;
  test.each(fullTest ? chunks : chunks.slice(0, smallestCaseOnly ? 1 : 2))(
    "prefill chunks of %i and pages of %i",
    async (chunk, pageSize) => {
      const session = await open({ pageSize });
      const sequence = session.sequence(prompt, 3);
      const logits = await session.prefill(sequence, chunk);
      expect(bits(logits)).toEqual(want.prompt);
      const steps = await decodeAlone(session, sequence, logits.at(-1)!);
      expect(bits(steps)).toEqual(want.steps);
      session.close();
    },
  );

  test("different neighbours in the same steps", async () => {
    const session = await open();
    // The last of them has several splits, so that its rows are merged beside those of prompts.
    const lengths = [3, 20, 37, 54, smallestCaseOnly ? 71 : 270];
    const others = lengths.map((length, i) => session.sequence(tokens(length), i));
    const sequence = session.sequence(prompt, 1);
    for (const other of others) await session.prefill(other);

    // The prompt goes in while the others decode, and one more prompt beside it.
    const logits: Float32Array[] = [];
    while (sequence.computed < LENGTH) {
      for (const other of others) other.tokens.push(42 + (other.tokens.length % 99));
      const count = Math.min(64, LENGTH - sequence.computed);
      const late = session.sequence(tokens(5));
      const parts: Rows[] = [
        ...others.map((other) => ({ sequence: other, phase: "decode", count: 1 }) as const),
        { sequence: late, phase: "prefill", count: 5 },
        { sequence, phase: "prefill", count },
      ];
      logits.push(...(await session.run(parts)).slice(others.length + 5));
      session.release(late);
    }
    expect(bits(logits)).toEqual(want.prompt);

    // Then all decode together, in an order that changes.
    let last = logits.at(-1)!;
    for (let step = 0; step < STEPS; step++) {
      sequence.tokens.push(best(last));
      for (const other of others) other.tokens.push(42 + (other.tokens.length % 99));
      const order = [...others];
      order.splice(step % 6, 0, sequence);
      last = (await session.decode(order))[step % 6]!;
      expect(bits([last])).toEqual([want.steps[step]]);
    }
    session.close();
  });
});
