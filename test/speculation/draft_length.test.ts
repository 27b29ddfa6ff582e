import { describe, expect, test } from "vitest";
import type { DraftHistory } from "../../src/speculation/draft_history.ts";
import { DraftLengthController } from "../../src/speculation/draft_length.ts";
import { StepCost, type StepSize } from "../../src/speculation/step_costs.ts";
import { seeded } from "../support/seeded.ts";

const MOST = 8;
const NOTHING = new StepCost([]);

/** A step of the target that takes `base` and `row` more a row; a draft that takes `draft`. */
function costs({ base = 1, row = 0.1, draft = 0.05, entering = 0 } = {}) {
  const points = [1, 512].map((rows) => ({ rows, ms: base + row * rows }));
  return {
    target: new StepCost(points),
    entering: new StepCost(entering === 0 ? [] : [1, 512].map((rows) => ({ rows, ms: entering }))),
    draft: new StepCost(draft === 0 ? [] : [1, 512].map((rows) => ({ rows, ms: draft }))),
  };
}

/** Steps of sequences whose drafts `accepts` judges, one after another. */
class Run {
  readonly controller: DraftLengthController;
  readonly histories: DraftHistory[];
  /** Of all steps but probes. */
  readonly lengths: number[][] = [];
  probes = 0;
  /** That sequences have gained, and what that took by the costs. */
  tokens = 0;
  ms = 0;

  readonly #costs: ReturnType<typeof costs>;

  constructor(stepCosts = costs(), sequences = 1) {
    this.#costs = stepCosts;
    this.controller = new DraftLengthController(stepCosts);
    this.histories = Array.from({ length: sequences }, () => this.controller.history());
  }

  steps(count: number, accepts: (sequence: number, draft: number) => boolean): this {
    for (let step = 0; step < count; step++) {
      const chosen = this.controller.choose(
        this.histories.map((history) => ({ history, most: MOST })),
      );
      this.probes += chosen.isProbe ? 1 : 0;
      if (!chosen.isProbe) this.lengths.push([...chosen.verified]);
      expect(chosen.made).toBe(chosen.verified.reduce((most, one) => Math.max(most, one), 0));
      this.#pay(chosen.verified);
      chosen.verified.forEach((verified, sequence) => {
        let accepted = 0;
        while (accepted < verified && accepts(sequence, accepted)) accepted++;
        this.controller.record(this.histories[sequence]!, verified, accepted);
        this.tokens += 1 + accepted;
      });
    }
    return this;
  }

  #pay(verified: readonly number[]): void {
    const { target, entering, draft } = this.#costs;
    const rows = verified.reduce((sum, length) => sum + length + 1, 0);
    const drafting = verified.filter((length) => length > 0).length;
    const made = Math.max(...verified) * draft.of(drafting);
    this.ms += target.of(rows) + made + (drafting > 0 ? entering.of(rows) : 0);
  }

  get last(): number[] {
    return this.lengths.at(-1)!;
  }
}

/** Tokens a millisecond of one sequence with so many drafts, each accepted with one probability. */
function rate(length: number, probability: number, stepCosts = costs()): number {
  let [tokens, survives] = [1, 1];
  for (let i = 0; i < length; i++) tokens += survives *= probability;
  return (
    tokens /
    (stepCosts.target.of(1 + length) +
      length * stepCosts.draft.of(1) +
      (length > 0 ? stepCosts.entering.of(1 + length) : 0))
  );
}

function bestRate(probability: number, stepCosts = costs()): number {
  const rates = Array.from({ length: MOST + 1 }, (_, n) => rate(n, probability, stepCosts));
  return Math.max(...rates);
}

