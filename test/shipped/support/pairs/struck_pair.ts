/**
 * One process of a pair that is killed, frozen, slowed or cut off in some state of a request: what its
 * client saw, what was left on the others, and how long it took.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "../../../support/until.ts";
import { ranksOf } from "../struck_group.ts";
import { type Ending, follow, promptOf, type Seen } from "./asked.ts";
import { ROLES, type Role, type RunningPair } from "./running_pair.ts";
import { PAGES, type Side } from "./watched_pages.ts";

/** How far a request has come. */
export const STATES = [
  ...(["bootstrapping", "waiting for input", "prefill", "pages moving", "finishing"] as const),
  ...(["first token sent", "decoding", "aborting"] as const),
];
export type State = (typeof STATES)[number];

export const STROKES = [
  ...(["killed", "frozen", "frozen for 1 s", "slowed", "cut off", "cut off for 1 s"] as const),
];
export type Stroke = (typeof STROKES)[number];

/** A server, or the rank of one. */
export type Struck = Role | `${"prefill" | "decode"} rank ${0 | 1}`;

export interface Strike {
  readonly struck: Struck;
  readonly stroke: Stroke;
  readonly state: State;
}

export interface Outcome extends Strike {
  readonly client: Ending;
  /** What the error says that it was told. */
  readonly said: string;
  /** Tokens that it got. */
  readonly tokens: number;
  /** From the stroke until the client was told. */
  readonly clientSeconds: number;
  /** From then until nothing was left on the others. */
  readonly restSeconds: number;
  /** From the end of the stroke until the next request was answered. */
  readonly backSeconds: number;
}

export const strikeName = ({ struck, stroke, state }: Strike) =>
  `${struck} ${stroke} while ${state}`;

/** What is asked for in the state, of which the tokens are `right`. */
export interface Question {
  readonly body: object;
  readonly right: readonly number[];
}

export function questionBody(number: number): object {
  const sampling_params = { temperature: 0, ignore_eos: true, max_new_tokens: 120 };
  return { text: promptOf(number), sampling_params };
}

const roleOf = (struck: Struck) => struck.split(" ")[0] as Role;

/** How a state shows: by a message between the servers, the first or second of its type. */
interface Shown {
  readonly from: Side;
  readonly type: string;
  readonly nth: 1 | 2;
  /** Whether the message goes no further before the stroke. */
  readonly isHeld: boolean;
}
const MESSAGES: Partial<Record<State, Shown>> = {
  bootstrapping: { from: "decode", type: "open", nth: 1, isHeld: true },
  "waiting for input": { from: "decode", type: "want", nth: 1, isHeld: true },
  prefill: { from: "decode", type: "want", nth: 1, isHeld: false },
  "pages moving": { from: "prefill", type: PAGES, nth: 2, isHeld: true },
  finishing: { from: "prefill", type: "end", nth: 1, isHeld: true },
  aborting: { from: "prefill", type: PAGES, nth: 2, isHeld: true },
};
/** Or by an event that the client gets. */
const EVENTS: Partial<Record<State, number>> = { "first token sent": 1, decoding: 10 };

/** Milliseconds that a client waits at most, whatever it is told. */
const MOST_TIME = 100_000;
/** Milliseconds of a stroke that ends by itself; nobody but the router could tell its client. */
const SHORT = 1000;
const ROUTER_FROZEN = 3000;
/** Milliseconds that a slowed process runs, and does not. */
const SLOWED = { runs: 10, rests: 90 };

export async function strike(
  pair: RunningPair,
  given: Strike,
  question: Question,
): Promise<Outcome> {
  const { state, stroke } = given;
  const role = roleOf(given.struck);
  const leaving = new AbortController();
  let onReached = () => {};
  const reached = new Promise<void>((resolve) => {
    onReached = resolve;
  });
  watchFor(pair, state, onReached);
  const client = follow(pair.of("router").url, question.body, {
    signal: leaving.signal,
    onEvent: (number) => {
      if (number === EVENTS[state]) onReached();
    },
  });
  await Promise.race([reached, client.then((seen) => endedEarly(given, seen))]);
  if (state === "aborting") leaving.abort();
  const begun = performance.now();
  const struck = beginStroke(pair, given);
  pair.pages.release();
  const seen = await inTime(given, client);
  const clientSeconds = (performance.now() - begun) / 1000;
  requireRight(seen, question);
  // What is frozen or gone cannot say what it holds.
  const canTell = stroke !== "killed" && stroke !== "frozen";
  if (canTell && stroke !== "cut off") await struck.end();
  const restSeconds = await pair.rest(canTell ? ROLES : ROLES.filter((one) => one !== role));
  const ended = performance.now();
  await struck.end();
  await answersAgain(pair, question);
  const backSeconds = (performance.now() - ended) / 1000;
  await pair.rest(ROLES);
  const { ending, said, ids } = seen;
  const times = { clientSeconds, restSeconds, backSeconds };
  return { ...given, client: ending, said, tokens: ids.length, ...times };
}

