/**
 * Models that draft for others: what they propose is what they would go on with themselves.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import { PLAIN_TUNING } from "../../src/gpu/tuning.ts";
import { DraftTreeShape } from "../../src/speculation/draft_tree_shape.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { type RandomGqa, randomGqa } from "../support/checkpoints/random_gqa.ts";
import { smallestCaseOnly } from "../support/devices/gpu.ts";
import { ModelSession, type SessionSequence } from "../support/engines/model_session.ts";
import { expectedTree, expectTrees } from "./expected_trees.ts";

const DRAFTS = 3;
const STANDALONE = { speculation: { algorithm: "STANDALONE" } } as const;
const PROMPTS = [
  [5, 70, 104, 200, 32, 17],
  [7, 215, 36, 119, 175, 102, 209, 133, 4],
  [9, 109, 35],
];

interface Pair {
  readonly name: string;
  readonly target: () => WeightSource;
  readonly draft: () => WeightSource;
}

const target = () => randomGqa({ seed: 3 });
const drafting = (name: string, options: RandomGqa): Pair => ({
  name,
  target,
  draft: () => randomGqa({ seed: 8, ...options }),
});

const PAIRS: readonly Pair[] = [
  drafting("another width, depth and heads", {
    config: {
      ...{ hidden_size: 48, intermediate_size: 40, num_hidden_layers: 3 },
      ...{ head_dim: 12, num_attention_heads: 4, num_key_value_heads: 4 },
    },
  }),
  drafting("another architecture with experts, one table of tokens", {
    family: "qwen3Moe",
    config: { tie_word_embeddings: true },
  }),
  drafting("weights in FP8", { storage: { kind: "FP8", per: "block" } }),
  {
    name: "latent attention, for itself",
    target: () => folderSource(EMBEDDED_MODEL),
    draft: () => folderSource(EMBEDDED_MODEL),
  },
];

/** The tokens that a model of its own goes on with, the best ones. */
async function continued(session: ModelSession, tokens: readonly number[], count: number) {
  const sequence = session.sequence(tokens);
  const { tokens: first } = await session.draft(
    [{ sequence, phase: "prefill", count: tokens.length }],
    { steps: 1, drafted: [] },
  );
  sequence.tokens.push(first.at(-1)!);
  for (let i = 1; i < count; i++) {
    sequence.tokens.push((await session.decodeBest([sequence]))[0]!);
  }
  session.release(sequence);
  return sequence.tokens.slice(tokens.length);
}

describe.each(PAIRS)("$name", ({ target, draft }) => {
  let session: ModelSession;
  let alone: ModelSession;

  beforeAll(async () => {
    const draftModel = draft();
    session = await ModelSession.open(target(), { ...STANDALONE, pageSize: 4, draftModel });
    alone = await ModelSession.open(draft(), { pageSize: 4 });
  });

  afterAll(() => {
    session.close();
    alone.close();
  });

  /** Behind a prompt: its tokens end with the first one drawn. */
  async function started(prompt: readonly number[], chunk = prompt.length) {
    const sequence = session.sequence(prompt, 1);
    let drafts: number[] = [];
    while (sequence.computed < prompt.length) {
      const count = Math.min(chunk, prompt.length - sequence.computed);
      const step = await session.draft([{ sequence, phase: "prefill", count }], { steps: DRAFTS });
      drafts = [...step.drafts[0]!];
      if (sequence.computed === prompt.length) sequence.tokens.push(step.tokens.at(-1)!);
    }
    return { sequence, drafts };
  }

  const verify = (sequences: readonly SessionSequence[]) =>
    session.draft(
      sequences.map((sequence) => ({ sequence, phase: "decode", count: DRAFTS + 1 })),
      { steps: DRAFTS },
    );

  test("drafts are what it goes on with, behind prompts in chunks and behind drafts", async () => {
    for (const prompt of PROMPTS) {
      const { sequence, drafts } = await started(prompt, 4);
      expect(drafts).toEqual(await continued(alone, sequence.tokens, DRAFTS));
      session.release(sequence);
    }
  });

  test("drafts go on behind the last one that was right, for several sequences at once", async () => {
    const sequences: SessionSequence[] = [];
    const right: number[] = [];
    for (const [i, prompt] of PROMPTS.entries()) {
      const { sequence } = await started(prompt);
      sequences.push(sequence);
      right.push(i);
      // As many of the target's own tokens as there are right drafts, and wrong ones behind.
      const plain = session.sequence(prompt);
      const own = [...sequence.tokens];
      await session.draft([{ sequence: plain, phase: "prefill", count: prompt.length }], {
        steps: 1,
        drafted: [],
      });
      plain.tokens.push(own.at(-1)!);
      for (let n = 0; n < DRAFTS; n++) {
        plain.tokens.push((await session.decodeBest([plain]))[0]!);
      }
      const next = plain.tokens.slice(own.length);
      sequence.tokens.push(...next.map((token, at) => (at < i ? token : (token + 1) % 263)));
      session.release(plain);
    }
    const { tokens, drafts } = await verify(sequences);
    for (const [s, sequence] of sequences.entries()) {
      const known = PROMPTS[s]!.length + 1 + right[s]!;
      const newest = tokens[s * (DRAFTS + 1) + right[s]!]!;
      const text = [...sequence.tokens.slice(0, known), newest];
      expect([...drafts[s]!], `${right[s]} right`).toEqual(await continued(alone, text, DRAFTS));
      session.release(sequence);
    }
  });
});