describe("drafts in steps that are filled up with rows for every sequence", () => {
  /** What each sequence has where all drafts of the first are right and others have none, or as many. */
  const chosen = (sequences: number, others: number) => {
    const table = costs({ base: 1, row: 0.2, draft: 0 });
    const computed = (step: StepSize) => step.sequences * step.longest;
    return [table, { ...table, computed }].map((each) => {
      const controller = new DraftLengthController(each, { probes: false });
      const given = Array.from({ length: sequences }, (_, i) => {
        const history = controller.history();
        for (let n = 0; n < 40; n++) controller.record(history, 1, 1);
        return { history, most: i === 0 ? 1 : others };
      });
      return controller.choose(given).verified.reduce((sum, one) => sum + one, 0);
    });
  };

  test("are none where the rows of the others cost more than they bring", () => {
    expect(chosen(16, 0)).toEqual([1, 0]);
  });

  test("are those of all, where all have some", () => {
    expect(chosen(16, 1)).toEqual([16, 16]);
  });

  test("are waited for where that pays too", () => {
    const table = costs({ base: 1, row: 0.02, draft: 0 });
    const computed = (step: StepSize) => step.sequences * step.longest;
    const waits = [table, { ...table, computed }].map((each) => {
      const controller = new DraftLengthController(each, { probes: false });
      const history = controller.history();
      for (let n = 0; n < 40; n++) controller.record(history, MOST, MOST);
      return controller.whoWaits([{ history, most: MOST }], 31).size;
    });
    expect(waits).toEqual([1, 0]);
  });
});

describe("useless drafts", () => {
  test.each([1, 4, 32])("at most 3 of 100 steps have any, in a batch of %i", (sequences) => {
    const run = new Run(costs(), sequences).steps(2000, () => false);
    const drafted = run.lengths.filter((lengths) => lengths.some((length) => length > 0)).length;
    expect((run.probes + drafted) / 2000).toBeLessThan(0.03);
    expect(run.probes).toBeGreaterThan(20);
  });

  test("a sequence that begins makes none where others' were useless", () => {
    const run = new Run(costs(), 2).steps(60, () => false);
    run.histories.push(run.controller.history());
    expect(run.steps(5, () => false).last).toEqual([0, 0, 0]);
  });

  test("drafts that become good are found by the first probe, and used", () => {
    const table = costs({ row: 0.5, draft: 0.2 });
    const run = new Run(table).steps(500, () => false);
    expect(run.last).toEqual([0]);
    run.steps(75, () => true);
    expect(rate(run.last[0]!, 1, table)).toBeGreaterThan(0.95 * bestRate(1, table));
  });

  test("drafts that become useless are given up, however long they were good", () => {
    const run = new Run().steps(1000, () => true);
    expect(run.last[0]).toBeGreaterThan(4);
    expect(run.steps(40, () => false).last).toEqual([0]);
  });
});

describe("tokens a millisecond are never below 0.97 of those without drafts", () => {
  const STEEP = costs({ row: 0.3, draft: 0.2 });
  test.each([0, 0.05, 0.15, 0.3, 0.6])("drafts are accepted with %f", (probability) => {
    const random = seeded(12);
    for (const [table, sequences] of [
      [costs(), 1] as const,
      [STEEP, 1] as const,
      [STEEP, 8] as const,
    ]) {
      const run = new Run(table, sequences).steps(1000, () => random() < probability);
      const plain = sequences / table.target.of(sequences);
      expect(run.tokens / run.ms).toBeGreaterThan(0.97 * plain);
    }
  });
});

describe("perfect drafts", () => {
  const TABLES = {
    "a row costs little": costs({ row: 0.02, draft: 0.01 }),
    "drafts cost nothing": costs({ draft: 0 }),
    "a row costs half a step": costs({ base: 1, row: 0.5, draft: 0 }),
    "five rows go at once": {
      target: new StepCost([
        { rows: 1, ms: 1 },
        { rows: 5, ms: 1.2 },
        { rows: 6, ms: 3 },
        { rows: 16, ms: 3.4 },
      ]),
      entering: NOTHING,
      draft: new StepCost([{ rows: 1, ms: 0.1 }]),
    },
    "a row costs a step": {
      target: new StepCost([{ rows: 1, ms: 1 }]),
      entering: NOTHING,
      draft: new StepCost([{ rows: 1, ms: 0.1 }]),
    },
  };

  test.each(Object.entries(TABLES))("as many as pay where %s", (_, table) => {
    const run = new Run(table).steps(300, () => true);
    expect(rate(run.last[0]!, 1, table)).toBeGreaterThanOrEqual(bestRate(1, table) / 1.02);
    expect(run.probes).toBeLessThanOrEqual(300 / 50);
  });

  test("none in a batch so large that rows cost what they bring", () => {
    const target = new StepCost([
      { rows: 1, ms: 4 },
      { rows: 16, ms: 4.4 },
      { rows: 64, ms: 16 },
    ]);
    const draft = new StepCost([{ rows: 1, ms: 0.5 }]);
    const table = { target, entering: NOTHING, draft };
    expect(new Run(table, 4).steps(100, () => true).last).toEqual([3, 3, 3, 3]);
    expect(new Run(table, 64).steps(100, () => true).last).toEqual(new Array(64).fill(0));
  });
});

