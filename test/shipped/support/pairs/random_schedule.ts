/**
 * Requests of all kinds at once, to a router of several servers that are killed, frozen, slowed, cut off,
 * stopped and started meanwhile: what has become of them, and whether anything is wrong.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { seeded } from "../../../support/seeded.ts";
import { ask, type Seen } from "./asked.ts";
import { bitsOf, type Draw, type DrawnRequest, drawnRequest } from "./random_requests.ts";
import { kindOf, type Name, type RunningPair } from "./running_pair.ts";
import { beginStroke, STROKES, type Stroke } from "./stroke.ts";
import { inTime, MOST_TIME } from "./struck_pair.ts";
import type { ComparedPair } from "./tiny_pair.ts";
import { mostWaited, waitedOf } from "./waited_for_processor.ts";

/** A server is told to end, and begins again: its requests have time to end. */
type Fault = Stroke | "restarted" | "late messages";

interface DrawnFault {
  /** Milliseconds behind the beginning of all, and until it is undone. */
  readonly at: number;
  readonly lasts: number;
  readonly name: Name;
  readonly fault: Fault;
}

export interface Schedule {
  readonly requests: readonly DrawnRequest[];
  readonly faults: readonly DrawnFault[];
}

const FAULTS: readonly Fault[] = [...STROKES, "restarted", "late messages"];

export function drawnSchedule(seed: number, names: readonly Name[]): Schedule {
  const random = seeded(seed);
  const draw: Draw = (count) => Math.floor(random() * count);
  const requests = Array.from({ length: 2 + draw(5) }, (_, i) =>
    drawnRequest(draw, `schedule-${seed}-${i}`),
  );
  // The router itself ends seldom: all of its clients see that.
  const servers = names.filter((name) => name !== "router");
  const faults = Array.from({ length: draw(3) }, (): DrawnFault => {
    const name = draw(12) === 0 ? "router" : servers[draw(servers.length)]!;
    return { at: draw(1200), lasts: 100 + draw(2500), name, fault: FAULTS[draw(FAULTS.length)]! };
  });
  const first = faults[0];
  // A process has one at a time.
  return { requests, faults: faults.filter((one) => one === first || one.name !== first?.name) };
}

export interface ScheduleCounts {
  schedules: number;
  /** The last seed that was taken: a campaign that was stopped goes on behind it. */
  begun: number;
  /** Schedules without a fault: all that stayed must be answered. */
  calm: number;
  requests: number;
  /** Requests by how they ended. */
  endings: Record<string, number>;
  faults: Record<string, number>;
  /** Schedules that were run once more: a request missed a deadline while a process waited for longer. */
  late: number;
  /** What is not as it must be: its schedule is not counted, and the next campaign begins with it. */
  failures: Failure[];
}

export interface Failure {
  readonly seed: number;
  readonly problem: string;
}

export const noCounts = (): ScheduleCounts => ({
  ...{ schedules: 0, begun: 0, calm: 0, requests: 0, endings: {}, faults: {}, late: 0 },
  failures: [],
});

const count = (counts: Record<string, number>, name: string) => {
  counts[name] = (counts[name] ?? 0) + 1;
};

/**
 * Seconds that a thread has waited for the processor where a request is late for load alone: the shortest
 * deadline of a program, and half of what a client waits.
 */
const LOAD = { ofPrograms: 2, ofClients: MOST_TIME / 2000 };
/** How often a schedule is run whose requests are late for load alone. */
const MOST_RUNS = 20;

/**
 * Runs a schedule, and counts what has come of it. Afterwards all serve, and nothing is left. It runs
 * once more where requests have missed deadlines and a process has waited for longer for the processor.
 *
 * @throws {Error} that says what is not as it must be.
 */
export async function runSchedule(
  compared: ComparedPair,
  seed: number,
  counts: ScheduleCounts,
): Promise<void> {
  const { requests, faults } = drawnSchedule(seed, compared.pair.names);
  for (let run = 1; ; run++) {
    const { seen, problems, waited } = await seeSchedule(compared, { requests, faults });
    const isLate = ({ deadline }: Problem) => deadline !== undefined && waited >= deadline;
    if (run < MOST_RUNS && problems.length > 0 && problems.every(isLate)) {
      counts.late += 1;
      continue;
    }
    if (problems.length > 0) throw new Error(problems.map(({ text }) => text).join("; "));
    counts.requests += seen.length;
    for (const { ending } of seen) count(counts.endings, ending);
    break;
  }
  for (const { fault, name } of faults) count(counts.faults, `${kindOf(name)} ${fault}`);
  if (faults.length === 0) counts.calm += 1;
  counts.schedules += 1;
}

