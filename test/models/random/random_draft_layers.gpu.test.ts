/**
 * Layers of checkpoints that predict the token after the next, with random weights, against their
 * reference: each case differs from the usual in one respect.
 */
import { expect, test } from "vitest";
import { type RandomDeepseek, randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { ModelSession } from "../../support/engines/model_session.ts";
import { ReferenceDeepseek } from "../../support/reference/reference_deepseek.ts";
import { ReferenceMtp } from "../../support/reference/reference_mtp.ts";
import { DRAFTS, expectDrafts } from "../expected_drafts.ts";

const EAGLE = {
  algorithm: "EAGLE",
  numSteps: DRAFTS,
  eagleTopk: 1,
  numDraftTokens: DRAFTS + 1,
} as const;

const CASES: readonly (readonly [string, RandomDeepseek])[] = [
  ["the usual", {}],
  ["FP8", { dtype: "FP8" }],
  ["FP8, its layer BF16", { dtype: "FP8", unquantized: ["layers.2."] }],
  ["F32", { dtype: "F32" }],
  ["behind three layers", { config: { num_hidden_layers: 3 } }],
  ["behind layers with experts only", { config: { first_k_dense_replace: 0 } }],
  ["without a query latent", { config: { q_lora_rank: null } }],
  ["tied embeddings", { config: { tie_word_embeddings: true } }],
  ["positions as they are", { config: { rope_scaling: undefined } }],
  ["a larger eps", { config: { rms_norm_eps: 1e-2 } }],
  ["other heads", { config: { num_attention_heads: 2, num_key_value_heads: 2, v_head_dim: 20 } }],
  ["another latent", { config: { kv_lora_rank: 32, qk_nope_head_dim: 16, qk_rope_head_dim: 12 } }],
  ["experts without groups", { config: { n_group: 1, topk_group: 1 } }],
  ["one expert a token", { config: { num_experts_per_tok: 1 } }],
  ["no shared experts", { config: { n_shared_experts: 0 } }],
  ["three shared experts", { config: { n_shared_experts: 3 } }],
  ["experts not normalized", { config: { norm_topk_prob: false } }],
  ["another share of experts", { config: { routed_scaling_factor: 1 } }],
  ["odd widths", { config: { hidden_size: 132, moe_intermediate_size: 19, vocab_size: 263 } }],
];

const some = smallestCaseOnly ? CASES.slice(1, 2) : CASES;
test.each(some)(
  "%s: drafts have the reference's logits, one behind the other",
  async (_, given) => {
    const config = { ...given.config, num_nextn_predict_layers: 1 };
    const source = () => randomDeepseek({ seed: 5, ...given, config });
    const exact = { cacheDtype: "f32", quantizeActivations: false } as const;
    const session = await ModelSession.open(source(), {
      ...exact,
      pageSize: 4,
      speculation: EAGLE,
    });
    await expectDrafts(session, new ReferenceMtp(await ReferenceDeepseek.open(source())));
    session.close();
  },
);

test.each(["enorm", "hnorm", "eh_proj", "shared_head.norm"])(
  "the test tells another %s",
  async (part) => {
    const config = { num_nextn_predict_layers: 1 };
    const session = await ModelSession.open(randomDeepseek({ seed: 5, config }), {
      ...{ cacheDtype: "f32", quantizeActivations: false, pageSize: 4, speculation: EAGLE },
    });
    const edited = randomDeepseek({
      ...{ seed: 5, config },
      edit: (tensors) =>
        tensors.map((one) => {
          if (one.name !== `model.layers.2.${part}.weight`) return one;
          return {
            ...one,
            values: Float32Array.from(one.values, (value, i) => (i % 7 === 0 ? -value : value)),
          };
        }),
    });
    const reference = new ReferenceMtp(await ReferenceDeepseek.open(edited));
    await expect(expectDrafts(session, reference)).rejects.toThrow(/expected/);
    session.close();
  },
);
