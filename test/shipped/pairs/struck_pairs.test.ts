/**
 * Each process of a pair that is killed, frozen, slowed or cut off in each state of a request: a client
 * gets the answer or is told by a typed error in time, no token is wrong, and nothing is left.
 *
 * `WISP_CAMPAIGN=1` goes through all of it, goes on where it was stopped, and keeps what clients saw in
 * bench/results; a larger number says how many pairs are struck side by side.
 */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { table } from "../../../bench/support/table.ts";
import { lackOfMpi, tellLack } from "../../support/mpi/processes.ts";
import { ask, idsOf } from "../support/pairs/asked.ts";
import { ComparedPairs } from "../support/pairs/compared_pairs.ts";
import { keepResult, keptResults } from "../support/pairs/kept_results.ts";
import { STROKES, type Stroke, type Struck } from "../support/pairs/stroke.ts";
import {
  type Outcome,
  questionBody,
  STATES,
  type Strike,
  strike,
  strikeName,
} from "../support/pairs/struck_pair.ts";
import { type ComparedPair, tinyModel } from "../support/pairs/tiny_pair.ts";
import { mostWaited, waitedOf } from "../support/pairs/waited_for_processor.ts";
import { PAGES } from "../support/pairs/watched_pages.ts";
import { stopAll } from "../support/wisp.ts";

/** Pairs that are struck at once in a campaign; otherwise there is none. */
const lanes = Number(process.env.WISP_CAMPAIGN ?? 0);
const isCampaign = lanes > 0;
/** Those that wait for a pair wait for others. */
const TIME = isCampaign ? 24 * 3_600_000 : undefined;
const isFull = process.env.WISP_TEST_FULL === "1" || isCampaign;
const RESULTS = fileURLToPath(
  new URL("../../../bench/results/disaggregation_failures.json", import.meta.url),
);

const SERVERS = ["decode", "prefill", "router"] as const;
const RANKS = ["prefill rank 0", "prefill rank 1", "decode rank 0", "decode rank 1"] as const;
const all = (processes: readonly Struck[], strokes: readonly Stroke[]): readonly Strike[] =>
  strokes.flatMap((stroke) =>
    STATES.flatMap((state) => processes.map((struck) => ({ struck, stroke, state }))),
  );
const SHORT: readonly Strike[] = [
  { struck: "decode", stroke: "frozen", state: "decoding" },
  { struck: "prefill", stroke: "killed", state: "pages moving" },
];

const kept: Record<string, Outcome> = isCampaign ? { ...keptResults<Outcome>(RESULTS) } : {};
const isDone = (given: Strike) => strikeName(given) in kept;
const OF_SERVERS = (isFull ? all(SERVERS, STROKES) : SHORT).filter((one) => !isDone(one));
const OF_RANKS = (isFull ? all(RANKS, ["killed", "frozen", "slowed"]) : []).filter(
  (one) => !isDone(one),
);

/** Seconds that a machine under load takes longer, beside those that processes wait for the processor. */
const LOAD = 30;

afterAll(() => {
  const rows = Object.values(kept).map((one) => [
    ...[one.struck, one.stroke, one.state, one.client, `${one.tokens}`],
    ...[one.clientSeconds, one.restSeconds, one.backSeconds].map((value) => value.toFixed(1)),
    one.said.slice(0, 200),
  ]);
  const head = ["process", "stroke", "state", "client", "tokens", "after s", "rest s", "back s"];
  if (rows.length > 0) console.log(table([...head, "said"], rows));
});

/** Another one at each call, so that its pages have to travel. */
let asked = 0;
async function question({ alone }: ComparedPair) {
  asked += 1;
  const body = questionBody(asked);
  const right = idsOf(await ask(alone.url, body));
  expect(right.length).toBeGreaterThan(0);
  return { body, right };
}

/** Side by side where there are several pairs. */
const testOfPair = lanes > 1 ? test.concurrent : test;

