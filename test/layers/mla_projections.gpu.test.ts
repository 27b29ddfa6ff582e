/** What launches latent attention makes of a step's rows in front of its attention. */
import { afterEach, expect, test, vi } from "vitest";
import { Recorder } from "../../src/gpu/recorder.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { smallestCaseOnly } from "../support/devices/gpu.ts";
import { ModelSession, type Rows, type SessionSequence } from "../support/engines/model_session.ts";

const LENGTHS = [3, 21, 9, 14, 6];

afterEach(() => vi.restoreAllMocks());

// What launches there are is no matter of the driver, and their bits are a test of the kernel.
test.skipIf(smallestCaseOnly)(
  "generated rows take one launch for queries and entries, beside prompts two, with the same bits",
  async () => {
    const session = await ModelSession.open(folderSource(EMBEDDED_MODEL), { decodeBuckets: false });
    const { layers } = session.loaded.definition.shape;
    const names: string[] = [];
    const { launch } = Recorder.prototype;
    vi.spyOn(Recorder.prototype, "launch").mockImplementation(function (this: Recorder, recorded) {
      names.push(recorded.kernel.name);
      launch.call(this, recorded);
    });
    const start = async () => {
      const sequences = LENGTHS.map((length, i) =>
        session.sequence(Array.from({ length }, (_, j) => 3 + ((i * 97 + j * 31) % 2000))),
      );
      for (const sequence of sequences) {
        await session.prefill(sequence);
        sequence.tokens.push(5);
      }
      return sequences;
    };
    const generated = (sequence: SessionSequence): Rows => ({
      sequence,
      phase: "decode",
      count: 1,
    });
    /** Logits, and how many launches there are from those with this name to the attention of each layer. */
    const step = async (name: string, parts: readonly Rows[]) => {
      names.length = 0;
      const logits = await session.run(parts);
      const indices = (wanted: string) =>
        names.flatMap((kernel, i) => (kernel === wanted ? [i] : []));
      const attention = indices("attention/mla_decode");
      return { logits, launches: indices(name).map((from, i) => attention[i]! - from) };
    };
    // The queries go into the latent space in between; beside prompts they are projected in between too.
    const one = Array.from({ length: layers }, () => 2);
    const two = one.map((count) => count + 1);

    const alone: Float32Array[] = [];
    for (const sequence of await start()) {
      const { logits, launches } = await step("cache/mla_project", [generated(sequence)]);
      expect(launches).toEqual(one);
      alone.push(logits[0]!);
    }
    const together = await step("cache/mla_project", (await start()).map(generated));
    expect(together.launches).toEqual(one);
    expect(together.logits).toEqual(alone);

    const prompt: Rows = { sequence: session.sequence([7, 8, 9]), phase: "prefill", count: 3 };
    const mixed = await step("cache/mla_write", [...(await start()).map(generated), prompt]);
    expect(mixed.launches).toEqual(two);
    expect(mixed.logits.slice(0, LENGTHS.length)).toEqual(alone);
    session.close();
  },
);