describe("a draft model", () => {
  test("drafts the same in steps whose launches are not kept, and beside folded launches", async () => {
    const draft = () => randomGqa({ seed: 8, config: { hidden_size: 48 } });
    const open = (more: object) =>
      ModelSession.open(target(), { ...STANDALONE, draftModel: draft(), ...more });
    const kinds = [
      {},
      { decodeBuckets: false },
      { tuning: { ...PLAIN_TUNING, foldsNorms: true, findsBest: true } },
    ];
    const found: unknown[] = [];
    for (const kind of kinds) {
      const session = await open(kind);
      const sequences = PROMPTS.map((prompt) => session.sequence(prompt, 1));
      const first = await session.draft(
        sequences.map((sequence) => {
          return { sequence, phase: "prefill", count: sequence.tokens.length };
        }),
        { steps: DRAFTS },
      );
      let at = -1;
      for (const [i, sequence] of sequences.entries()) {
        at += sequence.computed;
        sequence.tokens.push(first.tokens[at]!, ...first.drafts[i]!);
      }
      const parts = sequences.map((sequence) => {
        return { sequence, phase: "decode", count: DRAFTS + 1 } as const;
      });
      const next = await session.draft(parts, { steps: DRAFTS });
      found.push([first, next].map(({ drafts }) => drafts.map((one) => [...one])));
      session.close();
    }
    expect(found[1]).toEqual(found[0]);
    expect(found[2]).toEqual(found[0]);
  });
});

const TREE_PAIRS = smallestCaseOnly ? PAIRS.slice(0, 1) : PAIRS;

describe.each(TREE_PAIRS)("trees of $name", ({ target, draft }) => {
  const shape = new DraftTreeShape({ steps: DRAFTS, topk: 3, draftTokens: 8 });

  test("are of what it goes on with, behind prompts and behind the right path", async () => {
    const { steps: numSteps, topk: eagleTopk, draftTokens: numDraftTokens } = shape;
    const numbers = { numSteps, eagleTopk, numDraftTokens };
    const speculation = { ...STANDALONE.speculation, ...numbers };
    const options = { pageSize: 4, cacheDtype: "f32", maxRunningRequests: 4 } as const;
    const draftModel = draft();
    const session = await ModelSession.open(target(), { ...options, speculation, draftModel });
    const alone = await ModelSession.open(draft(), options);
    const behind = async (tokens: readonly number[]) => {
      const sequence = alone.sequence(tokens);
      const logits = await alone.prefill(sequence);
      alone.release(sequence);
      return logits.at(-1)!;
    };
    const sequences = PROMPTS.map((prompt) => session.sequence(prompt, 1));
    await expectTrees(session, sequences, shape, (tokens) =>
      expectedTree(shape, { behind: (path) => behind([...tokens, ...path]) }),
    );
    session.close();
    alone.close();
  });
});
