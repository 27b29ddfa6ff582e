/**
 * What may happen to a process of a pair, until it is undone.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";
import { ranksOf } from "../struck_group.ts";
import { kindOf, type Name, type RunningPair } from "./running_pair.ts";

export const STROKES = [
  ...(["killed", "frozen", "frozen for 1 s", "slowed", "cut off", "cut off for 1 s"] as const),
];
export type Stroke = (typeof STROKES)[number];

/** A program, or a rank of a server. */
export type Struck = Name | `${"prefill" | "decode"} rank ${0 | 1}`;

/** Milliseconds of a stroke that ends by itself; of the router its client hears meanwhile nothing. */
const SHORT = 1000;
const ROUTER_FROZEN = 3000;
/** Milliseconds that a slowed process runs, and does not. */
const SLOWED = { runs: 10, rests: 90 };

export interface BegunStroke {
  /** Undoes it, once: resolves when all serve again. */
  end(): Promise<void>;
}

/** Whose process it is. */
export const nameOf = (struck: Struck): Name =>
  struck.includes(" rank ") ? (kindOf(struck) as Name) : (struck as Name);

export function beginStroke(pair: RunningPair, struck: Struck, stroke: Stroke): BegunStroke {
  const name = nameOf(struck);
  if (stroke === "cut off" || stroke === "cut off for 1 s") {
    const lines = pair.linesOf(name);
    for (const line of lines) line.cut();
    const mend = async () => {
      for (const line of lines) line.mend();
    };
    return { end: stroke === "cut off" ? once(mend) : endedAfter(SHORT, mend) };
  }
  const pid = pidOf(pair, struck);
  if (stroke === "slowed") {
    const over = new AbortController();
    const slowed = slow(pid, over.signal);
    const end = async () => {
      over.abort();
      await slowed;
    };
    return { end: once(end) };
  }
  process.kill(pid, stroke === "killed" ? "SIGKILL" : "SIGSTOP");
  if (stroke === "killed") return { end: once(() => pair.beginAgain(name)) };
  const goOn = async () => {
    signal(pid, "SIGCONT");
    await pair.serveAgain(name);
  };
  if (stroke === "frozen for 1 s") return { end: endedAfter(SHORT, goOn) };
  return { end: name === "router" ? endedAfter(ROUTER_FROZEN, goOn) : once(goOn) };
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
  const { pid } = pair.of(nameOf(struck)).process;
  const rank = struck.split(" rank ")[1];
  return rank === undefined ? pid! : ranksOf(pid!)[Number(rank)]!;
}

/** To a process that may have ended. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // Its launcher has killed it.
  }
}
