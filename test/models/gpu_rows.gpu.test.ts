/** Whole models as the table of tunings launches them on GPUs: the bits of what every adapter can do. */
import { describe, expect, test } from "vitest";
import { withoutStaged } from "../../src/gpu/row_forms.ts";
import { PLAIN_TUNING, type Tuning, tuningFor } from "../../src/gpu/tuning.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { randomDeepseek } from "../support/checkpoints/random_deepseek.ts";
import { randomGqa } from "../support/checkpoints/random_gqa.ts";
import { fullTest, smallestCaseOnly } from "../support/devices/gpu.ts";
import { EMBEDDED_MODEL } from "../support/engines/engine.ts";
import { best, ModelSession } from "../support/engines/model_session.ts";

const MODELS = [
  { name: "Llama, BF16", source: () => randomGqa() },
  {
    name: "Qwen3, FP8",
    source: () =>
      randomGqa({
        family: "qwen3",
        storage: { kind: "FP8", per: "block" },
        config: { hidden_size: 136, intermediate_size: 150 },
      }),
  },
  { name: "DeepSeek, FP8", source: () => randomDeepseek({ dtype: "FP8" }) },
];
/** Of the adapters whose rows differ the most; staged forms compile slowly where there is no GPU. */
const VENDORS = ["nvidia", "intel"];
const named = (vendor: string) =>
  withoutStaged(tuningFor({ vendor, architecture: "", device: "", description: "" }));

/** Longer than a split of 256 keys, so that a merge of splits is part of what is compared. */
const LENGTH = smallestCaseOnly ? 20 : 270;
const STEPS = smallestCaseOnly ? 2 : 4;
const OTHERS = [9, 3, 5];
const DRAFTS = 3;
const OPTIONS = { maxRowsPerStep: smallestCaseOnly ? 4 : 512, maxTotalTokens: 1024, pageSize: 16 };

const tokens = (count: number) => Array.from({ length: count }, (_, i) => 3 + ((i * 31) % 200));
const bits = (rows: readonly Float32Array[]) => rows.map((row) => new Uint32Array(row.buffer));

/** A prompt, and tokens generated after it: alone, then beside others; with logits, then without. */
async function answers(source: ReturnType<typeof randomGqa>, tuning: Tuning) {
  const session = await ModelSession.open(source, { ...OPTIONS, tuning });
  const sequence = session.sequence(tokens(LENGTH));
  const prompt = await session.prefill(sequence);
  const steps = [prompt.at(-1)!];
  for (let step = 0; step < STEPS; step++) {
    sequence.tokens.push(best(steps.at(-1)!));
    steps.push(...(await session.decode([sequence])));
  }
  sequence.tokens.push(best(steps.at(-1)!));
  const drawn = [...(await session.decodeBest([sequence]))];
  const all = [sequence, ...OTHERS.map((count) => session.sequence(tokens(count), 1))];
  for (const other of all.slice(1)) await session.prefill(other);
  const together: Float32Array[] = [];
  for (let step = 0; step < STEPS; step++) {
    const some = all.slice(0, 4 - (step % 3));
    for (const { tokens } of some) tokens.push(42 + step);
    together.push(...(await session.decode(some)));
  }
  for (const { tokens } of all) tokens.push(7);
  drawn.push(...(await session.decodeBest(all)));
  const splits = session.loaded.pipelines.flatMap(({ label }) =>
    [...label.matchAll(/"BLOCK_SPLIT":(\d+)/g)].map(([, split]) => Number(split)),
  );
  session.close();
  const logits = { prompt: bits(prompt), steps: bits(steps), together: bits(together) };
  return { answer: { ...logits, drawn }, splits: new Set(splits) };
}

describe.each(smallestCaseOnly ? MODELS.slice(0, 1) : MODELS)(
  "the answers of $name",
  ({ name, source }) => {
    let plain: ReturnType<typeof answers> | undefined;

    // Those of one vendor compile for as long as all others together.
    const isShort = !fullTest && name !== "DeepSeek, FP8";
    const vendors = isShort ? VENDORS.filter((vendor) => vendor !== "nvidia") : VENDORS;
    test.each(smallestCaseOnly ? VENDORS.slice(0, 1) : vendors)(
      "as on GPUs of %s",
      async (vendor) => {
        plain ??= answers(source(), PLAIN_TUNING);
        const want = await plain;
        const tuning = named(vendor);
        const got = await answers(source(), tuning);
        expect(want.splits).toEqual(new Set([1]));
        expect(got.splits).toContain(tuning.rowForms[0]!.split);
        expect(got.answer).toEqual(want.answer);
        expect(new Set(got.answer.drawn).size).toBeGreaterThan(1);
      },
    );
  },
);

/** Tokens and drafts behind a prompt, one step after the other, and bits of the last drafts' logits. */
async function drafted(tuning: Tuning) {
  const options = { ...OPTIONS, maxRowsPerStep: 512, maxRunningRequests: 4, maxDrafts: DRAFTS };
  const session = await ModelSession.open(folderSource(EMBEDDED_MODEL), { ...options, tuning });
  const all = [LENGTH, ...OTHERS].map((count) => session.sequence(tokens(count), 1));
  const steps: (readonly Uint32Array[])[] = [];
  const step = async (phase: "prefill" | "decode", keepsLogits: boolean) => {
    const parts = all.map((sequence) => {
      return { sequence, phase, count: sequence.tokens.length - sequence.computed };
    });
    const { tokens: drawn, drafts } = await session.draft(parts, { steps: DRAFTS, keepsLogits });
    steps.push([drawn, ...drafts]);
    // Right or wrong, they are verified; the token in front of them is any.
    all.forEach((one, s) => {
      one.tokens.push(42 + s, ...drafts[s]!);
    });
  };
  await step("prefill", false);
  for (let i = 0; i < STEPS; i++) await step("decode", i + 1 === STEPS);
  const logits = bits(await session.draftLogits(all.length));
  session.close();
  return { steps, logits };
}

test.each(smallestCaseOnly ? VENDORS.slice(0, 1) : VENDORS)(
  "drafts as on GPUs of %s",
  async (vendor) => {
    expect(await drafted(named(vendor))).toEqual(await drafted(PLAIN_TUNING));
  },
);
