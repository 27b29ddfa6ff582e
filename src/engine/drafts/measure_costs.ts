/**
 * What steps of a loaded model take, by their rows: measured on it while nothing is in its cache.
 *
 * Rows are those of generated tokens with a short context, each of another token, as experts that rows
 * share are read once. Steps are submitted as the engine does, one behind the other; of several times the
 * least one counts, as others of the machine's work only add to it. A size is measured step after step, as
 * a step of a few rows takes longer behind one of many, and later once more, so that such work does not
 * meet all of its steps. Sizes get larger until they take too long to be measured, and what is beyond
 * them is reckoned.
 *
 * @module
 */

import type { Batch, BatchSequence, DraftedSequence } from "../../layers/batch.ts";
import { type MeasuredStep, StepCost, type StepCosts } from "../../speculation/step_costs.ts";
import type { EngineModel } from "../ranks/engine_model.ts";

/** Rows of the steps that are measured. A step of more than the last is hardly ever worth drafts. */
const SIZES = [1, 2, 4, 16, 64, 256];
/**
 * Measured too where steps are short: kernels take rows in blocks of 4, 8 or so, so that one row more
 * than a block has takes as long as another block.
 */
const FINE_SIZES = [5, 8, 9, 12];
/** What one step of each size up to `SMALL` may take for that. */
const FINE_MS = 500;
/** Sizes up to this are measured however long it takes, larger ones for so many milliseconds in all. */
const SMALL = 16;
const BUDGET_MS = 300;
/** Times that all sizes are measured. */
const PASSES = 2;
/** Times that a step is measured in each of them: so many at most, and how long that may take. */
const ROUNDS = { most: 3, ms: 25 };
/** Puts rows' tokens far from each other. */
const TOKEN_STRIDE = 7919;
/** Steps that are in flight together, where they run ahead. */
const TOGETHER = 2;

const GREEDY = { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 };

export type MeasuredModel = Pick<EngineModel, "options" | "memoryBudget" | "definition" | "runner">;

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
  const sizes = sizesOf(model);
  const times = await timesOfSmall(model, sizes, kinds);
  const begun = performance.now();
  for (const rows of sizes.filter((size) => size > SMALL)) {
    if (performance.now() - begun > BUDGET_MS) break;
    await recordLaunches(model, [rows], kinds);
    for (const one of await timesOf(model, [rows], kinds)) times.push(one);
  }
  if (draftSteps === 0) return { ...hostCosts(times), entering: NOTHING, draft: NOTHING };
  const target: MeasuredStep[] = [];
  /** What it takes more that rows enter. */
  const more: MeasuredStep[] = [];
  const draft: MeasuredStep[] = [];
  for (const { rows, ms } of times) {
    const [plain, other, drafted] = ms;
    target.push({ rows, ms: plain! });
    more.push({ rows, ms: atLeast(other! - plain!) });
    const { length } = sequencesOf(model, rows);
    draft.push({ rows: length, ms: atLeast((drafted! - other!) / draftSteps) });
  }
  const of = (points: readonly MeasuredStep[]) => new StepCost(ascending(points));
  return { target: of(target), entering: of(more), draft: of(draft) };
}

const NOTHING = new StepCost([]);

/** Measurements scatter: nothing takes less than no time. */
const atLeast = (ms: number) => Math.max(ms, 1e-3);

/**
 * Of steps two by two and alone: the host's part of the first one is never hidden, and all of it where
 * nothing runs ahead.
 */
function hostCosts(times: readonly Times[]): Pick<StepCosts, "target" | "waiting"> {
  const target: MeasuredStep[] = [];
  const waiting: MeasuredStep[] = [];
  for (const { rows, ms } of times) {
    const [together, alone] = ms;
    const own = Math.max(2 * together! - Math.max(alone!, together!), together! / 2);
    target.push({ rows, ms: own });
    waiting.push({ rows, ms: atLeast(alone! - own) });
  }
  return { target: new StepCost(target), waiting: new StepCost(waiting) };
}

/** Of several of one size the first. */
function ascending(points: readonly MeasuredStep[]): MeasuredStep[] {
  return points.filter(({ rows }, i) => i === 0 || rows > points[i - 1]!.rows);
}

