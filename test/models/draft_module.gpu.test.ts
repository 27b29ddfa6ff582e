import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { drawToken } from "../../kernels/sampling/reference.ts";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { prepareLoad } from "../../src/engine/load/prepare_load.ts";
import { UnsupportedError } from "../../src/errors.ts";
import { PLAIN_TUNING, type Tuning } from "../../src/gpu/tuning.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { randomGqa } from "../support/checkpoints/random_gqa.ts";
import { device } from "../support/devices/gpu.ts";
import { unsentDevice } from "../support/devices/unsent_device.ts";
import { EMBEDDED_MODEL } from "../support/engines/engine.ts";
import { ModelSession, type Rows, type SessionSequence } from "../support/engines/model_session.ts";

const MODEL = folderSource(EMBEDDED_MODEL);
const GREEDY = { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 };
const DRAFTS = 3;
const PROMPTS = [
  [0, 70, 104, 300, 32],
  [0, 515, 36, 519, 375, 402, 409, 433],
  [0, 309, 35, 52],
];

const prefill = (sequence: SessionSequence): Rows => {
  return { sequence, phase: "prefill", count: sequence.tokens.length - sequence.computed };
};
const generated = (sequence: SessionSequence, count = 1): Rows => {
  return { sequence, phase: "decode", count };
};

/** A sequence behind its prompt, whose tokens end with the first one drawn, and its drafts. */
async function started(session: ModelSession, prompt: readonly number[], steps = DRAFTS) {
  const sequence = session.sequence(prompt, 1);
  const { tokens, drafts } = await session.draft([prefill(sequence)], { steps });
  sequence.tokens.push(tokens.at(-1)!);
  return { sequence, drafts: [...drafts[0]!] };
}

/** Computes the last `count` rows again. */
const back = (sequence: SessionSequence, count: number) => {
  sequence.computed -= count;
};

/** Drafts of sequences alone and together, in a step that is filled up, and in one that is not kept. */
async function expectSameDrafts(session: ModelSession): Promise<void> {
  const alone: number[][] = [];
  const sequences: SessionSequence[] = [];
  for (const prompt of PROMPTS) {
    const { sequence, drafts } = await started(session, prompt);
    sequence.tokens.push(...drafts);
    const { drafts: next } = await session.draft([generated(sequence, DRAFTS + 1)], {
      steps: DRAFTS,
    });
    alone.push([...next[0]!]);
    back(sequence, DRAFTS + 1);
    sequences.push(sequence);
  }
  const parts = sequences.map((one) => generated(one, DRAFTS + 1));
  const recorded = await session.draft(parts, { steps: DRAFTS });
  expect(recorded.drafts.map((one) => [...one])).toEqual(alone);
  for (const one of sequences) back(one, DRAFTS + 1);
  // Launches are recorded as they come, and logits are kept.
  const tapped = await session.draft(parts, { steps: DRAFTS, onTap: () => {} });
  expect(tapped).toEqual(recorded);
  // One draft is the first of several, and those who ask are told in their order.
  for (const one of sequences) back(one, DRAFTS + 1);
  const drafted = [2, 0].map((sequence) => {
    return { sequence, firstLogitRow: sequence * (DRAFTS + 1), logitRows: DRAFTS + 1 };
  });
  const { drafts } = await session.draft(parts, { steps: 1, drafted });
  expect(drafts.map((one) => [...one])).toEqual([[alone[2]![0]], [alone[0]![0]]]);
  for (const one of sequences) session.release(one);
}