describe("one sequence's drafts and another's", () => {
  test("each verifies what its own acceptance pays for", () => {
    const run = new Run(costs({ row: 0.15 }), 4).steps(400, (sequence) => sequence % 2 === 0);
    const [good, bad] = [run.last[0]!, run.last[1]!];
    expect(run.last).toEqual([good, bad, good, bad]);
    expect([good >= 4, bad]).toEqual([true, 0]);
  });

  test("no sequence verifies more than it has use for", () => {
    const controller = new DraftLengthController(costs({ row: 0.01, draft: 0 }));
    const sequences = [0, 1, 5].map((most) => ({ history: controller.history(), most }));
    for (let step = 0; step < 120; step++) {
      expect(controller.choose(sequences).verified).toEqual([0, 1, 5]);
      for (const { history, most } of sequences) controller.record(history, most, most);
    }
    expect(controller.choose([])).toEqual({ verified: [], made: 0, isProbe: false });
  });

  test("not even as that changes from step to step, in probes and between", () => {
    const random = seeded(31);
    const controller = new DraftLengthController(costs());
    const histories = Array.from({ length: 4 }, () => controller.history());
    let probes = 0;
    for (let step = 0; step < 1000; step++) {
      const sequences = histories.map((history) => ({ history, most: Math.floor(random() * 5) }));
      const { verified, isProbe } = controller.choose(sequences);
      probes += isProbe ? 1 : 0;
      expect(verified.every((length, i) => length <= sequences[i]!.most)).toBe(true);
      verified.forEach((length, i) => {
        controller.record(histories[i]!, length, Math.floor(random() * (length + 1)));
      });
    }
    expect(probes).toBeGreaterThan(15);
  });

  test("rows of prompts beside them make drafts cheap", () => {
    const table = {
      target: new StepCost([
        { rows: 1, ms: 1 },
        { rows: 2, ms: 3 },
        { rows: 65, ms: 3.1 },
      ]),
      entering: NOTHING,
      draft: NOTHING,
    };
    const controller = new DraftLengthController(table);
    const sequences = [{ history: controller.history(), most: 1 }];
    expect(controller.choose(sequences).verified).toEqual([0]);
    expect(controller.choose(sequences, { rows: 60 }).verified).toEqual([1]);
  });

  test("rows of other sequences do not, as each of them brings a token", () => {
    const target = new StepCost([1, 64].map((rows) => ({ rows, ms: rows })));
    const table = { target, entering: NOTHING, draft: NOTHING };
    for (const [beside, want] of [
      [{ rows: 30 }, 1],
      [{ tokens: 30 }, 0],
    ] as const) {
      const controller = new DraftLengthController(table);
      const sequences = [{ history: controller.history(), most: 1 }];
      expect(controller.choose(sequences, beside).verified).toEqual([want]);
    }
  });
});

describe("a sequence that the draft knows in part only", () => {
  test("begins as others do, and shows nothing of them", () => {
    const controller = new DraftLengthController(costs());
    const whole = controller.history();
    for (let i = 0; i < 50; i++) controller.record(whole, 3, 3);
    const partial = controller.history(true);
    expect(partial.acceptance.rates(3)).toEqual(controller.history().acceptance.rates(3));
    for (let i = 0; i < 50; i++) controller.record(partial, 3, 0);
    expect(controller.history().acceptance.rates(1)[0]).toBeGreaterThan(0.95);
    expect(controller.history(true).acceptance.rates(1)[0]).toBeLessThan(0.1);
    expect(controller.pays(4, 3)).toBe(true);
  });
});

