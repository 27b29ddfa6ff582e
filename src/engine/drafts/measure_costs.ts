/**
 * What steps of a loaded model take, by their rows: measured on it while nothing is in its cache.
 *
 * Rows are those of generated tokens with a short context. Steps are submitted as the engine does, one
 * behind the other; of several times the least one counts, as others of the machine's work only add to
 * it. Sizes get larger until they take too long to be measured, and what is beyond them is reckoned.
 *
 * @module
 */

import type { Batch, BatchSequence, DraftedSequence } from "../../layers/batch.ts";
import { type MeasuredStep, StepCost, type StepCosts } from "../../speculation/step_costs.ts";
import type { EngineModel } from "../ranks/engine_model.ts";

/** Rows of the steps that are measured. A step of more than the last is hardly ever worth drafts. */
const SIZES = [1, 2, 4, 16, 64, 256];
/** Sizes up to this are measured however long it takes, larger ones for so many milliseconds in all. */
const SMALL = 16;
const BUDGET_MS = 300;
/** Times that a step is measured: so many at least, and at most, and how long that may take. */
const ROUNDS = { least: 2, most: 6, ms: 80 };
/** Steps that are in flight together, where they run ahead. */
const TOGETHER = 2;

const GREEDY = { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 };

export type MeasuredModel = Pick<EngineModel, "options" | "memoryBudget" | "runner">;

/** What a step does beside its rows. */
interface Kind {
  /** Whether rows enter the draft module's cache. */
  readonly enters: boolean;
  /** Drafts that it makes for each sequence. */
  readonly steps: number;
  /** Whether nothing runs ahead of it. Default false. */
  readonly isAlone?: boolean;
}

const PLAIN: Kind = { enters: false, steps: 0 };

/**
 * Times steps of more and more rows, with and without drafts. Leaves nothing behind but numbers in
 * pages that are free.
 *
 * @throws {DeviceError} when the device is lost.
 */
export async function measureCosts(model: MeasuredModel): Promise<StepCosts> {
  const { draftSteps } = model.options;
  const kinds: readonly Kind[] =
    draftSteps === 0
      ? [PLAIN, { ...PLAIN, isAlone: true }]
      : [PLAIN, { enters: true, steps: 0 }, { enters: true, steps: draftSteps }];
  const target: MeasuredStep[] = [];
  /** What it takes more that rows enter, or that nothing runs ahead. */
  const more: MeasuredStep[] = [];
  const draft: MeasuredStep[] = [];
  const begun = performance.now();
  for (const rows of sizesOf(model)) {
    if (rows > SMALL && performance.now() - begun > BUDGET_MS) break;
    const [plain, other, drafted = other] = await timesOf(model, rows, kinds);
    target.push({ rows, ms: plain! });
    more.push({ rows, ms: atLeast(other! - plain!) });
    const { length } = sequencesOf(model, rows);
    draft.push({ rows: length, ms: atLeast((drafted! - other!) / draftSteps) });
  }
  if (draftSteps === 0) {
    const waiting = new StepCost(more);
    return { target: new StepCost(target), entering: NOTHING, waiting, draft: NOTHING };
  }
  const of = (points: readonly MeasuredStep[]) => new StepCost(ascending(points));
  return { target: of(target), entering: of(more), draft: of(draft) };
}

const NOTHING = new StepCost([]);

/** Measurements scatter: nothing takes less than no time. */
const atLeast = (ms: number) => Math.max(ms, 1e-3);

/** Of several of one size the first. */
function ascending(points: readonly MeasuredStep[]): MeasuredStep[] {
  return points.filter(({ rows }, i) => i === 0 || rows > points[i - 1]!.rows);
}

function sizesOf({ options, memoryBudget }: MeasuredModel): readonly number[] {
  const { maxGeneratedRows, maxDrafts } = options;
  // The rows of a sequence are in the first pages.
  const fits = memoryBudget.cacheTokens > 2 * (1 + maxDrafts);
  return SIZES.filter((rows) => rows === 1 || (fits && rows <= maxGeneratedRows));
}

/** The least time of a step of each kind, in milliseconds. */
async function timesOf(
  model: MeasuredModel,
  rows: number,
  kinds: readonly Kind[],
): Promise<number[]> {
  // These record what is launched.
  for (const kind of kinds) await timeOf(model, rows, kind);
  const least = kinds.map(() => Number.POSITIVE_INFINITY);
  const begun = performance.now();
  for (let round = 0; round < ROUNDS.most; round++) {
    if (round >= ROUNDS.least && performance.now() - begun > ROUNDS.ms) break;
    for (const [i, kind] of kinds.entries()) {
      least[i] = Math.min(least[i]!, await timeOf(model, rows, kind));
    }
  }
  return least;
}

async function timeOf(model: MeasuredModel, rows: number, kind: Kind): Promise<number> {
  const { runner } = model;
  const { batch, drafts } = stepOf(sequencesOf(model, rows), kind);
  const sampled = Array.from(batch.sources, () => ({ sampling: GREEDY, position: 1 }));
  const started = performance.now();
  const submitted = [];
  const together = kind.isAlone ? 1 : TOGETHER;
  for (let i = 0; i < together; i++) {
    submitted.push(await runner.submit(batch, sampled, { drafts }));
  }
  await Promise.all(submitted.flatMap(({ tokens, drafts }) => [tokens, drafts]));
  return (performance.now() - started) / together;
}

/** Sequences that have so many rows together, each about as many, all in the same pages. */
function sequencesOf({ options }: MeasuredModel, rows: number): BatchSequence[] {
  const { maxRunningRequests, pageSize, maxDrafts } = options;
  const count = Math.min(rows, maxRunningRequests);
  const pageTable = Array.from(
    { length: Math.ceil((2 * (1 + maxDrafts)) / pageSize) },
    (_, page) => page,
  );
  let queryStart = 0;
  return Array.from({ length: count }, (_, i) => {
    const queryLength = Math.floor(((i + 1) * rows) / count) - Math.floor((i * rows) / count);
    const phase = queryLength > 1 ? "verify" : "decode";
    const sequence = { phase, queryStart, queryLength, position: 0, pageTable } as const;
    queryStart += queryLength;
    return sequence;
  });
}

function stepOf(sequences: readonly BatchSequence[], { enters, steps }: Kind) {
  const { queryStart, queryLength } = sequences.at(-1)!;
  const rows = queryStart + queryLength;
  // Any tokens: what is drawn is of no interest.
  const sources = new Uint32Array(rows);
  const logitRows = Uint32Array.from(sources, (_, row) => row);
  const plain: Batch = { sequences, sources, logitRows };
  const batch = enters ? { ...plain, nextSources: sources } : plain;
  const drafted = sequences.map(
    (one, sequence): DraftedSequence => ({
      sequence,
      firstLogitRow: one.queryStart,
      logitRows: one.queryLength,
    }),
  );
  return { batch, drafts: steps > 0 ? { steps, sequences: drafted } : undefined };
}