interface SeenSchedule {
  /** Of each request that has ended: what its client saw. */
  readonly seen: readonly Seen[];
  readonly problems: readonly Problem[];
  /** Seconds that a thread of the pair has waited for the processor. */
  readonly waited: number;
}

async function seeSchedule(
  { pair, alone }: ComparedPair,
  { requests, faults }: Schedule,
): Promise<SeenSchedule> {
  const before = waitedOf([process.pid, ...pair.pids]);
  const right = Promise.all(requests.map(({ body }) => ask(alone.url, body)));
  const begun = requests.map((request) => begin(pair, request));
  const undone = Promise.all(faults.map((fault) => disturb(pair, fault)));
  const ended = await Promise.all(
    begun.map((one, i) => inTime(one, `${i}`).catch((error: Error) => error)),
  );
  await undone;
  for (const pages of pair.pages) pages.release();
  const waited = mostWaited(before, waitedOf([process.pid, ...pair.pids]));
  const isCalm = faults.length === 0;
  const answers = await right;
  const problems = ended.flatMap((one, i) => {
    const problem =
      one instanceof Error
        ? { text: one.message, deadline: LOAD.ofClients }
        : problemOf(one, answers[i]!, requests[i]!, isCalm);
    return problem === undefined ? [] : [{ ...problem, text: `request ${i}: ${problem.text}` }];
  });
  await pair.rest(pair.names);
  const seen = ended.filter((one): one is Seen => !(one instanceof Error));
  return { seen, problems, waited };
}

async function begin(pair: RunningPair, { at, body, leaving }: DrawnRequest): Promise<Seen> {
  await sleep(at);
  const { url } = pair.of("router");
  const left = new AbortController();
  const asked = ask(url, body, { signal: left.signal });
  if (leaving.how === "stays") return asked;
  await Promise.race([asked, sleep(leaving.after)]);
  if (leaving.how === "leaves") left.abort();
  else {
    const { rid } = body as { readonly rid: string };
    const headers = { "content-type": "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify({ rid }) };
    // The router may be away.
    await fetch(`${url}/abort_request`, init).catch(() => {});
  }
  return asked;
}

async function disturb(pair: RunningPair, { at, lasts, name, fault }: DrawnFault): Promise<void> {
  await sleep(at);
  if (fault === "late messages") {
    for (const pages of pair.pages) pages.delay = () => 20;
    await sleep(lasts);
    return;
  }
  if (fault === "restarted") {
    pair.of(name).process.kill("SIGTERM");
    await pair.beginAgain(name);
    return;
  }
  const stroke = beginStroke(pair, name, fault);
  await sleep(lasts);
  await stroke.end();
}

interface Problem {
  readonly text: string;
  /** Seconds that a process has to wait for the processor for it to be no fault; undefined where it is one. */
  readonly deadline?: number;
}

/** What is wrong with how a request ended. */
function problemOf(
  { ending, said, answers }: Seen,
  { ending: rightEnding, answers: right }: Seen,
  { leaving }: DrawnRequest,
  isCalm: boolean,
): Problem | undefined {
  if (rightEnding !== "the answer") return { text: `one server alone ends with ${rightEnding}` };
  const isWhole = ending === "the answer" && leaving.how !== "aborts";
  if (isCalm && leaving.how === "stays" && !isWhole) {
    return { text: `it ends with ${ending}: ${said}`, deadline: LOAD.ofPrograms };
  }
  if (isWhole && !isDeepStrictEqual(answers.map(bitsOf), right.map(bitsOf))) {
    const text = `its answer is ${JSON.stringify(answers)}, and ${JSON.stringify(right)} is right`;
    return { text };
  }
  for (const [i, one] of answers.entries()) {
    const whole = right[i]?.output_ids ?? [];
    const came = one?.output_ids ?? [];
    if (came.join() !== whole.slice(0, came.length).join()) {
      return { text: `answer ${i} has the tokens ${came}, and ${whole} are right` };
    }
  }
  return undefined;
}