function watchFor(pair: RunningPair, state: State, onReached: () => void): void {
  const shown = MESSAGES[state];
  let count = 0;
  pair.pages.look = (from, type) => {
    if (from !== shown?.from || type !== shown.type) return "pass";
    count += 1;
    if (count !== shown.nth) return "pass";
    onReached();
    return shown.isHeld ? "hold" : "pass";
  };
}

function endedEarly({ state }: Strike, { ending, said }: Seen): never {
  throw new Error(`Cannot strike while ${state}: the request has ended with ${ending} ${said}`);
}

async function inTime(given: Strike, client: Promise<Seen>): Promise<Seen> {
  const over = new AbortController();
  const hang = sleep(MOST_TIME, undefined, { signal: over.signal }).then((): never => {
    throw new Error(`Cannot see the end of a request, ${strikeName(given)}: it hangs`);
  });
  try {
    return await Promise.race([client, hang]);
  } finally {
    over.abort();
    hang.catch(() => {});
  }
}

/** Whatever happens, no token is wrong, and an answer is whole. */
function requireRight({ ending, ids }: Seen, { right }: Question): void {
  const wanted = ending === "the answer" ? right : right.slice(0, ids.length);
  if (ids.join() !== wanted.join()) {
    throw new Error(`Cannot take ${ending}: its tokens are ${ids}, and ${wanted} are right`);
  }
}

/** Waits until a request is answered as it should be. */
async function answersAgain(pair: RunningPair, question: Question): Promise<void> {
  await until(async () => {
    const seen = await follow(pair.of("router").url, question.body);
    requireRight(seen, question);
    if (seen.ending !== "the answer") throw new Error(`${seen.ending}: ${seen.said}`);
  });
}

interface BegunStroke {
  /** Undoes it, once. */
  end(): Promise<void>;
}

function beginStroke(pair: RunningPair, { struck, stroke }: Strike): BegunStroke {
  const role = roleOf(struck);
  if (stroke === "cut off" || stroke === "cut off for 1 s") {
    const { lines } = pair;
    const cut = role === "router" ? [lines.prefill, lines.decode] : [lines[role], lines.pages];
    for (const line of cut) line.cut();
    const mend = async () => {
      for (const line of cut) line.mend();
    };
    return stroke === "cut off" ? { end: once(mend) } : { end: endedAfter(SHORT, mend) };
  }
  const pid = pidOf(pair, struck);
  if (stroke === "slowed") {
    const slowing = new AbortController();
    const slowed = slow(pid, slowing.signal);
    return {
      end: once(async () => {
        slowing.abort();
        await slowed;
      }),
    };
  }
  process.kill(pid, stroke === "killed" ? "SIGKILL" : "SIGSTOP");
  if (stroke === "killed") return { end: once(() => pair.beginAgain(role)) };
  const goOn = async () => {
    signal(pid, "SIGCONT");
    await pair.serveAgain(role);
  };
  if (stroke === "frozen for 1 s") return { end: endedAfter(SHORT, goOn) };
  return { end: role === "router" ? endedAfter(ROUTER_FROZEN, goOn) : once(goOn) };
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => {
    done ??= work();
    return done;
  };
}

/** Begins to wait at once. */
function endedAfter(milliseconds: number, work: () => Promise<void>): () => Promise<void> {
  const done = sleep(milliseconds).then(work);
  return () => done;
}

/** Until the signal, a process runs for a tenth of the time. */
async function slow(pid: number, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    signal(pid, "SIGSTOP");
    await sleep(SLOWED.rests);
    signal(pid, "SIGCONT");
    await sleep(SLOWED.runs);
  }
}

function pidOf(pair: RunningPair, struck: Struck): number {
  const { pid } = pair.of(roleOf(struck)).process;
  const rank = struck.split(" rank ")[1];
  return rank === undefined ? pid! : ranksOf(pid!)[Number(rank)]!;
}

/** Which may have ended. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // Its launcher has killed it.
  }
}
