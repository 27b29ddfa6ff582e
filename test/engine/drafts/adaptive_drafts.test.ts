import { describe, expect, test } from "vitest";
import { FROM_SAMPLED } from "../../../kernels/embedding/embedding.ts";
import { adaptiveChoice } from "../../../src/engine/drafts/adaptive_choice.ts";
import type { ScheduledStep } from "../../../src/engine/schedule/scheduled_step.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import { StepCost, type StepCosts } from "../../../src/speculation/step_costs.ts";
import { scheduler, sequence } from "../../support/engines/sequences.ts";
import {
  SimulatedEngine,
  type SimulatedOptions,
} from "../../support/simulated/simulated_engine.ts";

const MOST = 3;
const LONG = 4000;

/** A row of a step takes `row`, beside 10; drafts and entering little. */
function costsOf(row: number): StepCosts {
  const cost = (first: number, more: number) =>
    new StepCost([1, 64].map((rows) => ({ rows, ms: first + more * (rows - 1) })));
  return { target: cost(10, row), entering: cost(1, row / 8), draft: cost(0.2, row / 8) };
}
/** Right drafts pay in small batches, and not in one of eight. */
const LARGE_BATCHES_LOSE: StepCosts = {
  target: new StepCost([
    { rows: 1, ms: 10 },
    { rows: 8, ms: 14 },
    { rows: 16, ms: 60 },
  ]),
  entering: new StepCost([{ rows: 8, ms: 1 }]),
  draft: new StepCost([{ rows: 8, ms: 0.2 }]),
};

/** To enter takes longer than a step without drafts, and right drafts pay all the same. */
const LONG_STEPS: StepCosts = {
  target: new StepCost([1, 64].map((rows) => ({ rows, ms: 10 + rows / 10 }))),
  entering: new StepCost([1, 64].map((rows) => ({ rows, ms: 14 + rows / 10 }))),
  draft: new StepCost([1, 64].map((rows) => ({ rows, ms: 1 }))),
};

/** The same drafts as tokens, where they are accepted. */
const TOKEN = 7;
const REFUSED = 8;

interface Options {
  readonly costs: StepCosts | undefined;
  /** Of the draft module; none where n-grams draft. */
  readonly draftSteps?: number;
  readonly shared?: boolean;
}

/** A scheduler whose steps run at once; what they draw is the same token over and over. */
class Steps {
  readonly engine;
  /** All so far. */
  readonly taken: ScheduledStep[] = [];
  /** How many drafts of a sequence are right, those behind them wrong; or whether all are. */
  accepts: (sequence: Sequence) => boolean | number = () => true;
  readonly #draftSteps: number;
  tokens = 0;

  constructor({ costs, draftSteps = 0, shared = false }: Options) {
    this.#draftSteps = draftSteps;
    const [pageCount, pageSize] = [4096, 4];
    this.engine = scheduler(pageCount, pageSize, {
      ...{ shared, draftSteps, maxRows: 64, maxPrefillRows: 32, maxGeneratedRows: 64 },
      ...{ maxRunningRequests: 16, conservativeness: 0, maxPrefillKeys: 1e6 },
      draftChoice: costs && adaptiveChoice(costs, { most: draftSteps, pageCount, pageSize }),
    });
  }

  add(prompt: readonly number[], maxNewTokens = LONG): Sequence {
    const drafter = { append: () => {}, propose: (count: number) => this.#draftsOf(made, count) };
    const drafts = {
      drafter: this.#draftSteps > 0 ? undefined : drafter,
      most: MOST,
      endTokens: new Set<number>(),
    };
    const { sequence: made } = sequence(prompt, maxNewTokens, { ignoreEos: true }, { drafts });
    this.engine.scheduler.add(made);
    return made;
  }

  #draftsOf(sequence: Sequence, count: number): number[] {
    const right = Number(this.accepts(sequence)) * (this.accepts(sequence) === true ? count : 1);
    return Array.from({ length: count }, (_, i) => (i < right ? TOKEN : REFUSED));
  }

