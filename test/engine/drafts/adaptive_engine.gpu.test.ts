/** Engines whose number of drafts follows what they bring: what it costs where they bring nothing. */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { measureCosts } from "../../../src/engine/drafts/measure_costs.ts";
import { Engine } from "../../../src/engine/engine.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { ModelRunner } from "../../../src/engine/step/model_runner.ts";
import type { Batch } from "../../../src/layers/batch.ts";
import { ObservedCosts } from "../../../src/speculation/observed_costs.ts";
import { StepCost } from "../../../src/speculation/step_costs.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { uselessDrafts } from "../../support/checkpoints/useless_drafts.ts";
import { device, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { chat, complete, EMBEDDED_MODEL, openEngine } from "../../support/engines/engine.ts";
import { GREEDY, ModelSession } from "../../support/engines/model_session.ts";

const MODULE = { algorithm: "EAGLE", adaptive: "on" } as const;
/** Of the embedded model, its draft layer not among them. */
const LAYERS = 5;
const COPIED = Array.from({ length: 5 }, () => "apple river zobrax").join(" ");
const CHATS = ["What is 12 + 7?", "How are you?", "Tell me a story.", `Repeat after me: ${COPIED}`];
const cost = (ms: number) => new StepCost([1, 64].map((rows) => ({ rows, ms })));
/** Right drafts pay, or no draft does. */
const CHEAP = { target: cost(10), entering: cost(1), draft: cost(0.5) };
const DEAR = { target: cost(10), entering: cost(100), draft: cost(100) };

/** Greedy answers to all chats at once, twice, and what became of drafts. */
async function answersOf(options: Partial<LoadOptions>) {
  const engine = await openEngine(options);
  try {
    return await answersFrom(engine);
  } finally {
    await engine.close();
  }
}

async function answersFrom(engine: Engine) {
  const sampling = { temperature: 0, maxNewTokens: smallestCaseOnly ? 24 : 40, ignoreEos: true };
  const answers: (readonly number[])[] = [];
  for (let round = 0; round < 2; round++) {
    const asked = CHATS.map((content) => complete(engine, { messages: chat(content), sampling }));
    for (const { tokens } of await Promise.all(asked)) answers.push(tokens);
  }
  return { answers, speculation: engine.status().speculation };
}

/** Every batch that is given to a model while something runs. */
async function watching<T>(work: () => Promise<T>) {
  const batches: Batch[] = [];
  const { submit } = ModelRunner.prototype;
  const spy = vi.spyOn(ModelRunner.prototype, "submit").mockImplementation(function (
    this: ModelRunner,
    ...given
  ) {
    batches.push(given[0]);
    return submit.apply(this, given);
  });
  try {
    return { result: await work(), batches };
  } finally {
    spy.mockRestore();
  }
}

describe("answers are those without drafts", () => {
  let plain: Awaited<ReturnType<typeof answersOf>>;
  beforeAll(async () => {
    plain = await answersOf({});
  });

  test.each([
    ["of the module, where they pay", MODULE, CHEAP],
    ["of the module, where they do not", MODULE, DEAR],
    ["of n-grams, where they pay", { algorithm: "NGRAM" }, CHEAP],
  ] as const)("%s", async (name, speculation, stepCosts) => {
    const { result, batches } = await watching(() => answersOf({ speculation, stepCosts }));
    expect(result.answers).toEqual(plain.answers);
    const { proposedDrafts, acceptedDrafts, verifySteps } = result.speculation!;
    const tokens = plain.answers.reduce((sum, { length }) => sum + length - 1, 0);
    expect(verifySteps + acceptedDrafts).toBe(tokens);
    const entering = batches.filter(({ nextSources }) => nextSources !== undefined);
    if (stepCosts === DEAR) {
      expect(proposedDrafts).toBe(0);
      expect(entering).toEqual([]);
    } else {
      expect(proposedDrafts).toBeGreaterThan(0);
      expect(entering.length > 0, name).toBe(speculation === MODULE);
      // Three in four of the module's are right.
      if (speculation === MODULE) expect(acceptedDrafts).toBeGreaterThan(verifySteps);
    }
  });

  test.skipIf(smallestCaseOnly)(
    "of a layer that predicts nothing: it is soon left out",
    async () => {
      const source = await uselessDrafts(folderSource(EMBEDDED_MODEL), LAYERS);
      const given = { device, maxTotalTokens: 8192, triesInvariance: false, stepCosts: CHEAP };
      const engine = await Engine.load(source, { ...given, speculation: MODULE });
      const { result, batches } = await watching(() => answersFrom(engine));
      expect(result.answers).toEqual(plain.answers);
      expect(result.speculation!.acceptedDrafts).toBeLessThan(10);
      const entering = batches.map(({ nextSources }) => nextSources !== undefined);
      expect(entering[0]).toBe(true);
      // The second time, prompts too are computed without it.
      expect(entering.slice(-40)).toEqual(new Array(40).fill(false));
      await engine.close();
    },
  );

  test("by what steps take on this adapter", async () => {
    const { result, batches } = await watching(() => {
      return answersOf({ speculation: { algorithm: "EAGLE" } });
    });
    expect(result.answers).toEqual(plain.answers);
    // Steps were timed before the first request, with drafts and without.
    expect(new Set(batches.slice(0, 6).map((one) => one.nextSources !== undefined)).size).toBe(2);
  });

  test("by what steps with n-grams have taken since", async () => {
    const took = vi.spyOn(ObservedCosts.prototype, "took");
    const engine = await openEngine({ speculation: { algorithm: "NGRAM" } });
    const { result, batches } = await watching(() => answersFrom(engine));
    const told = took.mock.calls.slice();
    took.mockRestore();
    await engine.close();
    expect(result.answers).toEqual(plain.answers);
    const generated = batches.filter(({ sequences }) => {
      return sequences.every(({ phase }) => phase !== "prefill");
    });
    expect(told.map(([{ rows }]) => rows)).toEqual(generated.map(({ sources }) => sources.length));
    expect(told.some(([, , isAlone]) => !isAlone)).toBe(true);
    expect(told.every(([, ms]) => ms >= 0)).toBe(true);
    expect(told.reduce((sum, [, ms]) => sum + ms, 0)).toBeGreaterThan(0);
  });
});

describe("a step", () => {
  const options = { maxRowsPerStep: 64, pageSize: 16 };
  let plain: ModelSession;
  let drafting: ModelSession;
  beforeAll(async () => {
    const source = folderSource(EMBEDDED_MODEL);
    plain = await ModelSession.open(source, options);
    drafting = await ModelSession.open(source, { ...options, speculation: { algorithm: "EAGLE" } });
  });
  afterAll(() => {
    plain.close();
    drafting.close();
  });

  test.each([1, 5])(
    "of %i rows that enters no draft module has the launches of a plain one",
    async (count) => {
      const pageTable = [0, 1];
      const sequences = Array.from({ length: count }, (_, queryStart) => {
        return { phase: "decode", queryStart, queryLength: 1, position: 3, pageTable } as const;
      });
      const rows = Uint32Array.from(sequences, (_, i) => i);
      const sampled = sequences.map(() => ({ sampling: GREEDY, position: 4 }));
      const batch = { sequences, sources: rows, logitRows: rows };
      const of = async ({ loaded }: ModelSession, given: Batch) => {
        const counts = await loaded.runner.countLaunches(given, sampled);
        return Object.fromEntries([...counts].filter(([, launches]) => launches > 0));
      };
      const want = await of(plain, batch);
      expect(await of(drafting, batch)).toEqual(want);
      const entering = await of(drafting, { ...batch, nextSources: rows });
      const more = Object.keys(entering).filter((group) => !(group in want));
      expect(more.every((group) => group.startsWith("draft"))).toBe(true);
      expect(more.length).toBeGreaterThan(0);
    },
  );

  test("takes the longer the more it does, by what is measured", async () => {
    const { target, entering, draft } = await measureCosts(drafting.loaded);
    const times = [1, 4, 16, 64].map((rows) => target.of(rows));
    expect(times).toEqual([...times].sort((a, b) => a - b));
    expect(times.every((ms) => ms > 0 && Number.isFinite(ms))).toBe(true);
    expect([entering.of(4), draft.of(4)].every((ms) => ms > 0)).toBe(true);
    const without = await measureCosts(plain.loaded);
    expect(without.target.of(1)).toBeGreaterThan(0);
    expect([without.entering.of(64), without.draft.of(64)]).toEqual([0, 0]);
  });
});