describe("a model with its multi-token-prediction module", () => {
  let session: ModelSession;

  beforeAll(async () => {
    session = await ModelSession.open(MODEL, { maxDrafts: DRAFTS, pageSize: 4 });
  });

  afterAll(() => session.close());

  test("computes the same bits as without it, and draws the same tokens", async () => {
    const without = await ModelSession.open(MODEL, { pageSize: 4 });
    const plain = PROMPTS.map((prompt) => without.sequence(prompt, 1));
    const drafting = PROMPTS.map((prompt) => session.sequence(prompt, 1));
    const step = async (rows: (sequence: SessionSequence) => Rows, drafts: boolean) => {
      const parts = drafting.map(rows);
      const count = parts.reduce((sum, part) => sum + part.count, 0);
      const want = await without.run(plain.map(rows));
      const drafted = drafts ? {} : { drafted: [] };
      const { tokens } = await session.draft(parts, {
        ...{ steps: DRAFTS, keepsLogits: true },
        ...drafted,
      });
      expect(await session.logits(count)).toEqual(want);
      return tokens;
    };
    const add = (tokens: ArrayLike<number>) => {
      for (const all of [plain, drafting]) {
        for (const [i, { tokens: own }] of all.entries()) own.push(tokens[i]!);
      }
    };
    const first = await step(prefill, true);
    let end = -1;
    add(
      PROMPTS.map(({ length }) => {
        end += length;
        return first[end]!;
      }),
    );
    for (const drafts of [true, false, true]) add(await step((one) => generated(one), drafts));
    // Nothing but the best is looked for here.
    const [best, { tokens }] = [
      await without.decodeBest(plain),
      await session.draft(
        drafting.map((one) => generated(one)),
        { steps: DRAFTS },
      ),
    ];
    expect(tokens).toEqual(best);
    for (const one of drafting) session.release(one);
    without.close();
  });

  test("drafts the same alone, beside others and in steps that are filled up", () =>
    expectSameDrafts(session));

  test("drafts from the last row whose draft was drawn, and from its own cache", async () => {
    const { sequence, drafts } = await started(session, PROMPTS[1]!);
    const newest = sequence.tokens.length;
    sequence.tokens.push(...drafts);
    const { tokens } = await session.draft([generated(sequence, DRAFTS + 1)], { steps: DRAFTS });
    // The same tokens, one a step: the target's hidden states and entries take the drafts' places.
    back(sequence, DRAFTS + 1);
    sequence.tokens.length = newest;
    const after: number[][] = [];
    for (let i = 0; i <= DRAFTS; i++) {
      const step = await session.draft([generated(sequence)], { steps: DRAFTS });
      sequence.tokens.push(step.tokens[0]!);
      after.push([...step.drafts[0]!]);
    }
    expect(sequence.tokens.slice(newest)).toEqual([...tokens]);
    for (let wrong = 0; wrong <= DRAFTS; wrong++) {
      sequence.computed = newest - 1;
      sequence.tokens.splice(newest, DRAFTS, ...tokens.subarray(0, DRAFTS));
      if (wrong < DRAFTS) sequence.tokens[newest + wrong]! += 1;
      const step = await session.draft([generated(sequence, DRAFTS + 1)], { steps: DRAFTS });
      expect([...step.drafts[0]!], `draft ${wrong} is wrong`).toEqual(after[wrong]);
    }
    session.release(sequence);
  });

  test("draws drafts by temperature as their tokens will be drawn", async () => {
    const prompt = [0, 70, 104, 300, 32, 515, 421, 264];
    for (let seed = 1; seed < 12; seed++) {
      const sampling = { temperature: 1.5, topP: 0.95, topK: 50, seed };
      const sequence = session.sequence(prompt, 1);
      const options = { steps: 1, sampling, keepsLogits: true };
      const first = await session.draft([prefill(sequence)], options);
      sequence.tokens.push(first.tokens.at(-1)!);
      // The draft behind the token at a position is the next one's.
      let position = prompt.length + 1;
      const drawnAt = async (drafted: readonly Uint32Array[]) => {
        const [logits] = await session.draftLogits(1);
        const want = drawToken(logits!, { ...sampling, position });
        if (want.margin > 1e-4) expect(drafted[0]![0]).toBe(want.id);
      };
      await drawnAt(first.drafts);
      sequence.tokens.push(first.drafts[0]![0]!);
      const next = await session.draft([generated(sequence, 2)], options);
      position += next.tokens[0] === first.drafts[0]![0] ? 2 : 1;
      await drawnAt(next.drafts);
      // The second of two drafts has another position than the first.
      back(sequence, 2);
      const both = await session.draft([generated(sequence, 2)], { ...options, steps: 2 });
      expect(both.drafts[0]![0]).toBe(next.drafts[0]![0]);
      position += 1;
      await drawnAt([both.drafts[0]!.subarray(1)]);
      session.release(sequence);
    }
  });

  test("a sequence without further pages changes no drafts of others", async () => {
    const one = await started(session, PROMPTS[0]!);
    const other = await started(session, PROMPTS[1]!);
    const parts = [one, other].map(({ sequence }) => generated(sequence));
    const before = await session.draft(parts, { steps: DRAFTS });
    for (const { sequence } of [one, other]) back(sequence, 1);
    const { pageTable } = one.sequence;
    const rows = one.sequence.tokens.length;
    const taken = pageTable.splice(Math.ceil(rows / 4));
    const after = await session.draft(parts, { steps: DRAFTS, ahead: 0 });
    expect(after.tokens).toEqual(before.tokens);
    expect(after.drafts[1]).toEqual(before.drafts[1]);
    expect(after.drafts[0]![0]).toBe(before.drafts[0]![0]);
    pageTable.push(...taken);
    for (const { sequence } of [one, other]) session.release(sequence);
  });

  test("steps of one size are recorded once, and allocate nothing", async () => {
    const sequences: SessionSequence[] = [];
    for (const prompt of PROMPTS) sequences.push((await started(session, prompt)).sequence);
    const step = async (count: number) => {
      for (const one of sequences) one.tokens.length = one.computed + count;
      for (const one of sequences) one.tokens.fill(7, one.computed + 1);
      const { recorder } = session.loaded.runner;
      const before = recorder.launches;
      const keep = vi.spyOn(recorder, "keep");
      const made = (["createBindGroup", "createBuffer"] as const).map((name) =>
        vi.spyOn(recorder.device, name),
      );
      await session.draft(
        sequences.map((one) => generated(one, count)),
        // As no other test has it.
        { steps: DRAFTS - 1 },
      );
      const calls = [keep, ...made].map(({ mock }) => mock.calls.length);
      for (const spy of [keep, ...made]) spy.mockRestore();
      for (const one of sequences) back(one, count);
      return { launches: recorder.launches - before, calls };
    };
    for (const count of [1, DRAFTS + 1]) {
      const first = await step(count);
      expect(first.calls[0]).toBeGreaterThan(0);
      expect(await step(count)).toEqual({ launches: first.launches, calls: [0, 0, 0] });
      expect(await step(count)).toEqual({ launches: first.launches, calls: [0, 0, 0] });
    }
    for (const one of sequences) session.release(one);
  });

  test("its layer has a cache, and what the target has is not held twice", async () => {
    const checkpoint = await Checkpoint.open(MODEL);
    const options = { device, maxTotalTokens: 4096 };
    const [plain, drafting] = [
      await prepareLoad(checkpoint, options),
      await prepareLoad(checkpoint, { ...options, maxDrafts: DRAFTS }),
    ];
    expect(plain.cacheShape.layers).toBe(5);
    expect(drafting.cacheShape.layers).toBe(6);
    const { memoryBudget: budget } = drafting;
    expect(budget.bytesPerToken / plain.memoryBudget.bytesPerToken).toBe(6 / 5);
    const names = [...checkpoint.tensors.keys()].filter((name) => name.includes(".layers.5."));
    const wanted = new Set(drafting.measured.specs.map(({ name }) => name));
    expect(names.filter((name) => !wanted.has(name))).toEqual([
      "model.layers.5.embed_tokens.weight",
      "model.layers.5.shared_head.head.weight",
    ]);
    const bytes = (name: string) => checkpoint.tensors.get(name)!.byteLength;
    const added = names
      .filter((name) => wanted.has(name))
      .reduce((sum, name) => sum + bytes(name), 0);
    // Vectors are widened to float32, and rows are padded.
    const more = budget.weightBytes - plain.memoryBudget.weightBytes;
    expect(more).toBeGreaterThanOrEqual(added);
    expect(more).toBeLessThan(1.15 * added);
  });
});

