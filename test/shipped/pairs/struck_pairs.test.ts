/**
 * Each process of a pair that is killed, frozen, slowed or cut off in each state of a request: a client
 * gets the answer or is told by a typed error in time, no token is wrong, and nothing is left.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { table } from "../../../bench/support/table.ts";
import { syntheticSource, writeFolder } from "../../support/synthetic/source.ts";
import { tinyLlama } from "../../support/synthetic/tiny_models.ts";
import { follow } from "../support/pairs/asked.ts";
import { ROLES, RunningPair } from "../support/pairs/running_pair.ts";
import {
  type Outcome,
  questionBody,
  STATES,
  STROKES,
  type Strike,
  strike,
  strikeName,
} from "../support/pairs/struck_pair.ts";
import { adapterName, type ServingWisp, scratch, serveWisp, stopAll } from "../support/wisp.ts";

const isFull = process.env.WISP_TEST_FULL === "1";

const ALL: readonly Strike[] = ROLES.flatMap((struck) =>
  STROKES.flatMap((stroke) => STATES.map((state) => ({ struck, stroke, state }))),
);
const SHORT: readonly Strike[] = [
  { struck: "decode", stroke: "frozen", state: "decoding" },
  { struck: "prefill", stroke: "killed", state: "pages moving" },
];

/** Seconds that a machine under load takes longer. */
const LOAD = 30;

let alone: ServingWisp;
let pair: RunningPair;
const outcomes: Outcome[] = [];

beforeAll(async () => {
  const folder = scratch("one-layer");
  await writeFolder(syntheticSource(tinyLlama(), 5), folder);
  const model = ["--model-path", folder, "--adapter", adapterName()];
  const length = ["--context-length", "2048", "--page-size", "4", "--random-seed", "7"];
  [alone, pair] = await Promise.all([
    serveWisp([...model, ...length, "--max-total-tokens", "8192"]),
    RunningPair.start({ model }),
  ]);
});
afterAll(async () => {
  await stopAll();
  await pair?.close();
  if (outcomes.length === 0) return;
  const rows = outcomes.map((one) => [
    ...[one.struck, one.stroke, one.state, one.client, `${one.tokens}`],
    ...[one.clientSeconds, one.restSeconds, one.backSeconds].map((value) => value.toFixed(1)),
    one.said.slice(0, 200),
  ]);
  const head = ["process", "stroke", "state", "client", "tokens", "after s", "rest s", "back s"];
  console.log(table([...head, "said"], rows));
});

let number = 0;

describe("of a pair", () => {
  test.each((isFull ? ALL : SHORT).map((given) => [strikeName(given), given] as const))(
    "%s",
    async (_, given) => {
      number += 1;
      const body = questionBody(number);
      const { ids: right } = await follow(alone.url, body);
      expect(right.length).toBeGreaterThan(0);
      const outcome = await strike(pair, given, { body, right });
      outcomes.push(outcome);
      expect(outcome.clientSeconds).toBeLessThan(limitOf(given) + LOAD);
      expect(outcome.restSeconds).toBeLessThan(limitOf(given) + LOAD);
      requireTold(outcome);
    },
  );
});

/** Seconds: three signs of life or three checks are missing, or the connection ends. */
function limitOf({ stroke }: Strike): number {
  return stroke === "killed" ? 2 : 10;
}

function requireTold({ struck, stroke, state, client }: Outcome): void {
  const told = ["the answer", "status 500", "status 502", "status 503", "event with 502"];
  // Nobody is left that could tell.
  const isTold = struck === "router" && stroke === "killed" ? ["a broken connection"] : told;
  expect(state === "aborting" ? ["it left"] : isTold).toContain(client);
}
