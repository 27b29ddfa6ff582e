/**
 * Where the time of a step that verifies three drafts goes, beside a step of one row and one that makes
 * the next three: processor time of its launches by part of the step and by kernel, each kind of launch
 * without the others, and of whole steps.
 *
 * @module
 */
import "../support/driver_threads.ts";
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { ExpertCounts } from "../../src/engine/step/expert_counter.ts";
import type { StepOptions } from "../../src/engine/step/step_runner.ts";
import { EMBEDDED_MODEL } from "../../test/support/checkpoints/embedded_model.ts";
import { folderSource } from "../../test/support/checkpoints/folder_source.ts";
import { GREEDY, ModelSession } from "../../test/support/engines/model_session.ts";
import { catchLaunches, kindsOfLaunches, timeKind } from "../support/launch_profile.ts";
import { machine } from "../support/machine.ts";
import { table } from "../support/table.ts";

const DRAFTS = 3;
const ROWS = [1, DRAFTS + 1];
const ROUNDS = 30;
/** Steps that are timed together. */
const AT_ONCE = 10;
/** The start of a chat of the model's own subjects. */
const PROMPT = [0, 2027, 559, 36, 2028];
/** A first token of an answer to it. */
const FIRST = 40;
/** By the folder of a kernel. */
const PARTS: Readonly<Record<string, string>> = {
  moe: "experts",
  linear: "other linears, output head",
  attention: "attention",
  cache: "queries, cache entries",
};
const OTHERS = "norms, tokens";

/** Kernels that take the place of others where several rows share the weights of experts. */
const SAME: Readonly<Record<string, string>> = {
  "moe/route_sort": "moe/route",
  "moe/tile_combine": "moe/expert_combine",
};

/** Processor time in microseconds, by kernel. */
type Times = ReadonlyMap<string, number>;

/** Nanoseconds that this thread has run, which is the host's part of a step; elsewhere unknown. */
const OWN_THREAD = `/proc/self/task/${process.pid}/schedstat`;
const hostTime = () =>
  existsSync(OWN_THREAD) ? Number(readFileSync(OWN_THREAD, "utf8").split(" ")[0]) : Number.NaN;

test("a step of 4 rows beside one of 1, by part", async () => {
  console.log(machine());
  // Attention over drafted rows has a form that a model that verifies none is not given.
  const speculation = { algorithm: "NGRAM", numDraftTokens: DRAFTS + 1 } as const;
  const session = await ModelSession.open(folderSource(EMBEDDED_MODEL), {
    ...{ pageSize: 16, speculation },
  });
  const sequence = session.sequence(PROMPT);
  await session.prefill(sequence);
  // Rows of an answer want the experts that drafts of it do.
  let next = FIRST;
  for (let i = 0; i < Math.max(...ROWS); i++) {
    sequence.tokens.push(next);
    next = (await session.decodeBest([sequence]))[0]!;
  }
  const { runner } = session.loaded;
  const position = PROMPT.length;
  const steps = ROWS.map((count) => async (options: StepOptions = {}) => {
    const sources = Uint32Array.from(sequence.tokens.slice(position, position + count));
    const rows = { queryStart: 0, queryLength: count, position };
    const sequences = [{ phase: "decode" as const, ...rows, pageTable: sequence.pageTable }];
    const logitRows = Uint32Array.from(sources.keys());
    const sampled = [...sources].map((_, i) => ({ sampling: GREEDY, position: position + i + 1 }));
    return runner.run({ sequences, sources, logitRows }, sampled, options);
  });
  const parts: Times[] = [];
  for (const step of steps) {
    parts.push(await kernelsOf(session, () => step()));
    await step({ onExperts: printExperts });
  }
  const drafting = await ModelSession.open(folderSource(EMBEDDED_MODEL), {
    ...{ pageSize: 16, maxDrafts: DRAFTS },
  });
  const drafted = drafting.sequence(sequence.tokens);
  await drafting.draft([{ sequence: drafted, phase: "prefill", count: position }], { steps: 1 });
  const makeDrafts = async () => {
    const rows = { sequence: drafted, phase: "decode" as const, count: DRAFTS + 1 };
    await drafting.draft([rows], { steps: DRAFTS, ahead: 16 });
    drafted.computed = position;
  };
  const whole = await wholeOf([...steps.map((step) => () => step()), makeDrafts]);
  parts.push(await kernelsOf(drafting, makeDrafts));
  // The first row has the same token beside others.
  const [one, four] = [await steps[0]!(), await steps[1]!()];
  expect(four[0]).toBe(one[0]);
  const linesOf = (names: Iterable<string>, times: readonly Times[]) =>
    Array.from(names, (name) =>
      line(
        name,
        times.map((known) => known.get(name) ?? 0),
      ),
    );
  const rows = linesOf([...Object.values(PARTS), OTHERS], parts.map(byPart));
  const sums = parts.map((times) => [...times.values()].reduce((sum, time) => sum + time, 0));
  const of = (which: keyof WholeStep) => whole.map((one) => one[which]);
  rows.push(line("all launches", sums), line("whole steps", of("all")));
  rows.push(line("of them the host's thread", of("host")));
  rows.push(line("the host until it is submitted", of("submitted")));
  const header = ["processor time", "1 row", "4 rows", "and 3 drafts made", "4 rows by 1"];
  console.log(table(header, rows));
  console.log(table(header, linesOf(new Set(parts.flatMap((times) => [...times.keys()])), parts)));
  const [row, verify, withDrafts] = of("all");
  const made = (withDrafts! - verify!) / row! / DRAFTS;
  console.log(`each of ${DRAFTS} drafts made behind them: ${made.toFixed(2)} of a row's step`);
  session.close();
  drafting.close();
}, 300_000);