function sizesOf(model: MeasuredModel): readonly number[] {
  const { maxGeneratedRows, maxDrafts } = model.options;
  const most = Math.min(maxGeneratedRows, mostSequences(model) * (1 + maxDrafts));
  return SIZES.filter((rows) => rows === 1 || rows <= most);
}

/** Pages that the rows and drafts of a sequence take. */
function pagesOfOne({ options: { maxDrafts, pageSize } }: MeasuredModel): number {
  return Math.ceil((2 * (1 + maxDrafts)) / pageSize);
}

/** As many as the cache holds, each in pages of its own. */
function mostSequences(model: MeasuredModel): number {
  const { options, memoryBudget } = model;
  const room = Math.floor(memoryBudget.cacheTokens / (pagesOfOne(model) * options.pageSize));
  return Math.min(options.maxRunningRequests, room);
}

/** What a step of one size takes, by its kind, in milliseconds. */
interface Times {
  readonly rows: number;
  readonly ms: readonly number[];
}

async function timesOfSmall(
  model: MeasuredModel,
  all: readonly number[],
  kinds: readonly Kind[],
): Promise<Times[]> {
  const small = all.filter((rows) => rows <= SMALL);
  const begun = performance.now();
  await recordLaunches(model, small, kinds);
  const isShort = performance.now() - begun < FINE_MS;
  const fine = isShort ? FINE_SIZES.filter((rows) => rows < small.at(-1)!) : [];
  await recordLaunches(model, fine, kinds);
  const sizes = [...small, ...fine].sort((a, b) => a - b);
  return timesOf(model, sizes, kinds);
}

/** The first steps of a size take longer. */
async function recordLaunches(
  model: MeasuredModel,
  sizes: readonly number[],
  kinds: readonly Kind[],
): Promise<void> {
  for (const rows of sizes) for (const kind of kinds) await timeOf(model, rows, kind);
}

/** The least time of a step of each size and kind. */
async function timesOf(
  model: MeasuredModel,
  sizes: readonly number[],
  kinds: readonly Kind[],
): Promise<Times[]> {
  const times = sizes.map((rows) => ({ rows, ms: kinds.map(() => Number.POSITIVE_INFINITY) }));
  for (let pass = 0; pass < PASSES; pass++) {
    for (const { rows, ms } of times) {
      const begun = performance.now();
      for (let round = 0; round < ROUNDS.most; round++) {
        if (round > 0 && performance.now() - begun > ROUNDS.ms) break;
        for (const [i, kind] of kinds.entries()) {
          ms[i] = Math.min(ms[i]!, await timeOf(model, rows, kind));
        }
      }
    }
  }
  return times;
}

async function timeOf(model: MeasuredModel, rows: number, kind: Kind): Promise<number> {
  const { runner, definition } = model;
  const { vocabularySize } = definition.shape;
  const sources = Uint32Array.from({ length: rows }, (_, i) => (i * TOKEN_STRIDE) % vocabularySize);
  const { batch, drafts } = stepOf(sequencesOf(model, rows), sources, kind);
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

/**
 * Sequences that have so many rows together, each about as many. Each has pages of its own: of rows that
 * were written to one place any could be there, and ranks that read another one each would part.
 */
function sequencesOf(model: MeasuredModel, rows: number): BatchSequence[] {
  const count = Math.max(1, Math.min(rows, mostSequences(model)));
  const pages = pagesOfOne(model);
  let queryStart = 0;
  return Array.from({ length: count }, (_, i) => {
    const queryLength = Math.floor(((i + 1) * rows) / count) - Math.floor((i * rows) / count);
    const phase = queryLength > 1 ? "verify" : "decode";
    const pageTable = Array.from({ length: pages }, (_, page) => i * pages + page);
    const sequence = { phase, queryStart, queryLength, position: 0, pageTable } as const;
    queryStart += queryLength;
    return sequence;
  });
}

function stepOf(
  sequences: readonly BatchSequence[],
  sources: Uint32Array<ArrayBuffer>,
  { enters, steps }: Kind,
) {
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
