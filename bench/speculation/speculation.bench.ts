/**
 * What drafts bring on the embedded model, and what they cost: tokens per second with and without
 * them, a step that verifies drafts beside one that computes a row, launches and host time of a step
 * with and without the checkpoint's draft module.
 *
 * @module
 */
import "../support/driver_threads.ts";
import { performance } from "node:perf_hooks";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { acceptLength } from "../../src/speculation_figures.ts";
import { EMBEDDED_MODEL } from "../../test/support/checkpoints/embedded_model.ts";
import { folderSource } from "../../test/support/checkpoints/folder_source.ts";
import { uselessDrafts } from "../../test/support/checkpoints/useless_drafts.ts";
import {
  GREEDY,
  ModelSession,
  type SessionSequence,
} from "../../test/support/engines/model_session.ts";
import { machine } from "../support/machine.ts";
import { median, noiseOf } from "../support/noise.ts";
import { table } from "../support/table.ts";
import {
  answerAll,
  BATCHES,
  CHATS,
  CONTROL,
  compare,
  expectNoLoss,
  openEngines,
  type Setting,
} from "./compared_engines.ts";

const DRAFTS = 3;
/**
 * A step that verifies them for one request, in steps of one row: 1.80, 1.84 and 1.92 in runs on llvmpipe
 * with one driver thread and both cores to itself. docs/performance.md says why it is not less.
 */
const MOST_TIMES_AS_LONG = 2.1;
/** Its number in the embedded model. */
const MODULE_LAYER = 5;
const COPIED = Array.from({ length: 5 }, () => "apple river zobrax").join(" ");

beforeAll(() => console.log(machine()));

test("drafts of the checkpoint's module, 1 to 3 of them", async () => {
  const settings: Setting[] = [
    { name: "no drafts" },
    ...[1, 2, DRAFTS].map((numSteps): Setting => {
      const numbers = { numSteps, eagleTopk: 1, numDraftTokens: numSteps + 1 };
      return { name: `${numSteps} by MTP`, speculation: { algorithm: "EAGLE", ...numbers } };
    }),
  ];
  const engines = await openEngines(settings);
  await compare(settings, engines, CHATS);
  const figures = [];
  for (const engine of engines.slice(1)) {
    // Of each chat once: in batches the first ones count most.
    await engine.flushCache();
    await answerAll(engine, CHATS);
    figures.push(engine.status().speculation!);
  }
  for (const [i, one] of figures.entries()) {
    const share = one.acceptedDrafts / one.proposedDrafts;
    console.log(
      `${i + 1} by MTP: ${acceptLength(one).toFixed(2)} tokens a step, ` +
        `${(100 * share).toFixed(1)} % of drafts accepted`,
    );
  }
  const [first] = figures;
  expect(first!.acceptedDrafts / first!.proposedDrafts).toBeGreaterThanOrEqual(0.95);
  expect(acceptLength(figures.at(-1)!)).toBeGreaterThanOrEqual(3.5);
  for (const engine of engines) await engine.close();
}, 600_000);

test("trees of drafts beside a chain as deep, of the checkpoint's module and of the model itself", async () => {
  const by = (algorithm: "EAGLE" | "STANDALONE", eagleTopk: number, numDraftTokens: number) => {
    const speculation = { algorithm, numSteps: DRAFTS, eagleTopk, numDraftTokens };
    const shape = eagleTopk === 1 ? `${DRAFTS}` : `trees of ${numDraftTokens - 1}`;
    const name = `${shape} by ${algorithm === "EAGLE" ? "MTP" : "the model"}`;
    const draftModel = algorithm === "EAGLE" ? {} : { draftModel: folderSource(EMBEDDED_MODEL) };
    return { name, speculation, ...draftModel };
  };
  const settings: Setting[] = [
    { name: "no drafts" },
    by("EAGLE", 1, DRAFTS + 1),
    by("EAGLE", 2, 6),
    by("EAGLE", 4, 12),
    by("STANDALONE", 1, DRAFTS + 1),
    by("STANDALONE", 2, 6),
  ];
  const engines = await openEngines(settings);
  await compare(settings, engines, CHATS, { batches: [1, 4] });
  const lengths = engines.slice(1).map((engine) => acceptLength(engine.status().speculation!));
  for (const [i, length] of lengths.entries()) {
    console.log(`${settings[i + 1]!.name}: ${length.toFixed(2)} tokens a step`);
  }
  // A tree has the chain among its branches.
  expect(lengths[2]).toBeGreaterThanOrEqual(lengths[0]! - 0.05);
  for (const engine of engines) await engine.close();
}, 900_000);