test("rows that share the reads of attention draft the same in steps that are filled up", async () => {
  const session = await ModelSession.open(MODEL, {
    maxDrafts: DRAFTS,
    deterministicInference: true,
  });
  await expectSameDrafts(session);
  session.close();
});

test("drafts take as many launches for any number of sequences, and as many for each draft", async () => {
  const launches = async (tuning: Tuning) => {
    const unsent = unsentDevice(device);
    const session = await ModelSession.open(MODEL, {
      ...{ device: unsent.device, tuning, maxDrafts: DRAFTS, maxRunningRequests: 8 },
      onProgress: ({ phase }) => {
        if (phase !== "adapter") unsent.stop();
      },
    });
    const count = async (sequences: number, steps: number) => {
      const rows = Array.from({ length: sequences }, (_, i) => i);
      const batch = {
        sequences: rows.map((queryStart) => {
          const pageTable = Array.from({ length: 64 }, () => 0);
          return { phase: "decode" as const, queryStart, queryLength: 1, position: 3, pageTable };
        }),
        sources: Uint32Array.from(rows, () => 6),
        nextSources: Uint32Array.from(rows, () => 6),
        logitRows: Uint32Array.from(rows),
      };
      const sampling = rows.map(() => ({ sampling: GREEDY, position: 4 }));
      const drafted = rows.map((row) => ({ sequence: row, firstLogitRow: row, logitRows: 1 }));
      const request = steps > 0 ? { steps, sequences: drafted } : undefined;
      const counts = await session.loaded.runner.countLaunches(batch, sampling, request);
      return ["draft layer", "draft", "draft chain"].map((group) => counts.get(group) ?? 0);
    };
    const table: number[][] = [];
    for (const sequences of [1, 7]) {
      for (const steps of [0, 1, 2, 3]) table.push(await count(sequences, steps));
    }
    session.close();
    return table;
  };
  /** Of no drafts, and of one, two and three, alone and beside others. */
  const table = (layer: number, head: number) => {
    const rows = [0, 1, 2, 3].map((drafts) => {
      return [layer, drafts > 0 ? head : 0, Math.max(drafts - 1, 0) * (layer - 1 + head)];
    });
    return [...rows, ...rows];
  };
  // Token table, joining, projection and a norm in front of the layer, which has experts; then the
  // accepted rows, a norm, two launches to the best token, and the next rows. A chain accepts none.
  const folded = { ...PLAIN_TUNING, foldsNorms: true, findsBest: true };
  expect(await launches(folded)).toEqual(table(3 + 10, 5));
  expect(await launches(PLAIN_TUNING)).toEqual(table(5 + 10, 5));
});

