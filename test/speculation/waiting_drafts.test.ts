/** Drafts of the host hold sequences back where they pay for the steps that these miss. */
import { describe, expect, test } from "vitest";
import { DraftLengthController } from "../../src/speculation/draft_length.ts";
import { StepCost, type StepCosts } from "../../src/speculation/step_costs.ts";

const NOTHING = new StepCost([]);

describe("drafts of the host are waited for", () => {
  /** Whether that is so, of so many sequences with three drafts each, for a hundred steps. */
  function waits(
    table: StepCosts,
    { drafting, others }: { readonly drafting: number; readonly others: number },
    accepted: number,
  ): number {
    const controller = new DraftLengthController(table);
    const all = drafting + others;
    const sequences = Array.from({ length: drafting }, () => ({
      ...{ history: controller.history(), most: 3 },
    }));
    for (let i = 0; i < 40; i++) {
      for (const { history } of sequences) controller.record(history, 3, accepted);
    }
    return Array.from({ length: 100 }, () => {
      const [one] = sequences;
      const pays = controller.paysWaiting(sequences, others);
      const isWorth = pays || controller.isProbeDue(one!, all - 1);
      if (!isWorth) controller.skip();
      else if (!controller.choose(sequences, { tokens: others }).isProbe && !pays) {
        controller.delayProbe();
      }
      return isWorth;
    }).filter((one) => one).length;
  }
  const flat = new StepCost([1, 512].map((rows) => ({ rows, ms: 1 + 0.01 * rows })));
  const FLAT: StepCosts = { target: flat, entering: NOTHING, draft: NOTHING };
  const waiting = (ms: number) => new StepCost([{ rows: 64, ms }]);

  test.each([
    ["right ones are", FLAT, { drafting: 1, others: 7 }, 3, 100],
    [
      "those of which one is right are not, as a step is missed",
      FLAT,
      { drafting: 1, others: 7 },
      1,
      0,
    ],
    ["alone, one is enough", FLAT, { drafting: 1, others: 0 }, 1, 100],
    ["so it is where all wait", FLAT, { drafting: 4, others: 0 }, 1, 100],
    [
      "not where a step that nothing runs ahead of takes twice as long",
      { ...FLAT, waiting: waiting(2) },
      { drafting: 4, others: 0 },
      1,
      0,
    ],
  ] as const)("%s", (_, table, who, accepted, want) => {
    expect(Math.abs(waits(table, who, accepted) - want)).toBeLessThanOrEqual(2);
  });

  test("wrong ones once in 50 steps, and never where not even right ones would pay", () => {
    expect(waits(FLAT, { drafting: 2, others: 2 }, 0)).toBe(1);
    const target = new StepCost([4, 5].map((rows) => ({ rows, ms: rows ** 2 })));
    const dear = { target, entering: NOTHING, draft: NOTHING };
    expect(waits(dear, { drafting: 2, others: 2 }, 0)).toBe(0);
  });
});