test("as many drafts as pay, of the checkpoint's module, of one that predicts nothing, of n-grams", async () => {
  const source = await uselessDrafts(folderSource(EMBEDDED_MODEL), MODULE_LAYER);
  const settings: Setting[] = [
    { name: "no drafts" },
    { name: "no drafts again" },
    { name: "MTP", speculation: { algorithm: "EAGLE" } },
    { name: "useless MTP", speculation: { algorithm: "EAGLE" }, source },
    { name: "n-grams", speculation: { algorithm: "NGRAM" } },
  ];
  const engines = await openEngines(settings);
  const speedups = await compare(settings, engines, CHATS);
  for (const [i, engine] of engines.entries()) {
    const figures = engine.status().speculation;
    if (figures === undefined) continue;
    const { proposedDrafts, verifySteps } = figures;
    console.log(
      `${settings[i]!.name}: ${(proposedDrafts / verifySteps).toFixed(2)} drafts and ` +
        `${acceptLength(figures).toFixed(2)} tokens a step`,
    );
    // Of useless ones hardly any is ever made.
    if (settings[i]!.source !== undefined) expect(proposedDrafts / verifySteps).toBeLessThan(0.05);
  }
  for (const engine of engines) await engine.close();
  for (let i = CONTROL + 1; i < settings.length; i++) expectNoLoss(speedups, i);
}, 600_000);

test("drafts of n-grams, of an answer that copies its prompt", async () => {
  const settings: Setting[] = [
    { name: "no drafts" },
    { name: "no drafts again" },
    { name: "7 n-grams", speculation: { algorithm: "NGRAM", numDraftTokens: 8 } },
    { name: "as many n-grams as pay", speculation: { algorithm: "NGRAM" } },
  ];
  const engines = await openEngines(settings);
  const speedups = await compare(settings, engines, [`Repeat after me: ${COPIED}`]);
  const [length, paying] = engines
    .slice(CONTROL + 1)
    .map((one) => acceptLength(one.status().speculation!));
  console.log(`${length!.toFixed(2)} tokens a step by 7, ${paying!.toFixed(2)} by as many as pay`);
  for (const engine of engines) await engine.close();
  expect(length).toBeGreaterThanOrEqual(4);
  expectNoLoss(speedups, CONTROL + 2);
  const [control, pinned, adaptive] = speedups.get(1)!;
  // It begins a few tokens later.
  const share = median(adaptive!.map((ratio, i) => ratio / pinned![i]!));
  expect(share).toBeGreaterThanOrEqual(0.85 - noiseOf(control!));
}, 600_000);

describe("one step", () => {
  const rows = (DRAFTS + 1) * Math.max(...BATCHES);
  // As many generated rows for the model that makes no drafts.
  const options = { maxRowsPerStep: rows, maxRunningRequests: rows, pageSize: 16 };
  let plain: ModelSession;
  let drafting: ModelSession;
  beforeAll(async () => {
    const source = folderSource(EMBEDDED_MODEL);
    // Rows of one sequence share what attention reads where drafts are verified.
    const speculation = { algorithm: "NGRAM", numDraftTokens: DRAFTS + 1 } as const;
    plain = await ModelSession.open(source, { ...options, speculation });
    drafting = await ModelSession.open(source, { ...options, maxDrafts: DRAFTS });
  }, 120_000);
  afterAll(() => {
    plain.close();
    drafting.close();
  });

  test("of 4 rows a sequence beside one of 1, and with 3 drafts made behind it", async () => {
    const figures: string[][] = [];
    for (const batch of BATCHES) {
      const one = await startAll(plain, batch);
      const other = await startAll(drafting, batch);
      const works = [
        () => stepTime(plain, one, { count: 1, steps: 0 }),
        () => stepTime(plain, one, { count: DRAFTS + 1, steps: 0 }),
        () => stepTime(drafting, other, { count: DRAFTS + 1, steps: DRAFTS }),
      ];
      const least = works.map(() => Number.POSITIVE_INFINITY);
      const drawn: (readonly number[])[] = [];
      for (let round = 0; round < 20; round++) {
        for (const [i, work] of works.entries()) {
          const { whole, tokens } = await work();
          least[i] = Math.min(least[i]!, whole);
          drawn[i] = tokens;
        }
      }
      // The module changes nothing, and a row has the same token beside its drafts.
      expect(drawn[2]).toEqual(drawn[1]);
      expect(drawn[1]!.filter((_, row) => row % (DRAFTS + 1) === 0)).toEqual(drawn[0]);
      const [decode, verify, draft] = least;
      if (batch === 1) expect(verify! / decode!).toBeLessThanOrEqual(MOST_TIMES_AS_LONG);
      figures.push([
        `${batch}`,
        `${decode!.toFixed(2)} ms`,
        `${verify!.toFixed(2)} ms (${(verify! / decode!).toFixed(2)}x)`,
        `${draft!.toFixed(2)} ms (${(draft! / decode!).toFixed(2)}x)`,
      ]);
      releaseAll(plain, one);
      releaseAll(drafting, other);
    }
    console.log(table(["a step, batch", "1 row", "4 rows", "4 rows, 3 drafts made"], figures));
  }, 300_000);

  test("launches and host time of target, first draft and chain", async () => {
    const figures: string[][] = [];
    for (const steps of [0, 1, 2, DRAFTS]) {
      const [sequence] = await startAll(drafting, 1);
      const counts = await launchesOf(drafting, sequence!, steps);
      const host: number[] = [];
      for (let i = 0; i < 100; i++) {
        host.push((await stepTime(drafting, [sequence!], { count: DRAFTS + 1, steps })).host);
      }
      host.sort((a, b) => a - b);
      figures.push([
        `${steps}`,
        ...[counts.target, counts.extend, counts.chain].map(String),
        `${host[0]!.toFixed(3)} ms`,
        `${host[50]!.toFixed(3)} ms`,
      ]);
      // One more draft is one more pass of the module over a row of each sequence.
      if (steps === 0) expect(counts.chain).toBe(0);
      if (steps === DRAFTS) expect(counts.chain % (DRAFTS - 1)).toBe(0);
      releaseAll(drafting, [sequence!]);
    }
    const header = ["drafts made", "target", "extend", "chain", "host, at best", "host, median"];
    console.log(table(header, figures));
  }, 120_000);
});

