/** Pairs that have too little memory for all of their requests, and no space on their disk. */
import { spawnSync } from "node:child_process";
import { afterEach, expect, test } from "vitest";
import { ask, idsOf, type Seen } from "../support/pairs/asked.ts";
import { questionBody } from "../support/pairs/struck_pair.ts";
import { type ComparedPair, comparedPair, tinyModel } from "../support/pairs/tiny_pair.ts";
import { stopAll } from "../support/wisp.ts";

let compared: ComparedPair | undefined;
afterEach(async () => {
  await stopAll();
  await compared?.pair.close();
});

const isFull = process.env.WISP_TEST_FULL === "1";
/** Together they have three times as many tokens as a cache has places. */
const CLIENTS = 16;

async function askAll({ pair, alone }: ComparedPair, count: number): Promise<readonly Seen[]> {
  const bodies = Array.from({ length: count }, (_, i) => questionBody(i + 1));
  const [seen, right] = await Promise.all(
    [pair.of("router"), alone].map(({ url }) => Promise.all(bodies.map((body) => ask(url, body)))),
  );
  for (const [i, one] of seen!.entries()) {
    const ids = idsOf(right![i]!);
    expect(ids.length).toBeGreaterThan(0);
    const isWhole = one.ending === "the answer";
    expect([i, idsOf(one)]).toEqual([i, isWhole ? ids : ids.slice(0, idsOf(one).length)]);
  }
  await pair.rest(pair.names);
  return seen!;
}

test.runIf(isFull)("requests that no cache holds together are all answered", async () => {
  const more = ["--max-total-tokens", "3072", "--num-reserved-decode-tokens", "16"];
  compared = await comparedPair({ model: await tinyModel(), more });
  const seen = await askAll(compared, CLIENTS);
  expect(seen.map(({ ending, said }) => [ending, said])).toEqual(
    Array(CLIENTS).fill(["the answer", ""]),
  );
});

/** Runs a program whose home has no space left. */
const FULL_DISK = [
  ...["unshare", "--mount", "sh", "-c"],
  'mount -t tmpfs -o size=4k tmpfs "$HOME" && head -c 9999 /dev/zero > "$HOME/full"; exec "$@"',
  "sh",
];
const canMount = () => {
  const env = { ...process.env, HOME: "/mnt" };
  const [file, ...args] = [...FULL_DISK, "true"];
  return spawnSync(file!, args, { env }).status === 0;
};

test.runIf(isFull && canMount())("servers whose disk is full answer", async () => {
  const serve = { launcher: FULL_DISK };
  compared = await comparedPair({ model: await tinyModel(), serve });
  const seen = await askAll(compared, 4);
  expect(seen.map(({ ending }) => ending)).toEqual(Array(4).fill("the answer"));
});
