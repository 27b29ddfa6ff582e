import { expect, test } from "vitest";
import { scheduler, sequence } from "../../support/engines/sequences.ts";

/** Runs equal prompts to their end; tells the prompt rows computed and each one's cached tokens. */
function run(promptLength: number, pageSize: number, count: number, shared = true) {
  const rows = { maxRows: 64, maxPrefillRows: 64 };
  const { scheduler: s, pages } = scheduler(200, pageSize, { shared, ...rows });
  const made = Array.from({ length: count }, () => sequence(promptLength, 3));
  for (const { sequence: one } of made) s.add(one);
  let prompts = 0;
  while (s.hasWork) {
    const step = s.schedule()!;
    for (const q of step.batch.sequences) if (q.phase === "prefill") prompts += q.queryLength;
    s.commit(step, new Uint32Array(step.sampled.length).fill(9));
  }
  expect(pages.available).toBe(200);
  return { prompts, cached: made.map(({ chunks }) => chunks.at(-1)!.cachedTokens) };
}

// All but the last token of each prompt, which is always computed.
test.each([
  { promptLength: 5, pageSize: 1 },
  { promptLength: 2, pageSize: 1 },
  { promptLength: 10, pageSize: 4 },
  { promptLength: 9, pageSize: 4 },
  { promptLength: 8, pageSize: 4 },
  { promptLength: 50, pageSize: 16 },
  { promptLength: 3, pageSize: 4 },
  { promptLength: 2, pageSize: 64 },
  { promptLength: 1, pageSize: 1 },
  { promptLength: 1, pageSize: 16 },
])("equal prompts are computed once: %o", ({ promptLength, pageSize }) => {
  const { prompts, cached } = run(promptLength, pageSize, 4);
  const shared = promptLength - 1;
  expect(cached).toEqual([0, shared, shared, shared]);
  expect(prompts).toBe(promptLength + 3);
});

test("equal prompts share nothing where no prefixes are shared", () => {
  const { prompts, cached } = run(10, 4, 3, false);
  expect(cached).toEqual([0, 0, 0]);
  expect(prompts).toBe(30);
});

test("prompts that share less than is worth a wait start together", () => {
  const { scheduler: s } = scheduler(200, 1, { shared: true, maxRows: 64, maxPrefillRows: 64 });
  s.add(sequence(10, 1).sequence);
  s.add(sequence(12, 1).sequence);
  expect(s.schedule()!.batch.sequences).toHaveLength(2);
});