describe("a model that cannot draft as it is asked to", () => {
  const refused = (source: Parameters<typeof ModelSession.open>[0], options: object) =>
    expect(ModelSession.open(source, { maxDrafts: 1, ...options })).rejects;

  test("is refused", async () => {
    await refused(randomGqa(), {}).toThrow(/^LlamaForCausalLM|multi-token prediction by/);
    await refused(randomGqa(), {}).toBeInstanceOf(UnsupportedError);
    for (const maxDrafts of [-1, 1.5, 33]) {
      await refused(MODEL, { maxDrafts }).toThrow(
        `maxDrafts must be a whole number from 0 to 32, got ${maxDrafts}`,
      );
    }
  });

  test("says so to those who run it", async () => {
    const session = await ModelSession.open(MODEL, { maxDrafts: 2 });
    const batch = {
      sequences: [
        { phase: "decode" as const, queryStart: 0, queryLength: 1, position: 0, pageTable: [0] },
      ],
      sources: Uint32Array.of(6),
      logitRows: Uint32Array.of(0),
    };
    const sampling = [{ sampling: GREEDY, position: 1 }];
    const sequences = [{ sequence: 0, firstLogitRow: 0, logitRows: 1 }];
    const { runner } = session.loaded;
    const submit = (more: object, steps: number) =>
      runner.submit({ ...batch, ...more }, sampling, { drafts: { steps, sequences } });
    await expect(submit({}, 1)).rejects.toThrow(/does not say which tokens come next/);
    await expect(submit({ nextSources: Uint32Array.of(6, 6) }, 1)).rejects.toThrow(/1 rows have 2/);
    for (const steps of [0, 3]) {
      await expect(submit({ nextSources: Uint32Array.of(6) }, steps)).rejects.toThrow(
        `${steps} drafts of 1 sequences, of at most 2`,
      );
    }
    // No step before it has left anything to go on from.
    const goesOn = [{ ...batch.sequences[0]!, continues: { from: 0, slack: 0 } }];
    const alone = runner.submit({ ...batch, sequences: goesOn }, sampling);
    await expect(alone).rejects.toThrow(/no step before has made any/);
    session.close();
    const plain = await ModelSession.open(MODEL);
    const asked = plain.loaded.runner.submit(batch, sampling, { drafts: { steps: 1, sequences } });
    await expect(asked).rejects.toThrow(/was not loaded to draft/);
    const continued = plain.loaded.runner.submit({ ...batch, sequences: goesOn }, sampling);
    await expect(continued).rejects.toThrow(/was not loaded to draft/);
    plain.close();
  });

  test("says so where a step has more rows than it was loaded for", async () => {
    const session = await ModelSession.open(MODEL, { maxRowsPerStep: 8, maxRunningRequests: 4 });
    const submit = (phase: "decode" | "prefill", queryLength: number) => {
      const pageTable = Array.from({ length: queryLength }, (_, i) => i);
      const sequences = [{ phase, queryStart: 0, queryLength, position: 0, pageTable }];
      const sources = new Uint32Array(queryLength).fill(6);
      const batch = { sequences, sources, logitRows: Uint32Array.of(0) };
      return session.loaded.runner.run(batch, [{ sampling: GREEDY, position: 1 }]);
    };
    await expect(submit("decode", 5)).rejects.toThrow(
      "5 rows, 5 of them generated, of at most 8 and 4",
    );
    await expect(submit("prefill", 9)).rejects.toThrow(/9 rows, 0 of them generated/);
    expect(await submit("decode", 4)).toHaveLength(1);
    expect(await submit("prefill", 8)).toHaveLength(1);
    session.close();
  });
});
