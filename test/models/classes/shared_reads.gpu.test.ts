/** Generated rows of one sequence share what they read of the cache, in the bits of rows alone. */
import { describe, expect, test } from "vitest";
import { gqaEntryBytes } from "../../../kernels/cache/gqa_write.ts";
import { mlaEntryBytes } from "../../../kernels/cache/mla_write.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import type { RecordedLaunch } from "../../../src/gpu/recorded_launch.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import {
  ADAPTER_TUNINGS,
  type AttentionTuning,
  DEFAULT_TUNING,
  PLAIN_TUNING,
} from "../../../src/gpu/tuning.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { ModelSession } from "../../support/engines/model_session.ts";
import { deepseekV2 } from "../../support/synthetic/deepseek_v2.ts";
import { syntheticSource } from "../../support/synthetic/source.ts";

/** Latent attention, without experts. */
const LATENT = {
  ...{ kv_lora_rank: 32, qk_rope_head_dim: 8, qk_nope_head_dim: 16, v_head_dim: 16 },
  ...{ hidden_size: 64, intermediate_size: 64, num_attention_heads: 2, num_key_value_heads: 2 },
  ...{ num_hidden_layers: 2, first_k_dense_replace: 2 },
};
const MODELS: readonly (readonly [kernel: string, () => WeightSource, entry: number])[] = [
  ["attention/gqa_decode", () => randomGqa(), gqaEntryBytes("bf16", 2, 20)],
  [
    "attention/mla_decode",
    () => syntheticSource(deepseekV2(LATENT), 8),
    mlaEntryBytes("bf16", LATENT.kv_lora_rank, LATENT.qk_rope_head_dim),
  ],
];

/** Tokens in front, and those that are computed again: a group and a bit. */
const [BEFORE, AGAIN] = [5, 6];
const TOKENS = Array.from({ length: BEFORE + AGAIN }, (_, i) => 3 + 7 * i);

const tuningOf = (sharesReads: boolean) => ({
  ...PLAIN_TUNING,
  attention: { ...PLAIN_TUNING.attention!, sharesReads },
});

/** Launches of one kernel that are recorded from now on. */
function watch(recorder: Recorder, kernel: string): readonly RecordedLaunch[] {
  const launches: RecordedLaunch[] = [];
  const launch = recorder.launch.bind(recorder);
  recorder.launch = (recorded) => {
    if (recorded.kernel.name === kernel) launches.push(recorded);
    launch(recorded);
  };
  return launches;
}

describe.each(MODELS)("%s", (kernel, source, entryBytes) => {
  /** Logits of the tokens that are computed again, one by one or in one step, and that step's launches. */
  async function logitsOf(session: ModelSession, together: boolean) {
    const sequence = session.sequence(TOKENS);
    await session.run([{ sequence, phase: "prefill", count: BEFORE }]);
    const launches = watch(session.loaded.runner.recorder, kernel);
    const logits: Float32Array[] = [];
    const count = together ? AGAIN : 1;
    while (sequence.computed < TOKENS.length) {
      logits.push(...(await session.run([{ sequence, phase: "decode", count }])));
    }
    return { logits, launches };
  }

  test("rows that are computed again in one step share reads, with the bits of rows alone", async () => {
    const session = await ModelSession.open(source(), { tuning: tuningOf(true) });
    const alone = await logitsOf(session, false);
    const { logits, launches } = await logitsOf(session, true);
    expect(logits).toEqual(alone.logits);
    expect(alone.launches.length).toBeGreaterThan(0);
    for (const { grid } of alone.launches.slice(0, AGAIN)) expect(grid[0]).toBe(1);
    // Each group is a workgroup of every tile of heads.
    for (const { grid } of launches) expect(grid[0]).toBe(2);
    const rows = Uint32Array.from({ length: 4 * AGAIN }, (_, i) => {
      return i % 4 === 1 ? BEFORE + Math.floor(i / 4) : 0;
    });
    const step = { rows, decodeRows: AGAIN, items: new Uint32Array() };
    const { kernel: own, grid } = launches[0]!;
    expect(own.cost(grid, step)!.bytes).toBe(TOKENS.length * entryBytes);
    await session.close();
  });

  test("an adapter that has too few pipelines for it lets rows read for themselves", async () => {
    const session = await ModelSession.open(source(), { tuning: tuningOf(false) });
    const { launches } = await logitsOf(session, true);
    for (const { grid } of launches) expect(grid[0]).toBe(AGAIN);
    expect(launches.length).toBeGreaterThan(0);
    await session.close();
  });

  test("rows share reads on any adapter where drafts are verified", async () => {
    const speculation = { algorithm: "NGRAM", numDraftTokens: AGAIN } as const;
    const session = await ModelSession.open(source(), { tuning: tuningOf(false), speculation });
    const { launches } = await logitsOf(session, true);
    expect(launches.length).toBeGreaterThan(0);
    for (const { grid } of launches) expect(grid[0]).toBe(2);
    await session.close();
  });
});

test("GPUs share reads, drivers for CPUs do not", () => {
  const shares = ({ attention }: { readonly attention?: AttentionTuning }) =>
    attention!.sharesReads === true;
  expect(shares(DEFAULT_TUNING)).toBe(true);
  const sharing = ADAPTER_TUNINGS.filter(({ tuning }) => shares(tuning)).map(({ name }) => name);
  expect(sharing).toEqual(["NVIDIA", "AMD", "Apple", "Intel", "Qualcomm", "ARM"]);
});
