/** Splits of generated rows' keys are merged in the launch that makes values of them. */
import { expect, test } from "vitest";
import { PLAIN_TUNING } from "../../../src/gpu/tuning.ts";
import { randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
import { ModelSession } from "../../support/engines/model_session.ts";

/** Positions in one split of 256 keys, at its end, and in a second one. */
const LENGTHS = [3, 255, 270];
/** One layer, which is dense. */
const SMALL = { num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 2 };

interface Decoded {
  /** Bits of every row's logits. */
  readonly bits: readonly Uint32Array[];
  /** How often each kernel is launched. */
  readonly launches: ReadonlyMap<string, number>;
}

/** Opens a model whose heads have values of this width. */
function open(value: number, lanes = PLAIN_TUNING.lanes): Promise<ModelSession> {
  const source = randomDeepseek({ dtype: "FP8", config: { ...SMALL, v_head_dim: value } });
  return ModelSession.open(source, { tuning: { ...PLAIN_TUNING, lanes } });
}

/** One step in which sequences of all lengths decode together, or one for each. */
async function decode(session: ModelSession, together: boolean): Promise<Decoded> {
  const sequences = LENGTHS.map((length, s) =>
    session.sequence(Array.from({ length }, (_, i) => 3 + ((i * 31 + s * 7) % 200))),
  );
  for (const sequence of sequences) {
    await session.prefill(sequence);
    sequence.tokens.push(5);
  }
  const { recorder } = session.loaded.runner;
  const launches = new Map<string, number>();
  const launch = recorder.launch.bind(recorder);
  recorder.launch = (recorded) => {
    const { name } = recorded.kernel;
    launches.set(name, (launches.get(name) ?? 0) + 1);
    launch(recorded);
  };
  const parts = together ? [sequences] : sequences.map((sequence) => [sequence]);
  const logits: Float32Array[] = [];
  for (const part of parts) logits.push(...(await session.decode(part)));
  Reflect.deleteProperty(recorder, "launch");
  return { bits: logits.map(({ buffer }) => new Uint32Array(buffer)), launches };
}

test("values of rows together have the bits of those of each row alone", async () => {
  const session = await open(32);
  const together = await decode(session, true);
  expect(together.launches.get("linear/merging_linear")).toBe(1);
  const alone = await decode(session, false);
  expect(alone.launches.get("linear/merging_linear")).toBe(LENGTHS.length);
  expect(together.bits).toEqual(alone.bits);
  session.close();
});

test("merged values have the bits of those made apart, for a launch less", async () => {
  // Of 96 values a group of the rounding has parts of two heads. Lanes of 16 do not round values.
  const [apart, merged] = [await open(96), await open(96, 16)];
  const [before, after] = [await decode(apart, true), await decode(merged, true)];
  const ofSplits = ({ launches }: Decoded) =>
    ["attention/merge_splits", "linear/linear", "linear/merging_linear"].map(
      (kernel) => launches.get(kernel) ?? 0,
    );
  const [, others] = ofSplits(after);
  expect(ofSplits(before)).toEqual([1, others! + 1, 0]);
  expect(ofSplits(after)).toEqual([0, others, 1]);
  expect(after.bits).toEqual(before.bits);
  apart.close();
  merged.close();
});
