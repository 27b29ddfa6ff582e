/**
 * Each kind of process of a group, killed and frozen in each state: a client gets a typed error or a
 * broken connection in time, the launchers that are left say what is missing by their exit codes, and
 * no process is left.
 */
import { afterAll, describe, expect, test } from "vitest";
import { table } from "../../../bench/support/table.ts";
import { lackOfMpi, tellLack } from "../../support/mpi/processes.ts";
import {
  type Outcome,
  PROCESSES,
  START_SECONDS,
  STATES,
  type Strike,
  strike,
} from "../support/struck_group.ts";
import { adapterName, stopAll } from "../support/wisp.ts";

const lack = lackOfMpi();
tellLack(lack);
const isFull = process.env.WISP_TEST_FULL === "1";

const OPTIONS = [
  ...["--adapter", adapterName(), "--context-length", "2048", "--max-total-tokens", "2048"],
  ...["--chunked-prefill-size", "8", "--page-size", "4"],
];

const ALL: readonly Strike[] = (["SIGKILL", "SIGSTOP"] as const).flatMap((signal) =>
  STATES.flatMap((state) => PROCESSES.map((process) => ({ state, process, signal }))),
);
const SHORT: readonly Strike[] = [
  { state: "loading", process: "rank 1", signal: "SIGKILL" },
  { state: "decode", process: "rank 0", signal: "SIGKILL" },
  { state: "draining", process: "launcher 1", signal: "SIGSTOP" },
];
/** Of two attention groups of a rank each, of which a request has one and every step both. */
const GROUPS = [...OPTIONS, "--dp-size", "2", "--enable-dp-attention"];
const OF_GROUPS = ALL.filter(({ state }) => ["idle", "prefill", "decode"].includes(state));
const SHORT_OF_GROUPS: readonly Strike[] = [
  { state: "decode", process: "rank 1", signal: "SIGKILL" },
  { state: "idle", process: "launcher 1", signal: "SIGSTOP" },
];

/** Seconds that a machine under load takes longer than the launchers. */
const LOAD = 30;
/** A group ends within a second of a SIGKILL, where other work leaves it a core: in one of so many tries. */
const TRIES = 6;
/** Seconds from the signal to the end of all others, at most. */
function limitOf({ process, signal, state }: Strike): number {
  if (signal === "SIGKILL") return 1 + LOAD;
  // Three signs of life, two seconds apart.
  if (process.startsWith("launcher")) return 8 + LOAD;
  if (state === "starting" || state === "loading") return START_SECONDS + LOAD;
  // The deadline of an exchange; behind it what a server still waits for.
  return 36 + LOAD;
}

const outcomes: Outcome[] = [];
afterAll(async () => {
  await stopAll();
  if (outcomes.length === 0) return;
  const seconds = (value: number | undefined) => value?.toFixed(1) ?? "";
  const rows = outcomes.map((one) => [
    ...[one.signal, one.state, one.process, one.client, seconds(one.clientSeconds)],
    ...[seconds(one.seconds), one.codes.join(", "), one.said.slice(0, 160)],
  ]);
  const head = ["signal", "state", "process", "client", "after s", "others end s", "codes", "said"];
  console.log(table(head, rows));
});

describe.skipIf(lack !== undefined).each([
  ["two nodes", OPTIONS, isFull ? ALL : SHORT],
  ["two nodes, of attention groups", GROUPS, isFull ? OF_GROUPS : SHORT_OF_GROUPS],
])("of a group of %s", (_, options, cases) => {
  test.each(cases)("$process, $signal while $state", async (given) => {
    let outcome = await strike(options, given);
    requireOrder(given, outcome);
    if (given.signal === "SIGKILL") {
      for (let tries = 1; outcome.seconds >= 1 && tries < TRIES; tries++) {
        const next = await strike(options, given);
        requireOrder(given, next);
        if (next.seconds < outcome.seconds) outcome = next;
      }
      expect(outcome.seconds).toBeLessThan(1);
    }
    outcomes.push(outcome);
  });
});

/** Whatever the machine does besides: nothing is left, codes and clients say what has happened. */
function requireOrder(given: Strike, outcome: Outcome): void {
  const { client, codes, left } = outcome;
  expect(left).toEqual([]);
  expect(outcome.seconds).toBeLessThan(limitOf(given));
  const isServer = given.process === "launcher 0";
  // A launcher that is killed has no code; others say that the group is lost, or did not start.
  const struck = given.process === "launcher 1" ? 1 : isServer ? 0 : undefined;
  for (const [node, code] of codes.entries()) {
    if (node === struck && given.signal === "SIGKILL") expect(code).toBeNull();
    // Ranks that exchange may have done their work while their launcher was frozen.
    else expect(given.state === "exchange" ? [0, 3, 4] : [3, 4]).toContain(code);
  }
  if (["starting", "loading", "exchange"].includes(given.state)) return;
  if (given.state === "idle" && given.signal === "SIGKILL") return;
  // Before the first token there is no stream yet.
  const typed = ["status 503", "event with 503"];
  // Ranks finish what runs while their launcher is frozen.
  if (given.state === "draining" && given.signal === "SIGSTOP") typed.push("the whole answer");
  expect(isServer ? [...typed, "a broken connection"] : typed).toContain(client);
  if (!isServer) expect(outcome.clientSeconds).toBeLessThan(limitOf(given));
}
