/**
 * What n-grams take where the number of drafts follows what they bring, in the time of a table of costs:
 * beside no drafts, and as many as there can be.
 */
import { describe, expect, test } from "vitest";
import { adaptiveChoice } from "../../../src/engine/drafts/adaptive_choice.ts";
import { MOST_IN_FLIGHT } from "../../../src/engine/schedule/lookahead.ts";
import type { ScheduledStep } from "../../../src/engine/schedule/scheduled_step.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import { FilledSteps } from "../../../src/engine/step/filled_steps.ts";
import { NgramProposer } from "../../../src/speculation/ngram_proposer.ts";
import { ObservedCosts } from "../../../src/speculation/observed_costs.ts";
import {
  computedRows,
  StepCost,
  type StepCosts,
  type StepSize,
} from "../../../src/speculation/step_costs.ts";
import { scheduler, sequence } from "../../support/engines/sequences.ts";
import { seeded } from "../../support/seeded.ts";

/** Milliseconds of a processor's steps, by rows: in blocks of four rows. */
const PROCESSOR = costsOf(
  [
    [1, 1.1],
    [2, 1.8],
    [4, 2.45],
    [5, 3.65],
    [8, 5],
    [9, 6.55],
    [12, 7.1],
    [16, 8.2],
    [64, 33.5],
  ],
  [
    [1, 0.35],
    [8, 0.65],
    [16, 1.6],
    [64, 2],
  ],
);
/** Of steps that wait for weights: rows cost little up to 64. */
const GPU = costsOf(
  [
    [1, 5],
    [8, 5.2],
    [64, 7],
    [256, 24],
  ],
  [[256, 0.4]],
);

/** What one processor's steps seemed to take while other work met the measurement. */
const DEAR_ROWS = costsOf(
  [
    [1, 0.9],
    [2, 1.55],
    [4, 2.6],
    [5, 4.7],
    [8, 5.8],
    [9, 11.3],
    [16, 11.4],
    [64, 35],
  ],
  [
    [1, 1],
    [8, 0.6],
    [16, 8],
    [64, 8],
  ],
);
const CHEAP_ROWS = costsOf(
  [
    [1, 2],
    [2, 3],
    [4, 6.6],
    [16, 9.7],
    [64, 64],
  ],
  [
    [1, 0.4],
    [16, 4.4],
    [64, 90],
  ],
);

type Points = readonly (readonly [rows: number, ms: number])[];

function costsOf(target: Points, waiting: Points): StepCosts {
  const cost = (points: Points) => new StepCost(points.map(([rows, ms]) => ({ rows, ms })));
  return { target: cost(target), waiting: cost(waiting), entering: cost([]), draft: cost([]) };
}

interface Text {
  readonly prompt: readonly number[];
  readonly answer: readonly number[];
}

const TOKENS = 60;
const LENGTH = 100;

class Texts {
  readonly #random = seeded(5);
  readonly #next = Array.from({ length: TOKENS }, () => this.#any());

  #any(): number {
    return 2 + Math.floor(this.#random() * TOKENS);
  }

