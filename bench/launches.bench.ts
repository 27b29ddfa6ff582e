/**
 * Where the time of a step of the embedded model goes: each launch timed among others of its kind,
 * beside the whole step. What is missing between them is the host and the waits between launches.
 *
 * @module
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { EMBEDDED_MODEL } from "../test/support/engine.ts";
import { folderSource } from "../test/support/folder_source.ts";
import { ModelSession } from "../test/support/model_session.ts";
import { catchLaunches, costOfLaunches } from "./launch_profile.ts";
import { machine } from "./machine.ts";
import { table } from "./table.ts";
import { fastest } from "./timing.ts";

const PROMPT = 200;
const CHUNK = 128;

let session: ModelSession;

beforeAll(async () => {
  console.log(machine());
  session = await ModelSession.open(folderSource(EMBEDDED_MODEL));
}, 120_000);

afterAll(() => session.close());

const prompt = (length: number) => Array.from({ length }, (_, i) => 3 + ((i * 31) % 2000));

/** Runs a step several times, then its launches one by one, and prints a line for each kind. */
async function profile(name: string, work: () => Promise<Float32Array[]>): Promise<void> {
  const first = await work();
  let last = first;
  const whole = await fastest(10, async () => {
    last = await work();
  });
  expect(last).toEqual(first);
  const launches = await catchLaunches(session.loaded.runner.recorder, work);
  const costs = await costOfLaunches(launches);
  const sum = costs.reduce((total, { seconds }) => total + seconds, 0);
  const ms = (seconds: number) => (seconds * 1e3).toFixed(3);
  console.log(
    `${name}: ${ms(whole)} ms with readback of its logits, ${launches.length} launches, ${ms(sum)} ms\n` +
      table(
        ["launch", "grid", "count", "ms", "us each"],
        costs.map(({ label, grid, count, seconds }) => [
          label,
          grid,
          `${count}`,
          ms(seconds),
          ((seconds / count) * 1e6).toFixed(0),
        ]),
      ),
  );
}

test.each([1, 8])(
  "decode, batch %i",
  async (count) => {
    const sequences = Array.from({ length: count }, () => session.sequence(prompt(PROMPT + 1)));
    for (const sequence of sequences) {
      sequence.tokens.length = PROMPT;
      await session.prefill(sequence, CHUNK);
      sequence.tokens.push(7);
    }
    await profile(`decode, batch ${count}, ${PROMPT} tokens before`, () => {
      for (const sequence of sequences) sequence.computed = PROMPT;
      return session.decode(sequences);
    });
    for (const sequence of sequences) session.release(sequence);
  },
  120_000,
);

test("prefill", async () => {
  const sequence = session.sequence(prompt(4 * CHUNK));
  await session.prefill(sequence, CHUNK);
  await profile(`prefill of ${CHUNK} rows, ${3 * CHUNK} tokens before`, () => {
    sequence.computed = 3 * CHUNK;
    return session.run([{ sequence, phase: "prefill", count: CHUNK }]);
  });
}, 120_000);