/** How many experts a layer reads for all rows: their weights are the least that there is to read. */
function printExperts({ layers, counts }: ExpertCounts): void {
  const distinct = counts.filter((count) => count > 0).length / layers.length;
  console.log(`${distinct.toFixed(2)} of ${counts.length / layers.length} experts a layer`);
}

const line = (name: string, times: readonly number[]) => [
  name,
  ...times.map((time) => `${time.toFixed(0)} us`),
  (times[1]! / times[0]!).toFixed(2),
];

/** Times of kernels as those of parts. */
function byPart(times: Times): Times {
  const sums = new Map<string, number>();
  for (const [kernel, time] of times) {
    const part = PARTS[kernel.split("/")[0]!] ?? OTHERS;
    sums.set(part, (sums.get(part) ?? 0) + time);
  }
  return sums;
}

/** What the launches of each kernel take, without the others. */
async function kernelsOf({ loaded }: ModelSession, step: () => Promise<unknown>): Promise<Times> {
  await step();
  const times = new Map<string, number>();
  const launches = await catchLaunches(loaded.runner.recorder, step);
  console.log(`${launches.length} launches`);
  for (const kind of kindsOfLaunches(launches)) {
    // Lists of experts are what a step left there.
    await step();
    const name = kind.label.split(" ")[0]!;
    const kernel = SAME[name] ?? name;
    times.set(kernel, (times.get(kernel) ?? 0) + 1e6 * (await timeKind(kind)).cpuSeconds);
  }
  return times;
}

interface WholeStep {
  /** Microseconds of all threads, and of the host's, which looks over and over whether it has ended. */
  readonly all: number;
  readonly host: number;
  /** From its beginning until it is submitted, by the clock. */
  readonly submitted: number;
}

/** What whole steps take at best, in turns, one after another. */
async function wholeOf(steps: readonly (() => Promise<unknown>)[]): Promise<readonly WholeStep[]> {
  const infinite = Number.POSITIVE_INFINITY;
  const least = steps.map(() => ({ all: infinite, host: infinite, submitted: infinite }));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, step] of steps.entries()) {
      const [before, hostBefore] = [process.cpuUsage(), hostTime()];
      let submitted = infinite;
      for (let n = 0; n < AT_ONCE; n++) {
        const begun = performance.now();
        const done = step();
        submitted = Math.min(submitted, 1000 * (performance.now() - begun));
        await done;
      }
      const { user, system } = process.cpuUsage(before);
      const host = (hostTime() - hostBefore) / 1000 / AT_ONCE;
      const known = least[i]!;
      least[i] = {
        all: Math.min(known.all, (user + system) / AT_ONCE),
        host: Math.min(known.host, host),
        submitted: Math.min(known.submitted, submitted),
      };
    }
  }
  return least;
}
