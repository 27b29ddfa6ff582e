/** Drafts of the host hold sequences back where they pay for the steps that these miss. */
import { describe, expect, test } from "vitest";
import { DraftLengthController } from "../../src/speculation/draft_length.ts";
import { StepCost, type StepCosts } from "../../src/speculation/step_costs.ts";

const NOTHING = new StepCost([]);
const flat = new StepCost([1, 512].map((rows) => ({ rows, ms: 1 + 0.01 * rows })));
const FLAT: StepCosts = { target: flat, entering: NOTHING, draft: NOTHING };
const waiting = (ms: number) => new StepCost([{ rows: 64, ms }]);
const MOST = 3;

/** Which of several sequences wait, after steps of each of which so many of three drafts were right. */
function whoWaits(table: StepCosts, accepted: readonly number[], others: number): number[] {
  const controller = new DraftLengthController(table, { probes: false });
  const sequences = accepted.map((count) => {
    const history = controller.history();
    for (let i = 0; i < 40; i++) history.acceptance.add(MOST, count);
    return { history, most: MOST };
  });
  return [...controller.whoWaits(sequences, others)];
}

describe("drafts of the host are waited for", () => {
  test.each([
    ["right ones are", FLAT, [3], 7, [0]],
    ["those of which one is right are not, as a step is missed", FLAT, [1], 7, []],
    ["alone, one is enough", FLAT, [1], 0, [0]],
    ["so it is where all wait", FLAT, [1, 1, 1, 1], 0, [0, 1, 2, 3]],
    [
      "not where a step that nothing runs ahead of takes twice as long",
      { ...FLAT, waiting: waiting(64) },
      [1, 1, 1, 1],
      0,
      [],
    ],
    ["right ones of some are, and others with wrong ones run ahead", FLAT, [0, 3, 0, 3], 4, [1, 3]],
    ["one among many is, where it gains for itself", FLAT, [3], 31, [0]],
    ["wrong ones never", FLAT, [0, 0], 2, []],
  ] as const)("%s", (_, table, accepted, others, want) => {
    expect(whoWaits(table, accepted, others)).toEqual(want);
  });

  test("never where not even right ones would pay", () => {
    const target = new StepCost([4, 5].map((rows) => ({ rows, ms: rows ** 2 })));
    expect(whoWaits({ target, entering: NOTHING, draft: NOTHING }, [3, 3], 2)).toEqual([]);
  });
});
