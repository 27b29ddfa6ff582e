/** Staged forms, which only GPUs have in the table: who takes them, and that they change no bit. */
import { afterEach, describe, expect, test } from "vitest";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import { Engine } from "../../../src/engine/engine.ts";
import { prepareLoad } from "../../../src/engine/load/prepare_load.ts";
import { withoutStaged } from "../../../src/gpu/row_forms.ts";
import { ADAPTER_TUNINGS, type Tuning, tuningFor } from "../../../src/gpu/tuning.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { device, fullTest, smallestCaseOnly } from "../../support/devices/gpu.ts";

const open = () => folderSource(EMBEDDED_MODEL);
const named = (name: string) => ADAPTER_TUNINGS.find((row) => row.name === name)!.tuning;
const NVIDIA = { vendor: "nvidia", architecture: "", device: "", description: "" };

/** Of the embedded model where an adapter's tuning has the most of them; staged forms are further ones. */
const MOST_PIPELINES = 40;

describe("a small model", () => {
  const { adapterInfo } = device;
  const pretend = (value: object) =>
    Object.defineProperty(device, "adapterInfo", { value, configurable: true });
  afterEach(() => {
    pretend(adapterInfo);
  });

  test("has no staged forms unless a caller asks for them", async () => {
    pretend(NVIDIA);
    const checkpoint = await Checkpoint.open(open());
    const tuning = tuningFor(NVIDIA);
    expect(withoutStaged(tuning)).not.toEqual(tuning);
    expect((await prepareLoad(checkpoint, { device })).tuning).toEqual(withoutStaged(tuning));
    expect((await prepareLoad(checkpoint, { device, tuning })).tuning).toEqual(tuning);
  });
});

interface Answer {
  readonly ids: readonly number[];
  /** Of kernels over weights. */
  readonly staged: readonly string[];
  readonly pipelines: number;
}

async function answer(tuning: Tuning | undefined): Promise<Answer> {
  const engine = await Engine.load(open(), {
    ...{ device, tuning, contextLength: 128, maxRunningRequests: 2 },
  });
  // Log-probabilities too: they have the bits of the logits.
  const ids: number[] = [];
  const tokens = Array.from({ length: 100 }, (_, i) => 3 + ((i * 31) % 200));
  const sampling = { temperature: 0, maxNewTokens: 4, ignoreEos: true };
  for await (const chunk of engine.generate({ tokens, sampling, logprobs: {} })) {
    ids.push(...chunk.tokens, ...(chunk.logprobs ?? []).map(({ logprob }) => logprob!));
  }
  const labels = engine.pipelines.map(({ label }) => label);
  await engine.close();
  const staged = labels.filter((label) => label.includes("TOKEN_LANES"));
  return { ids, staged: staged.map((label) => label.split(" ")[0]!), pipelines: labels.length };
}

// Each tuning has pipelines of its own for the whole model.
describe("the embedded model", () => {
  test.skipIf(smallestCaseOnly)("has few pipelines as GPUs launch it", async () => {
    for (const name of fullTest ? ["NVIDIA", "Intel"] : ["NVIDIA"]) {
      const { pipelines } = await answer(withoutStaged(named(name)));
      expect(pipelines).toBeLessThanOrEqual(MOST_PIPELINES);
    }
  });

  test.skipIf(!fullTest).each(["NVIDIA", "Intel"])(
    "gives the same answers as %s launches it",
    async (name) => {
      const plain = await answer(undefined);
      const staged = await answer(named(name));
      expect(plain.ids).toHaveLength(8);
      expect(staged.ids).toEqual(plain.ids);
      expect(plain.staged).toEqual([]);
      expect(new Set(staged.staged)).toEqual(
        new Set(["linear/linear", "linear/gate_up", "moe/expert_gate_up", "moe/expert_down"]),
      );
    },
  );
});