/** Sequences behind short prompts, each with a token and right drafts that are to be computed. */
async function startAll(session: ModelSession, batch: number): Promise<SessionSequence[]> {
  const sequences: SessionSequence[] = [];
  for (let i = 0; i < batch; i++) {
    const sequence = session.sequence([0, 2027, 559, 36 + i, 2028]);
    const compute = async (phase: "prefill" | "decode", count: number) => {
      const parts = [{ sequence, phase, count }];
      const { tokens } = await session.draft(parts, { steps: 1, drafted: [], ahead: 16 });
      sequence.tokens.push(tokens.at(-1)!);
    };
    await compute("prefill", sequence.tokens.length);
    const { computed } = sequence;
    // Rows of an answer want the experts that drafts of it do.
    for (let draft = 0; draft < DRAFTS; draft++) await compute("decode", 1);
    sequence.computed = computed;
    sequences.push(sequence);
  }
  return sequences;
}

function releaseAll(session: ModelSession, sequences: readonly SessionSequence[]): void {
  for (const sequence of sequences) session.release(sequence);
}

/** Computes the newest rows of sequences, which stay as they are; milliseconds until it is done. */
async function stepTime(
  session: ModelSession,
  sequences: readonly SessionSequence[],
  { count, steps }: { readonly count: number; readonly steps: number },
) {
  const parts = sequences.map((sequence) => ({ sequence, phase: "decode" as const, count }));
  const request = steps > 0 ? {} : { drafted: [] };
  const started = performance.now();
  const done = session.draft(parts, { steps, ahead: 16, ...request });
  const host = performance.now() - started;
  const { tokens } = await done;
  const whole = performance.now() - started;
  for (const sequence of sequences) sequence.computed -= count;
  return { whole, host, tokens: [...tokens] };
}

/** Launches of a step of 4 rows: of the target, of the module over them, of its rows behind them. */
async function launchesOf(
  { loaded }: ModelSession,
  { tokens, computed, pageTable }: SessionSequence,
  steps: number,
) {
  const queryLength = DRAFTS + 1;
  const own = Uint32Array.from(tokens.slice(computed, computed + queryLength));
  const batch = {
    sequences: [
      { phase: "decode" as const, queryStart: 0, queryLength, position: computed, pageTable },
    ],
    sources: own,
    nextSources: own,
    logitRows: Uint32Array.from(own, (_, i) => i),
  };
  const sampled = [...own].map((_, i) => ({ sampling: GREEDY, position: computed + i + 1 }));
  const drafted = [{ sequence: 0, firstLogitRow: 0, logitRows: queryLength }];
  const request = steps > 0 ? { steps, sequences: drafted } : undefined;
  const counts = await loaded.runner.countLaunches(batch, sampled, request);
  const sum = { target: 0, extend: 0, chain: 0 };
  for (const [group, launches] of counts) {
    const part = group.startsWith("draft chain") ? "chain" : "extend";
    sum[group.startsWith("draft") ? part : "target"] += launches;
  }
  return sum;
}
