/**
 * EAGLE and EAGLE-3 heads against their reference: logits of drafts that follow each other, behind
 * prompts and behind drafts that were right or wrong.
 */
import { describe, expect, test } from "vitest";
import { PLAIN_TUNING } from "../../src/gpu/tuning.ts";
import { DraftTreeShape } from "../../src/speculation/draft_tree_shape.ts";
import { randomDeepseek } from "../support/checkpoints/random_deepseek.ts";
import { type RandomEagle, randomEagle } from "../support/checkpoints/random_eagle.ts";
import { randomGqa } from "../support/checkpoints/random_gqa.ts";
import { smallestCaseOnly } from "../support/devices/gpu.ts";
import { ModelSession } from "../support/engines/model_session.ts";
import { ReferenceDeepseek } from "../support/reference/reference_deepseek.ts";
import { ReferenceEagle, type ReferenceTarget } from "../support/reference/reference_eagle.ts";
import { ReferenceGqa } from "../support/reference/reference_gqa.ts";
import { DRAFTS, differenceOf, expectDrafts, PROMPTS } from "./expected_drafts.ts";
import { expectedTree, expectTrees } from "./expected_trees.ts";

const grouped = {
  source: () => randomGqa({ seed: 3, config: { num_hidden_layers: 4 } }),
  reference: ReferenceGqa.open,
};
/** Its prompts read expanded keys, those of heads the cache itself. */
const latent = {
  source: () => randomDeepseek({ seed: 3, config: { num_hidden_layers: 4 } }),
  reference: ReferenceDeepseek.open,
};
const OF_LATENT = { hidden_size: 136, vocab_size: 264 };
const EAGLE = { generation: "EAGLE" } as const;
const EAGLE3 = { generation: "EAGLE3" } as const;

/** Its file is made from the target's: experts are named that it has not. */
const OWN = { architectures: ["Eagle3DeepseekV2ForCausalLM"] };
const LATENT = { ...EAGLE3, isLatent: true, config: OWN, target: latent };

interface HeadCase extends RandomEagle {
  /** Default: grouped-query attention. */
  readonly target?: typeof grouped | typeof latent;
}

/** Each differs from the usual in one respect. */
const CASES: readonly (readonly [string, HeadCase])[] = [
  ["EAGLE", EAGLE],
  [
    "EAGLE, biases of Qwen2 and of the first projection",
    {
      ...EAGLE,
      fcBias: true,
      config: { architectures: ["Qwen2ForCausalLMEagle"], rope_scaling: null },
    },
  ],
  [
    "EAGLE, other heads",
    { ...EAGLE, config: { head_dim: 12, num_attention_heads: 4, num_key_value_heads: 4 } },
  ],
  ["EAGLE-3", EAGLE3],
  [
    "EAGLE-3 of other layers, with biases",
    {
      ...EAGLE3,
      fcBias: true,
      config: {
        attention_bias: true,
        eagle_config: { eagle_aux_hidden_state_layer_ids: [2, 0, 1] },
      },
    },
  ],
  ["EAGLE-3 with the target's output head", { ...EAGLE3, config: { draft_vocab_size: null } }],
  ["EAGLE for latent attention", { ...EAGLE, config: OF_LATENT, target: latent }],
  ["EAGLE-3 for latent attention", { ...EAGLE3, config: OF_LATENT, target: latent }],
  ["EAGLE-3 that adds to normed states", { ...EAGLE3, config: { norm_before_residual: true } }],
  [
    "EAGLE-3 of all tokens, under another server's names",
    {
      ...EAGLE3,
      config: { architectures: ["Eagle3LlamaForCausalLM"], draft_vocab_size: 263 },
      ...{ layerName: "layers.0", hasIds: false },
    },
  ],
  ["EAGLE-3 with latent attention", LATENT],
  ["the same without a query latent", { ...LATENT, config: { ...OWN, q_lora_rank: null } }],
  [
    "the same with other heads, turned as they are",
    {
      ...LATENT,
      config: {
        ...{ ...OWN, num_attention_heads: 2, num_key_value_heads: 2, rope_scaling: null },
        ...{ kv_lora_rank: 32, qk_nope_head_dim: 16, qk_rope_head_dim: 12, v_head_dim: 20 },
      },
    },
  ],
  [
    "the same, named as by a server that adds to normed states",
    {
      ...LATENT,
      config: { ...OWN, architectures: ["DeepseekV3ForCausalLMEagle3"] },
    },
  ],
];