describe("whether drafts pay for many sequences alike", () => {
  test.each([
    [1, 0.9, true],
    [1, 0.1, false],
    [40, 0.9, true],
    [40, 0.4, false],
  ])("%i, of which a share of %f is accepted: %s", (sequences, acceptance, pays) => {
    const table = costs({ row: 0.05, draft: 0.1, entering: 0.1 });
    const controller = new DraftLengthController(table);
    expect(controller.pays(sequences, 3, acceptance)).toBe(pays);
    for (let i = 0; i < 200; i++) {
      const accepted = [acceptance, acceptance ** 2, acceptance ** 3];
      const draw = (i * 0.618) % 1;
      const count = accepted.filter((share) => draw < share).length;
      controller.record(controller.history(), 3, count);
    }
    expect(controller.pays(sequences, 3)).toBe(pays);
  });

  test("not where entering the draft's cache takes what they bring", () => {
    const pays = (entering: number) =>
      new DraftLengthController(costs({ row: 0.1, draft: 0.1, entering })).pays(1, 1, 1);
    expect([pays(0.5), pays(1)]).toEqual([true, false]);
  });
});

describe("the choice is the best there is", () => {
  test("nearly, of all lengths of three sequences, where drafts cost nothing", () => {
    const random = seeded(21);
    for (let round = 0; round < 60; round++) {
      const ms = [1];
      for (let i = 1; i < 16; i++) ms.push(ms[i - 1]! + random() * 0.3);
      const target = new StepCost(ms.map((time, i) => ({ rows: i + 1, ms: time })));
      const controller = new DraftLengthController({ target, entering: NOTHING, draft: NOTHING });
      const sequences = [0, 1, 2].map(() => ({ history: controller.history(), most: 3 }));
      for (const { history } of sequences) {
        for (let i = 0; i < 10; i++) history.acceptance.add(3, Math.floor(random() * 4));
      }
      const value = (lengths: readonly number[]) => {
        let [tokens, rows] = [3, 3];
        lengths.forEach((length, s) => {
          let survives = 1;
          for (const rate of sequences[s]!.history.acceptance.rates(length)) {
            tokens += survives *= rate;
          }
          rows += length;
        });
        return tokens / target.of(rows);
      };
      let best = 0;
      for (let code = 0; code < 64; code++) {
        best = Math.max(best, value([code & 3, (code >> 2) & 3, code >> 4]));
      }
      expect(value(controller.choose(sequences).verified)).toBeGreaterThan(0.985 * best);
    }
  });
});

describe("lengths stay where nothing changes", () => {
  test.each([0, 1, 2, 3, 5, 8])("each step accepts %i drafts", (accepted) => {
    const run = new Run().steps(1200, (_, draft) => draft < accepted);
    expect(new Set(run.lengths.slice(200).map(String)).size).toBe(1);
  });

  test("they change seldom where chance decides, and are near the best", () => {
    const random = seeded(4);
    for (const probability of [0.1, 0.5, 0.8]) {
      const run = new Run().steps(2000, () => random() < probability);
      const lengths = run.lengths.map((one) => one[0]!);
      const changes = lengths.filter((length, i) => i > 0 && length !== lengths[i - 1]).length;
      expect(changes).toBeLessThan(30);
      expect(run.tokens / run.ms).toBeGreaterThan(0.93 * bestRate(probability));
    }
  });
});

describe("costs", () => {
  const cost = new StepCost([
    { rows: 2, ms: 4 },
    { rows: 4, ms: 6 },
    { rows: 8, ms: 5 },
    { rows: 16, ms: 10 },
  ]);

  test("are read between measurements, and never fall with rows", () => {
    expect([0, 1, 2, 3, 4, 6, 8, 12, 16, 32].map((rows) => cost.of(rows))).toEqual([
      0, 4, 4, 5, 6, 6, 6, 8, 10, 20,
    ]);
    expect(new StepCost([]).of(5)).toBe(0);
  });

  test.each([
    [[{ rows: 0, ms: 1 }], "0 rows in 1 ms after 0"],
    [[{ rows: 1, ms: 0 }], "1 rows in 0 ms after 0"],
    [[{ rows: 1, ms: Number.POSITIVE_INFINITY }], "1 rows in Infinity ms after 0"],
    [
      [
        { rows: 2, ms: 1 },
        { rows: 2, ms: 1 },
      ],
      "2 rows in 1 ms after 2",
    ],
  ])("%o are refused", (points, message) => {
    expect(() => new StepCost(points)).toThrow(message);
  });
});
