/**
 * What n-grams take where the number of drafts follows what they bring, in the time of a table of costs:
 * beside no drafts, and as many as there can be.
 */
import { describe, expect, test } from "vitest";
import { adaptiveChoice } from "../../../src/engine/drafts/adaptive_choice.ts";
import { MOST_IN_FLIGHT } from "../../../src/engine/schedule/lookahead.ts";
import type { ScheduledStep } from "../../../src/engine/schedule/scheduled_step.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import { NgramProposer } from "../../../src/speculation/ngram_proposer.ts";
import { StepCost, type StepCosts } from "../../../src/speculation/step_costs.ts";
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

  /** A few tokens of its own, then the prompt, of which each thirtieth token is another. */
  copy(): Text {
    const prompt = this.#prose(LENGTH);
    const copied = prompt.map((token, i) => (i % 30 === 29 ? this.#any() : token));
    return { prompt, answer: [...this.#prose(10), ...copied.slice(0, LENGTH - 10)] };
  }
}

/** One step after another: nothing of the host's takes time but what `waiting` says. */
class TimedEngine {
  readonly #costs: StepCosts;
  readonly #engine;
  readonly #most: number;
  readonly #texts = new Map<Sequence, Text>();

  constructor(costs: StepCosts, { most, adaptive }: { most: number; adaptive: boolean }) {
    const [pageCount, pageSize] = [4096, 4];
    this.#costs = costs;
    this.#most = most;
    this.#engine = scheduler(pageCount, pageSize, {
      ...{ maxRows: 512, maxPrefillRows: 512, maxGeneratedRows: 512, maxRunningRequests: 32 },
      ...{ conservativeness: 0, maxPrefillKeys: 1e6, maxPrefillTokens: 1e5 },
      draftChoice: adaptive ? adaptiveChoice(costs, { most: 0, pageCount, pageSize }) : undefined,
    });
  }

  /** @returns Milliseconds from the first token of all on. */
  run(texts: readonly Text[]): number {
    const { scheduler: s } = this.#engine;
    for (const text of texts) this.#add(text);
    const inFlight: { step: ScheduledStep; ids: Uint32Array; end: number }[] = [];
    let [now, free, begun] = [0, 0, 0];
    for (;;) {
      while (inFlight.length < { none: 1, near: 2, far: MOST_IN_FLIGHT }[s.lookahead]) {
        const step = s.schedule();
        if (step === undefined) break;
        const rows = step.batch.sources.length;
        const isPrompt = step.batch.sequences.some(({ phase }) => phase === "prefill");
        const { target, waiting } = this.#costs;
        const ms = isPrompt ? 0 : target.of(rows) + (inFlight.length === 0 ? waiting!.of(rows) : 0);
        free = Math.max(free, now) + ms;
        inFlight.push({ step, ids: this.#idsOf(step), end: free });
        if (isPrompt) begun = free;
      }
      const oldest = inFlight.shift();
      if (oldest === undefined) break;
      now = oldest.end;
      s.commit(oldest.step, oldest.ids);
    }
    expect(s.hasWork).toBe(false);
    for (const [one, { answer }] of this.#texts) {
      expect(one.tokens.slice(one.promptLength)).toEqual(answer);
    }
    this.#texts.clear();
    return now - begun;
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

const NONE = { most: 0, adaptive: false };
const PINNED = { most: 7, adaptive: false };
const ADAPTIVE = { most: 11, adaptive: true };
const WAVES = 12;

/** Times of several batches, one after another. */
function compare(costs: StepCosts, batch: number, textOf: (texts: Texts, i: number) => Text) {
  const waves = Math.max(WAVES / batch, 2);
  const [plain, pinned, adaptive] = [NONE, PINNED, ADAPTIVE].map((setting) => {
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
  "one of four a copy": (texts: Texts, i: number) => (i % 4 === 0 ? texts.copy() : texts.chat()),
};

describe.each([
  ["a processor", PROCESSOR],
  ["a GPU", GPU],
])("n-grams by the costs of %s", (_, costs) => {
  test.each([1, 4, 16, 32])("never lose to none in a batch of %i", (batch) => {
    for (const [what, textOf] of Object.entries(CASES)) {
      expect(compare(costs, batch, textOf).adaptive, what).toBeGreaterThanOrEqual(0.97);
    }
  });

  test("gain as much as pinned ones where one request copies", () => {
    const { pinned, adaptive } = compare(costs, 1, CASES.copies);
    expect(pinned).toBeGreaterThan(1.2);
    expect(adaptive).toBeGreaterThanOrEqual(pinned);
  });

  test("gain where a copy follows many chats", () => {
    const textOf = (texts: Texts, i: number) => (i < WAVES - 1 ? texts.chat() : texts.copy());
    const { adaptive } = compare(costs, 1, textOf);
    // All but one of the answers are as fast as without drafts.
    expect(adaptive).toBeGreaterThan(1 + 0.15 / WAVES);
  });
});