const speculation = (algorithm: "EAGLE" | "EAGLE3") =>
  ({ algorithm, numSteps: DRAFTS, eagleTopk: 1, numDraftTokens: DRAFTS + 1 }) as const;

async function open({ target = grouped, ...options }: HeadCase, more: object = {}) {
  const head = randomEagle({ seed: 6, ...options });
  const exact = { cacheDtype: "f32", quantizeActivations: false } as const;
  const session = await ModelSession.open(target.source(), {
    ...exact,
    pageSize: 4,
    speculation: speculation(options.generation),
    draftModel: head,
    ...more,
  });
  const rounding = { positions: 1024 };
  const reference: ReferenceTarget = await target.reference(target.source(), rounding);
  return { session, reference: await ReferenceEagle.open(reference, head, rounding) };
}

describe.each(CASES)("%s", (_, options) => {
  test("drafts have the reference's logits, one behind the other", async () => {
    const { session, reference } = await open(options);
    await expectDrafts(session, reference);
    session.close();
  });
});

test.skipIf(smallestCaseOnly)(
  "a head whose attention has other splits than the target's reads keys behind its first one",
  async () => {
    // So wide that a split of the target has 2048 keys; the head's have 256.
    const heads = { num_attention_heads: 32, num_key_value_heads: 32 };
    const wide = { ...heads, kv_lora_rank: 512, num_hidden_layers: 1 };
    const session = await ModelSession.open(randomDeepseek({ seed: 4, config: wide }), {
      ...{ cacheDtype: "f32", quantizeActivations: false, speculation: speculation("EAGLE") },
      draftModel: randomEagle({ seed: 6, ...EAGLE, config: OF_LATENT }),
      maxRowsPerStep: 264,
    });
    const tokens = Array.from({ length: 259 }, (_, i) => 3 + ((i * i * 7) % 250));
    const given = { steps: 1, keepsLogits: true };
    // Rows of prompts read all keys at once, generated ones split by split.
    const prompt = { sequence: session.sequence(tokens), phase: "prefill" } as const;
    await session.draft([{ ...prompt, count: tokens.length }], given);
    const [want] = await session.draftLogits(1);
    const sequence = session.sequence(tokens);
    await session.draft([{ sequence, phase: "prefill", count: 254 }], given);
    while (sequence.computed < tokens.length) {
      const knowsNext = sequence.computed + 1 < tokens.length;
      await session.draft([{ sequence, phase: "decode", count: 1 }], { ...given, knowsNext });
    }
    const [got] = await session.draftLogits(1);
    expect(differenceOf(got!, Float64Array.from(want!))).toBeLessThan(2e-5);
    session.close();
  },
);

test.each([EAGLE, EAGLE3])("$generation drafts the same in any form of steps", async (options) => {
  const found: unknown[] = [];
  for (const more of [
    {},
    { decodeBuckets: false },
    { tuning: { ...PLAIN_TUNING, foldsNorms: true, findsBest: true } },
  ]) {
    const { session } = await open(options, more);
    const sequences = PROMPTS.map((prompt) => session.sequence(prompt, 1));
    const prompts = sequences.map((sequence) => {
      return { sequence, phase: "prefill", count: sequence.tokens.length } as const;
    });
    const first = await session.draft(prompts, { steps: DRAFTS });
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

describe.each(smallestCaseOnly ? CASES.slice(3, 4) : CASES)("trees of %s", (_, options) => {
  const TREE = { numSteps: DRAFTS, eagleTopk: 3, numDraftTokens: 8 };
  const shape = new DraftTreeShape({ steps: DRAFTS, topk: 3, draftTokens: 8 });

  test("are the reference's, behind prompts and behind the right path of the tree before", async () => {
    const { generation } = options;
    const speculation = { algorithm: generation, ...TREE };
    const { session, reference } = await open(options, { speculation, maxRunningRequests: 4 });
    const sequences = PROMPTS.map((prompt) => session.sequence(prompt, 1));
    await expectTrees(session, sequences, shape, (tokens) =>
      expectedTree(shape, {
        behind: (path) => reference.behind(tokens, path),
        targetId: (token) => reference.targetId(token),
      }),
    );
    session.close();
  });
});

test("a head that knows fewer tokens than a row is to have candidates is refused", async () => {
  const algorithm = "EAGLE3" as const;
  const speculation = { algorithm, numSteps: 2, eagleTopk: 9, numDraftTokens: 12 };
  const config = { draft_vocab_size: 8 };
  await expect(open({ ...EAGLE3, config }, { speculation })).rejects.toThrow(
    "Cannot use speculation.eagleTopk 9: what drafts knows 8 tokens",
  );
});