async function requireOrder(compared: ComparedPair, given: Strike): Promise<void> {
  const { pair } = compared;
  const asked = await question(compared);
  const before = waitedOf([process.pid, ...pair.pids]);
  const outcome = await strike(pair, given, asked);
  const waited = mostWaited(before, waitedOf([process.pid, ...pair.pids]));
  expect(outcome.clientSeconds).toBeLessThan(limitOf(given) + LOAD + waited);
  expect(outcome.restSeconds).toBeLessThan(limitOf(given) + LOAD + waited);
  requireTold(outcome);
  kept[strikeName(given)] = outcome;
  if (isCampaign) keepResult(RESULTS, strikeName(given), outcome);
}

/** Seconds: three signs of life or three checks are missing, or the connection ends. */
function limitOf({ struck, stroke }: Strike): number {
  if (stroke === "killed") return 2;
  // The deadline of an exchange between ranks.
  return struck.includes("rank") ? 36 : 10;
}

function requireTold({ struck, stroke, state, client }: Outcome): void {
  const told = ["the answer", "status 500", "status 502", "status 503", "event with 502"];
  const ofRanks = struck.includes("rank") ? ["event with 503", "event with 500"] : [];
  // No process is left that could tell.
  const isUntold = struck === "router" && stroke === "killed";
  const isTold = isUntold ? ["a broken connection"] : [...told, ...ofRanks];
  expect(state === "aborting" ? ["it left"] : isTold).toContain(client);
}

/** Pairs for tests of the group that asks. */
function pairsOf(more: readonly string[] = []): () => ComparedPairs {
  let pairs: ComparedPairs;
  beforeAll(async () => {
    pairs = new ComparedPairs({ model: await tinyModel(), more }, Math.max(lanes, 1));
  });
  afterAll(async () => {
    await stopAll();
    await pairs?.close();
  });
  return () => pairs;
}

describe.skipIf(OF_SERVERS.length === 0)("of a pair", () => {
  const pairs = pairsOf();

  test("messages that come twice, or late, make no answer wrong", () =>
    pairs().use(async (compared) => {
      await requireRightTwice(compared);
      await requireRightLate(compared);
      await compared.pair.rest(compared.pair.names);
    }));

  testOfPair.each(OF_SERVERS.map((given) => [strikeName(given), given] as const))(
    "%s",
    (_, given) => pairs().use((compared) => requireOrder(compared, given)),
    TIME,
  );
});

async function requireRightTwice(compared: ComparedPair): Promise<void> {
  const { pair } = compared;
  const pages = pair.pagesOf("prefill");
  for (const type of ["open", "want", "taken", PAGES, "end"]) {
    const { body, right } = await question(compared);
    let isTwice = false;
    pages.look = (_, one) => {
      if (one !== type || isTwice) return "pass";
      isTwice = true;
      return "twice";
    };
    const seen = await ask(pair.of("router").url, body);
    expect([type, isTwice, seen.ending, idsOf(seen)]).toEqual([type, true, "the answer", right]);
  }
  pages.release();
}

async function requireRightLate(compared: ComparedPair): Promise<void> {
  const { pair } = compared;
  const pages = pair.pagesOf("prefill");
  const { body, right } = await question(compared);
  let late = 0;
  pages.delay = () => {
    late += 1;
    return 30 * (late % 4);
  };
  const seen = await ask(pair.of("router").url, body);
  expect([seen.ending, idsOf(seen)]).toEqual(["the answer", right]);
  expect(late).toBeGreaterThan(5);
  pages.release();
}

const lack = lackOfMpi();
tellLack(lack);

describe.skipIf(lack !== undefined || OF_RANKS.length === 0)("of a pair of two ranks each", () => {
  const pairs = pairsOf(["--tp-size", "2", "--nnodes", "1", "--gpu-id-step", "0"]);

  testOfPair.each(OF_RANKS.map((given) => [strikeName(given), given] as const))(
    "%s",
    (_, given) => pairs().use((compared) => requireOrder(compared, given)),
    TIME,
  );
});
