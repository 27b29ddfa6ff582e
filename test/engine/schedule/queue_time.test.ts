/** What chunks tell of a sequence's wait, and of its grammar. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SequenceGrammar } from "../../../src/engine/grammar/sequence_grammar.ts";
import type { GenerationChunk } from "../../../src/generation.ts";
import { scheduler, sequence } from "../../support/engines/sequences.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

const waits = (chunks: readonly GenerationChunk[]) =>
  chunks.map(({ queueSeconds }) => queueSeconds);

test("a sequence tells how long it waited from its acceptance to its first row, once", () => {
  const { scheduler: s } = scheduler(8, 4, { maxRunningRequests: 1 });
  const [first, second] = [sequence(3, 2), sequence(3, 3)];
  // Not counted: the engine had not accepted it yet.
  vi.advanceTimersByTime(10_000);
  for (const { sequence } of [first, second]) {
    s.add(sequence);
    sequence.announce();
  }
  vi.advanceTimersByTime(250);
  while (s.hasWork) {
    const step = s.schedule()!;
    vi.advanceTimersByTime(500);
    s.commit(
      step,
      Uint32Array.from(step.sampled, () => 7),
    );
  }
  expect(waits(first.chunks)).toEqual([undefined, 0.25, undefined]);
  expect(waits(second.chunks)).toEqual([undefined, 1.25, undefined, undefined]);
});

test("one that leaves before its first row tells of no wait", () => {
  const { scheduler: s } = scheduler(8, 4);
  const { sequence: one, chunks } = sequence(3, 2);
  s.add(one);
  one.announce();
  one.abort("Abort before prefill");
  expect(waits(chunks)).toEqual([undefined, undefined]);
});

test("one that gave its pages back is retracted until it is computed again, and waits once", () => {
  const { scheduler: s } = scheduler(12, 1, { conservativeness: 0 });
  const made = [sequence(4, 8), sequence(3, 8)];
  for (const { sequence } of made) {
    s.add(sequence);
    sequence.announce();
  }
  const sequences = made.map(({ sequence }) => sequence);
  const waiting: number[] = [];
  while (s.hasWork) {
    const step = s.schedule()!;
    vi.advanceTimersByTime(100);
    waiting.push(s.waitingCount);
    expect(sequences.filter((one) => one.isRetracted)).toHaveLength(s.waitingCount);
    for (const { sequence } of step.progress) expect(sequence.isRetracted).toBe(false);
    s.commit(
      step,
      Uint32Array.from(step.sampled, () => 7),
    );
  }
  expect(waiting).toContain(1);
  for (const { chunks } of made) {
    expect(waits(chunks).filter((wait) => wait !== undefined)).toEqual([0]);
  }
});

test("the chunk of a sequence's acceptance tells how its grammar was compiled", async () => {
  const compilation = { isCached: false, seconds: 3 };
  const grammar = new SequenceGrammar({ vocabularySize: 64, onKnown: () => {} });
  const next = { mask: new Uint32Array(2).fill(0xffffffff), mustEnd: false, forcedText: "" };
  const session = { compilation, advance: () => next, close: () => {} };
  const service = { open: async () => session, close: () => {} };
  await grammar.open(service, { kind: "regex", source: ".*" });
  const { scheduler: s } = scheduler(8, 4);
  const { sequence: one, chunks } = sequence(3, 2, {}, { grammar });
  s.add(one);
  one.announce();
  while (s.hasWork) {
    const step = s.schedule()!;
    s.commit(
      step,
      Uint32Array.from(step.sampled, () => 7),
    );
  }
  expect(chunks.map((chunk) => chunk.compilation)).toEqual([compilation, undefined, undefined]);
});
