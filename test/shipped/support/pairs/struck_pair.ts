/**
 * One process of a pair that is killed, frozen, slowed or cut off in some state of a request: what its
 * client saw, what was left on the others, and how long it took.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "../../../support/until.ts";
import { ask, type Ending, idsOf, promptOf, type Seen } from "./asked.ts";
import { LOOK, type RunningPair } from "./running_pair.ts";
import { beginStroke, nameOf, type Stroke, type Struck } from "./stroke.ts";
import { PAGES, type Side } from "./watched_pages.ts";

/** How far a request has come. */
export const STATES = [
  ...(["bootstrapping", "waiting for input", "prefill", "pages moving", "finishing"] as const),
  ...(["first token sent", "decoding", "aborting"] as const),
];
export type State = (typeof STATES)[number];

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
  /** From when all serve again until the next request was answered. */
  readonly backSeconds: number;
}

export const strikeName = ({ struck, stroke, state }: Strike) =>
  `${struck} ${stroke} while ${state}`;

/** What is asked for, of which the tokens are `right`. */
export interface Question {
  readonly body: object;
  readonly right: readonly number[];
}

export function questionBody(number: number): object {
  const sampling_params = { temperature: 0, ignore_eos: true, max_new_tokens: 300 };
  return { text: promptOf(number), sampling_params, stream: true };
}

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
export const MOST_TIME = 100_000;

export async function strike(
  pair: RunningPair,
  given: Strike,
  question: Question,
): Promise<Outcome> {
  const { state, stroke, struck } = given;
  const leaving = new AbortController();
  let onReached = () => {};
  const reached = new Promise<void>((resolve) => {
    onReached = resolve;
  });
  watchFor(pair, state, onReached);
  const client = ask(pair.of("router").url, question.body, {
    signal: leaving.signal,
    onEvent: (number) => {
      if (number === EVENTS[state]) onReached();
    },
  });
  await Promise.race([reached, client.then((seen) => endedEarly(given, seen))]);
  if (state === "aborting") leaving.abort();
  const begun = performance.now();
  const begunStroke = beginStroke(pair, struck, stroke);
  for (const pages of pair.pages) pages.release();
  const seen = await inTime(client, strikeName(given));
  const clientSeconds = (performance.now() - begun) / 1000;
  requireRight(seen, question);
  // What is frozen or gone cannot say what it holds.
  const canTell = stroke !== "killed" && stroke !== "frozen";
  if (canTell && stroke !== "cut off") await begunStroke.end();
  const others = pair.names.filter((one) => one !== nameOf(struck));
  const restSeconds = await pair.rest(canTell ? pair.names : others);
  await begunStroke.end();
  const ended = performance.now();
  await answersAgain(pair, question);
  const backSeconds = (performance.now() - ended) / 1000;
  await pair.rest(pair.names);
  const times = { clientSeconds, restSeconds, backSeconds };
  const { ending, said } = seen;
  return { ...given, client: ending, said, tokens: idsOf(seen).length, ...times };
}

function watchFor(pair: RunningPair, state: State, onReached: () => void): void {
  const shown = MESSAGES[state];
  let count = 0;
  pair.pagesOf("prefill").look = (from, type) => {
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

/** @throws {Error} where a client hangs. */
export async function inTime<T>(client: Promise<T>, what: string): Promise<T> {
  const over = new AbortController();
  const hang = sleep(MOST_TIME, undefined, { signal: over.signal }).then((): never => {
    throw new Error(`Cannot see the end of a request, ${what}: it hangs`);
  });
  hang.catch(() => {});
  try {
    return await Promise.race([client, hang]);
  } finally {
    over.abort();
  }
}

/** Whatever happens, no token is wrong, and an answer is whole. */
function requireRight(seen: Seen, { right }: Question): void {
  const ids = idsOf(seen);
  const wanted = seen.ending === "the answer" ? right : right.slice(0, ids.length);
  if (ids.join() !== wanted.join()) {
    throw new Error(`Cannot take ${seen.ending}: its tokens are ${ids}, and ${wanted} are right`);
  }
}

/** Tokens of the request that shows that all serve again. */
const AGAIN = 30;

/** Waits until a request is answered as it should be. */
async function answersAgain(pair: RunningPair, { body, right }: Question): Promise<void> {
  const { sampling_params } = body as { readonly sampling_params: object };
  const short = { ...body, sampling_params: { ...sampling_params, max_new_tokens: AGAIN } };
  const question = { body: short, right: right.slice(0, AGAIN) };
  await until(async () => {
    const seen = await ask(pair.of("router").url, short);
    requireRight(seen, question);
    if (seen.ending !== "the answer") throw new Error(`${seen.ending}: ${seen.said}`);
  }, LOOK);
}