  /** @returns The steps. */
  run(count: number): readonly ScheduledStep[] {
    const first = this.taken.length;
    for (let i = 0; i < count; i++) {
      const step = this.engine.scheduler.schedule();
      if (step === undefined) break;
      this.taken.push(step);
      const { draftRequest } = step;
      const drafts = (draftRequest?.owners ?? []).map((owner) =>
        Uint32Array.from(this.#draftsOf(owner, draftRequest!.steps)),
      );
      const ids = new Uint32Array(step.sampled.length).fill(TOKEN);
      this.tokens += this.engine.scheduler.commit(step, ids, drafts).sampledTokens;
    }
    return this.taken.slice(first);
  }
}

const enters = ({ batch }: ScheduledStep) => batch.nextSources !== undefined;
const verified = ({ drafts }: ScheduledStep) => [...drafts.values()].map(({ length }) => length);
const makesNone = (step: ScheduledStep) => !enters(step) && step.draftRequest === undefined;
const prompt = (seed: number, length = 12) =>
  Array.from({ length }, (_, i) => 2 + ((seed * 31 + i * 7) % 60));

describe("a draft module", () => {
  const module = (costs: StepCosts | undefined, shared = false) =>
    new Steps({ costs, draftSteps: MOST, shared });

  test("makes and verifies all drafts where they are right and cost little", () => {
    const steps = module(costsOf(0.1));
    steps.add(prompt(1));
    const taken = steps.run(60);
    expect(taken.every(enters)).toBe(true);
    for (const step of taken.slice(2)) expect(verified(step)).toEqual([MOST]);
  });

  test("each request has as many verified as pay, however many are made for another", () => {
    const steps = module(costsOf(0.8));
    const [all, first] = [steps.add(prompt(1)), steps.add(prompt(2))];
    steps.accepts = (one) => one === all || 1;
    for (const step of steps.run(200).slice(-20)) {
      expect(step.draftRequest!.steps).toBe(MOST);
      expect([all, first].map((one) => step.drafts.get(one)!.length)).toEqual([MOST, 1]);
    }
  });

  test("is left out where its drafts are wrong: steps are those of an engine without drafts", () => {
    const steps = module(costsOf(0.1));
    steps.accepts = () => false;
    const plain = new Steps({ costs: undefined });
    for (let i = 0; i < 4; i++) for (const one of [steps, plain]) one.add(prompt(i));
    plain.accepts = () => false;
    const off = steps.run(200).slice(-20);
    expect(off.every(makesNone)).toBe(true);
    for (const { batch, drafts, continued } of off) {
      expect([drafts.size, continued.size]).toEqual([0, 0]);
      expect(batch.sequences.map(({ phase }) => phase)).toEqual(new Array(4).fill("decode"));
    }
  });

  test("two steps in a hundred try drafts that stay wrong, however many requests come", () => {
    const steps = module(costsOf(0.1));
    steps.accepts = () => false;
    const taken: ScheduledStep[] = [];
    for (let i = 0; i < 400; i++) {
      steps.add(prompt(i), 30);
      taken.push(...steps.run(20));
    }
    const later = taken.slice(200);
    const share = later.filter(enters).length / later.length;
    expect(share).toBeLessThanOrEqual(0.02);
    expect(share).toBeGreaterThan(0.01);
    // With one draft, for one request.
    for (const step of later.filter(({ drafts }) => drafts.size > 0)) {
      expect(verified(step)).toEqual([1]);
    }
  });

  test("trials do not follow each other, however long there was none", () => {
    const steps = module(costsOf(0.1));
    steps.accepts = () => false;
    // A request that begins leaves the module out; then none begins for a long time.
    steps.add(prompt(0), LONG);
    expect(steps.run(3900).slice(-100).every(makesNone)).toBe(true);
    const taken: ScheduledStep[] = [];
    for (let i = 0; i < 20; i++) {
      steps.add(prompt(1 + i), 20);
      taken.push(...steps.run(20));
    }
    const tries = taken.filter(enters).length;
    expect(tries).toBeGreaterThan(5);
    expect(tries).toBeLessThan(12);
  });

  test("what trials take is less than a fiftieth of the time, though steps grow with the batch", () => {
    const steps = module(LONG_STEPS);
    steps.accepts = () => false;
    let plain = 0;
    let more = 0;
    let tries = 0;
    const { target, entering, draft } = LONG_STEPS;
    // Time is saved in small batches, and spent in large ones.
    for (let i = 0; i < 400; i++) {
      const batch = i % 2 === 0 ? 1 : 8;
      for (let one = 0; one < batch; one++) steps.add(prompt(8 * i + one), 30);
      for (const step of steps.run(40)) {
        const rows = step.batch.sources.length;
        const own = step.batch.sequences.length;
        plain += target.of(Math.max(own, rows - step.drafts.size));
        if (i < 40 || !enters(step)) continue;
        tries++;
        more +=
          entering.of(rows) + draft.of(1) + target.of(rows) - target.of(rows - step.drafts.size);
      }
    }
    expect(tries).toBeGreaterThan(20);
    expect(more / plain).toBeLessThan(0.02);
  });

  test("comes back with a request whose trial shows that drafts are right now", () => {
    const steps = module(costsOf(0.1));
    steps.accepts = () => false;
    for (let i = 0; i < 60; i++) {
      steps.add(prompt(i), 20);
      steps.run(21);
    }
    expect(enters(steps.taken.at(-1)!)).toBe(false);
    steps.accepts = () => true;
    for (let i = 0; i < 60; i++) {
      steps.add(prompt(100 + i), 60);
      steps.run(61);
    }
    steps.add(prompt(3));
    expect(steps.run(30).slice(3).map(verified)).toEqual(new Array(27).fill([MOST]));
  });

  test("no trial begins where not even right drafts would pay", () => {
    const steps = module(costsOf(40));
    for (let i = 0; i < 300; i++) {
      steps.add(prompt(i), 10);
      steps.run(12);
    }
    expect(steps.taken.length).toBeGreaterThan(2000);
    expect(steps.taken.every(makesNone)).toBe(true);
  });

  test("large batches have none of it, and it comes back with a request that begins in a small one", () => {
    const steps = module(LARGE_BATCHES_LOSE);
    const fill = () => {
      const many = Array.from({ length: 8 }, (_, i) => steps.add(prompt(i), i < 7 ? 60 : LONG));
      expect(steps.run(70).slice(-30).every(makesNone)).toBe(true);
      expect(many.filter(({ finish }) => finish === null)).toHaveLength(1);
      return many.at(-1)!;
    };
    const left = fill();
    // What has run meanwhile lacks its entries, and goes on without drafts.
    expect(steps.run(50).every(makesNone)).toBe(true);
    let one = steps.add(prompt(50), 60);
    steps.accepts = (any) => any === one;
    const taken = steps.run(10);
    expect(taken.every(enters)).toBe(true);
    expect(taken.slice(3).every(({ drafts }) => drafts.get(one)?.length === MOST)).toBe(true);
    // Then it drafts by what the cache has, and what comes of that is no example of whole ones.
    expect(taken.some(({ drafts }) => drafts.has(left))).toBe(true);
    expect(steps.run(60).slice(-20).every(makesNone)).toBe(true);
    steps.engine.scheduler.remove(left);
    const another = fill();
    one = steps.add(prompt(51));
    const [, , ...again] = steps.run(10);
    expect(again.every(({ drafts }) => drafts.get(one)?.length === MOST)).toBe(true);
    // What is known of such requests soon ends drafts of the next one.
    expect(again.slice(-2).some(({ drafts }) => drafts.has(another))).toBe(false);
  });

  test("pages that lack entries are hits, and tell nothing of other requests' drafts", () => {
    const steps = module(LARGE_BATCHES_LOSE, true);
    const long = prompt(1, 64);
    for (let i = 0; i < 8; i++) steps.add(i === 0 ? long : prompt(i + 1), 40);
    expect(steps.run(60).every(makesNone)).toBe(true);
    expect(steps.engine.scheduler.hasWork).toBe(false);
    const cached = new Set<Sequence>();
    steps.accepts = (one) => !cached.has(one);
    // A whole request has the module run; one behind pages without entries runs beside it.
    const whole = steps.add(prompt(90));
    const partial = steps.add([...long, 3, 4, 5]);
    cached.add(partial);
    const taken = steps.run(60);
    expect(partial.cachedTokens).toBe(64);
    expect(taken.every(enters)).toBe(true);
    const last = taken.slice(-20);
    expect(last.every(({ drafts }) => drafts.get(whole)?.length === MOST)).toBe(true);
    expect(last.filter(({ drafts }) => drafts.has(partial)).length).toBeLessThan(3);
    // Its drafts were wrong many a time, and the next request begins with all of them nevertheless.
    for (const one of [whole, partial]) steps.engine.scheduler.remove(one);
    const next = steps.add(prompt(77));
    expect(steps.run(2).at(-1)!.drafts.get(next)).toHaveLength(MOST);
  });

  test("what it does is what it was told at each step: rows enter wherever drafts are made", () => {
    const steps = module(costsOf(1.5));
    steps.accepts = (one) => one.tokens[0]! % 2 === 0;
    for (let i = 0; i < 200; i++) {
      if (i % 3 === 0) steps.add(prompt(i), 5 + (i % 40));
      steps.run(2);
    }
    let made: ScheduledStep["draftRequest"];
    for (const step of steps.taken) {
      if (step.draftRequest !== undefined) expect(enters(step)).toBe(true);
      for (const [one, drafts] of step.drafts) {
        expect(made!.owners).toContain(one);
        expect(drafts.length).toBeLessThanOrEqual(made!.steps);
      }
      for (const source of step.batch.nextSources ?? []) {
        if (source >= FROM_SAMPLED) expect(source - FROM_SAMPLED).toBeLessThan(step.sampled.length);
      }
      // Prompts of others may come in between.
      if (step.batch.sequences.some(({ phase }) => phase !== "prefill")) made = undefined;
      if (step.draftRequest !== undefined) {
        const { owners, steps: count } = step.draftRequest;
        made = { ...step.draftRequest, owners: [...(made?.owners ?? []), ...owners], steps: count };
      }
    }
    expect(steps.taken.some(makesNone)).toBe(true);
    expect(steps.taken.some(({ drafts }) => drafts.size > 0)).toBe(true);
  });
});

describe("n-grams", () => {
  test("all are verified where they are right, and none where a row takes as long as a step", () => {
    const cheap = new Steps({ costs: costsOf(0.1) });
    cheap.add(prompt(1));
    const rows = cheap.run(30).slice(2).map(verified);
    expect(rows).toEqual(new Array(28).fill([MOST]));
    const dear = new Steps({ costs: costsOf(40) });
    dear.add(prompt(1));
    expect(dear.run(300).flatMap(verified)).toEqual([]);
  });

  test("wrong ones are given up, and sequences run ahead as without drafts", () => {
    const steps = new Steps({ costs: costsOf(1) });
    steps.accepts = () => false;
    steps.add(prompt(1));
    steps.run(20);
    // Nothing has to be verified to see that they stay wrong.
    expect(steps.run(1000).flatMap(verified)).toEqual([]);
    const { scheduler: s } = steps.engine;
    const ahead = [s.schedule()!, s.schedule()!, s.schedule()!];
    expect(ahead.every((step) => step !== undefined && step.drafts.size === 0)).toBe(true);
  });

  test("those that become right are found", () => {
    const steps = new Steps({ costs: costsOf(1) });
    steps.accepts = () => false;
    steps.add(prompt(1));
    steps.run(500);
    steps.accepts = () => true;
    steps.run(20);
    expect(steps.run(20).map(verified)).toEqual(new Array(20).fill([MOST]));
  });

  test("wrong ones cost those that run ahead hardly a step", async () => {
    const stepsOf = async (drafts: Partial<SimulatedOptions>) => {
      const engine = new SimulatedEngine({
        ...{ pageCount: 1000, pageSize: 4, ahead: 1, maxRunningRequests: 8 },
        ...drafts,
      });
      for (let i = 0; i < 60; i++) engine.add({ prompt: [2 + i, 5, 9], maxNewTokens: 100 });
      await engine.run();
      engine.checkIdle();
      return engine.counts.steps;
    };
    const plain = await stepsOf({});
    expect(plain).toBeGreaterThan(300);
    // Each that is waited for misses a step.
    const wrong = { maxDrafts: 3, wrongDrafts: 1 };
    expect(await stepsOf({ ...wrong, costs: costsOf(1) })).toBeLessThan(1.02 * plain);
    expect(await stepsOf(wrong)).toBeGreaterThan(1.2 * plain);
  });
});