  /** Tokens of which a third follow the one before as ever. */
  #prose(length: number): number[] {
    const tokens = [this.#any()];
    while (tokens.length < length) {
      tokens.push(this.#random() < 0.35 ? this.#next[tokens.at(-1)! - 2]! : this.#any());
    }
    return tokens;
  }

  chat(): Text {
    return { prompt: this.#prose(40), answer: this.#prose(LENGTH) };
  }

  /** The same few tokens over and over, in the prompt too, as of a request to repeat them. */
  loop(): Text {
    const repeated = this.#prose(6);
    const copies = (count: number) => Array.from({ length: count }, () => repeated).flat();
    return {
      prompt: [...this.#prose(7), ...copies(5), ...this.#prose(2)],
      answer: [this.#any(), ...copies(20)].slice(0, LENGTH),
    };
  }

  /** A few tokens of its own, then the prompt, of which each thirtieth token is another. */
  copy(): Text {
    const prompt = this.#prose(LENGTH);
    const copied = prompt.map((token, i) => (i % 30 === 29 ? this.#any() : token));
    return { prompt, answer: [...this.#prose(10), ...copied.slice(0, LENGTH - 10)] };
  }
}

interface Setting {
  readonly most: number;
  readonly adaptive: boolean;
  /** What the choice of drafts is told of costs. Default: what steps take. */
  readonly told?: StepCosts | undefined;
}

/** Steps take a twelfth more or less than is their cost. */
const SCATTER = 1 / 6;

/** One step after another: nothing of the host's takes time but what `waiting` says. */
class TimedEngine {
  readonly #costs: StepCosts;
  readonly #engine;
  readonly #told: StepCosts;
  readonly #most: number;
  readonly #scatter = seeded(7);
  readonly #texts = new Map<Sequence, Text>();

  constructor(costs: StepCosts, { most, adaptive, told = costs }: Setting) {
    const [pageCount, pageSize] = [4096, 4];
    this.#costs = costs;
    this.#told = told;
    this.#most = most;
    this.#engine = scheduler(pageCount, pageSize, {
      ...{ maxRows: 512, maxPrefillRows: 512, maxGeneratedRows: 512, maxRunningRequests: 32 },
      ...{ conservativeness: 0, maxPrefillKeys: 1e6, maxPrefillTokens: 1e5 },
      draftChoice: adaptive ? adaptiveChoice(told, { most: 0, pageCount, pageSize }) : undefined,
    });
  }

  /** @returns Milliseconds from the first token of all on. */
  run(texts: readonly Text[]): number {
    const { scheduler: s } = this.#engine;
    for (const text of texts) this.#add(text);
    const inFlight: { step: ScheduledStep; isAlone: boolean; ids: Uint32Array; end: number }[] = [];
    let [now, free, begun] = [0, 0, 0];
    for (;;) {
      while (inFlight.length < { none: 1, near: 2, far: MOST_IN_FLIGHT }[s.lookahead]) {
        const step = s.schedule();
        if (step === undefined) break;
        const isAlone = inFlight.length === 0;
        free = Math.max(free, now) + this.#msOf(step, isAlone);
        inFlight.push({ step, isAlone, ids: this.#idsOf(step), end: free });
        if (isPrompt(step)) begun = free;
      }
      const oldest = inFlight.shift();
      if (oldest === undefined) break;
      const { step, end, isAlone } = oldest;
      if (!isPrompt(step)) this.#told.took?.(sizeOf(step), end - now, isAlone);
      now = end;
      s.commit(step, oldest.ids);
    }
    expect(s.hasWork).toBe(false);
    for (const [one, { answer }] of this.#texts) {
      expect(one.tokens.slice(one.promptLength)).toEqual(answer);
    }
    this.#texts.clear();
    return now - begun;
  }

  #msOf(step: ScheduledStep, isAlone: boolean): number {
    if (isPrompt(step)) return 0;
    const { target, waiting } = this.#costs;
    const rows = computedRows(this.#costs, sizeOf(step));
    const scatter = 1 + SCATTER * (this.#scatter() - 0.5);
    return scatter * (target.of(rows) + (isAlone ? waiting!.of(rows) : 0));
  }

  #add(text: Text): void {
    const most = this.#most;
    const drafter = new NgramProposer();
    const drafts = most > 0 ? { drafter, most, endTokens: new Set<number>() } : undefined;
    const { sequence: made } = sequence(text.prompt, LENGTH, { ignoreEos: true }, { drafts });
    this.#texts.set(made, text);
    this.#engine.scheduler.add(made);
  }

  /** What the model draws behind each row that is sampled. */
  #idsOf({ sampled, progress, drafts }: ScheduledStep): Uint32Array {
    const ids: number[] = [];
    for (const { sequence: one, computed } of progress) {
      if (!sampled.includes(one)) continue;
      const { prompt, answer } = this.#texts.get(one)!;
      const rows = 1 + (drafts.get(one)?.length ?? 0);
      for (let row = 0; row < rows; row++) ids.push(answer[computed - prompt.length + row] ?? 0);
    }
    return Uint32Array.from(ids);
  }
}

const isPrompt = ({ batch }: ScheduledStep) =>
  batch.sequences.some(({ phase }) => phase === "prefill");

function sizeOf({ batch: { sequences, sources } }: ScheduledStep): StepSize {
  const longest = Math.max(...sequences.map(({ queryLength }) => queryLength));
  return { sequences: sequences.length, rows: sources.length, longest };
}

const NONE = { most: 0, adaptive: false };
const PINNED = { most: 7, adaptive: false };
const ADAPTIVE = { most: 11, adaptive: true };
const WAVES = 12;

/** Times of several batches, one after another. */
function compare(
  costs: StepCosts,
  batch: number,
  textOf: (texts: Texts, i: number) => Text,
  told?: StepCosts,
) {
  const waves = Math.max(WAVES / batch, 2);
  const [plain, pinned, adaptive] = [NONE, PINNED, { ...ADAPTIVE, told }].map((setting) => {
    const texts = new Texts();
    const engine = new TimedEngine(costs, setting);
    let ms = 0;
    for (let wave = 0; wave < waves; wave++) {
      ms += engine.run(Array.from({ length: batch }, (_, i) => textOf(texts, wave * batch + i)));
    }
    return ms;
  });
  return { pinned: plain! / pinned!, adaptive: plain! / adaptive! };
}

const CASES = {
  chats: (texts: Texts) => texts.chat(),
  copies: (texts: Texts) => texts.copy(),
  loops: (texts: Texts) => texts.loop(),
  "one of four a copy": (texts: Texts, i: number) => (i % 4 === 0 ? texts.copy() : texts.chat()),
};

/** Sequences of steps whose launches are kept, here those of every batch. */
const FILLED = new FilledSteps([1, 2, 4, 8, 16, 32], {
  maxRows: 512,
  maxSampledRows: 512,
  maxSequences: 32,
});
/** The processor's, where steps are filled up with rows that cost what others do. */
const FILLING = { ...PROCESSOR, computed: (step: StepSize) => FILLED.of(step)?.rows ?? step.rows };

describe.each([
  ["a processor", PROCESSOR],
  ["a processor that fills steps up", FILLING],
  ["a GPU", GPU],
])("n-grams by the costs of %s", (_, costs) => {
  test.each([1, 4, 16, 32])("never lose to none in a batch of %i", (batch) => {
    for (const [what, textOf] of Object.entries(CASES)) {
      expect(compare(costs, batch, textOf).adaptive, what).toBeGreaterThanOrEqual(0.97);
    }
  });

  test("gain what pinned ones do where one request copies", () => {
    for (const textOf of [CASES.copies, CASES.loops]) {
      const { pinned, adaptive } = compare(costs, 1, textOf);
      expect(pinned).toBeGreaterThan(1.2);
      expect(adaptive).toBeGreaterThan(0.95 * pinned);
    }
  });

  test("gain where a copy follows many chats", () => {
    const textOf = (texts: Texts, i: number) => (i < WAVES - 1 ? texts.chat() : texts.copy());
    const { adaptive } = compare(costs, 1, textOf);
    // All but one of the answers are as fast as without drafts.
    expect(adaptive).toBeGreaterThan(1 + 0.15 / WAVES);
  });
});

describe("by costs of a processor that were measured while it had other work", () => {
  const adaptive = (batch: number, textOf: (texts: Texts, i: number) => Text, told: StepCosts) =>
    compare(PROCESSOR, batch, textOf, told).adaptive;

  test("rows that seemed to take too long are found to pay", () => {
    const { pinned } = compare(PROCESSOR, 1, CASES.copies);
    expect(adaptive(1, CASES.copies, DEAR_ROWS)).toBeLessThan(1.02);
    expect(adaptive(1, CASES.copies, new ObservedCosts(DEAR_ROWS))).toBeGreaterThan(0.98 * pinned);
  });

  test("rows that seemed to take too short lose little more than half of what they would", () => {
    for (const textOf of [CASES.copies, CASES["one of four a copy"]]) {
      // What is learned in the first batches stays.
      const costs = new ObservedCosts(CHEAP_ROWS);
      for (let i = 0; i < 4; i++) adaptive(4, textOf, costs);
      const lost = 1 - adaptive(4, textOf, CHEAP_ROWS);
      expect(lost).toBeGreaterThan(0.04);
      expect(1 - adaptive(4, textOf, costs)).toBeLessThan(0.6 * lost);
    }
  });
});
