/** Requests whose rows lose real devices: they are found and end, and all others end as ever. */
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import type { LocalRequest } from "../../../src/engine/engine.ts";
import { RequestLosesDeviceError } from "../../../src/errors.ts";
import type { Batch } from "../../../src/layers/batch.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { complete } from "../../support/engines/engine.ts";
import {
  type LosingEngine,
  loseWithSteps,
  openLosingEngine,
} from "../../support/engines/losing_engine.ts";
import { until } from "../../support/until.ts";

/** A token that only prompts of culprits have. */
const MARK = 2047;
/** A position that only answers of culprits reach. */
const FAR = 60;

const PROMPT = "as a prompt";
const ANSWER = "as an answer";

interface Culprit {
  readonly index: number;
  readonly loses: typeof PROMPT | typeof ANSWER;
}

interface Case {
  readonly count: number;
  readonly culprits: readonly Culprit[];
  readonly losses: number;
}

/** Greedy and seeded ones; those that lose devices have the mark in their prompts, or are longer. */
function requestsOf(count: number, culprits: readonly Culprit[]): LocalRequest[] {
  return Array.from({ length: count }, (_, i) => {
    const loses = culprits.find(({ index }) => index === i)?.loses;
    const length = loses === ANSWER ? FAR - 6 : 20 + i;
    const tokens = Array.from({ length }, (_, at) => 3 + ((i * 97 + at * 31) % 2000));
    if (loses === PROMPT) tokens[9] = MARK;
    const seeded = { temperature: 0.8, topP: 0.95, seed: i };
    const draw = i % 2 === 0 ? { temperature: 0 } : seeded;
    return { requestId: `r${i}`, tokens, sampling: { maxNewTokens: 12, ignoreEos: true, ...draw } };
  });
}

const losesDevice = ({ sources, sequences }: Batch) =>
  sources.includes(MARK) || sequences.some((one) => one.position + one.queryLength > FAR);

let losing: LosingEngine;

/** What Node warned of, such as listeners that are never removed. */
const warnings: Error[] = [];
const onWarning = (warning: Error) => warnings.push(warning);

beforeAll(async () => {
  process.on("warning", onWarning);
  losing = await openLosingEngine({ maxTotalTokens: 1024, recoveryWaits: [0, 0] });
});
afterAll(async () => {
  await losing.engine.close();
  process.off("warning", onWarning);
});
afterEach(() => {
  vi.restoreAllMocks();
  expect(warnings).toEqual([]);
});

/**
 * How many devices are lost: for each culprit two with all of them, and then one for each size of a
 * group that it is in, or three. The two of eight differ in when they lose it.
 */
const CASES: readonly (Case & { readonly isLong?: boolean })[] = [
  { count: 1, culprits: [{ index: 0, loses: PROMPT }], losses: 3 },
  { count: 2, culprits: [{ index: 1, loses: ANSWER }], losses: 3, isLong: true },
  { count: 3, culprits: [{ index: 2, loses: PROMPT }], losses: 3 },
  { count: 8, culprits: [{ index: 6, loses: ANSWER }], losses: 5, isLong: true },
  {
    count: 8,
    culprits: [
      { index: 1, loses: ANSWER },
      { index: 5, loses: PROMPT },
    ],
    losses: 9,
  },
];
const isFull = process.env.WISP_TEST_FULL === "1";

test.skipIf(smallestCaseOnly).each(CASES.filter(({ isLong }) => isFull || !isLong))(
  "$culprits of $count",
  async ({ count, culprits, losses }) => {
    const { engine } = losing;
    const requests = requestsOf(count, culprits);
    const want = await Promise.all(requests.map((request) => complete(engine, request)));
    await engine.flushCache();
    const { recoveries } = engine.status();
    loseWithSteps(losing, losesDevice);
    const got = await Promise.allSettled(requests.map((request) => complete(engine, request)));
    got.forEach((result, i) => {
      if (culprits.every(({ index }) => index !== i)) {
        expect(result).toMatchObject({ value: { tokens: want[i]!.tokens } });
        return;
      }
      const { reason } = result as PromiseRejectedResult;
      expect(reason).toBeInstanceOf(RequestLosesDeviceError);
      expect(reason).toMatchObject({ requestId: `r${i}` });
    });
    const idle = { healthy: true, recovering: false, runningRequests: 0, usedTokens: 0 };
    await until(() => expect(engine.status()).toMatchObject(idle));
    expect(engine.status().recoveries - recoveries).toBe(losses);
  },
);
