/**
 * Tokens that come of trees of drafts have the target's distribution: a chi-square test of each token
 * behind each beginning, which rules that favour drafts fail.
 */
import { describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { fullTest, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { type ChiSquare, chiSquare, pValue, sumOf } from "../../support/reference/chi_square.ts";

const PROMPT = [5, 60, 300, 17, 900, 42, 7];
const RULE = { temperature: 2, topK: 3, ignoreEos: true };
/** The first comes of the prompt, the others of steps that verify trees. */
const TOKENS = 3;
const ANSWERS = fullTest ? 16_384 : 384;
/** Asked at once. */
const TOGETHER = 128;
const TREE = { algorithm: "EAGLE", numSteps: 3, eagleTopk: 3, numDraftTokens: 8 } as const;
/** Right distributions look less likely than this once in a million runs. */
const UNLIKELY = 1e-6;

const open = (speculation?: LoadOptions["speculation"]) =>
  openEngine({ contextLength: 64, maxTotalTokens: 4096, maxRunningRequests: 64, speculation });

/** Tokens behind the prompt and these, and how likely each is. */
async function distribution(plain: Engine, begun: readonly number[]) {
  const request = {
    tokens: [...PROMPT, ...begun],
    sampling: { temperature: 0, maxNewTokens: 1, ignoreEos: true },
    logprobs: { topCount: RULE.topK },
  };
  for await (const { logprobs = [] } of plain.generate(request)) {
    if (logprobs.length === 0) continue;
    const weights = logprobs[0]!.top!.map(({ token, logprob }) => {
      return [token, Math.exp(logprob! / RULE.temperature)] as const;
    });
    const sum = weights.reduce((total, [, weight]) => total + weight, 0);
    return new Map(weights.map(([token, weight]) => [token, weight / sum]));
  }
  throw new Error("no token came");
}

/** By beginning, how likely each next token is. */
async function distributions(): Promise<Map<string, Map<number, number>>> {
  const plain = await open();
  const all = new Map<string, Map<number, number>>();
  const waiting: number[][] = [[]];
  for (let begun = waiting.shift(); begun !== undefined; begun = waiting.shift()) {
    const next = await distribution(plain, begun);
    all.set(begun.join(), next);
    if (begun.length + 1 < TOKENS) for (const token of next.keys()) waiting.push([...begun, token]);
  }
  await plain.close();
  return all;
}

/** How likely it is that answers of these thresholds differ so much from what they ought to be. */
async function likelihood(expected: Map<string, Map<number, number>>, threshold: number) {
  const thresholds = { acceptThresholdSingle: threshold, acceptThresholdAcc: threshold };
  const engine = await open({ ...TREE, ...thresholds });
  const counts = new Map([...expected.keys()].map((begun) => [begun, new Map<number, number>()]));
  let accepted = 0;
  const answer = async (seed: number) => {
    const tokens: number[] = [];
    const sampling = { ...RULE, seed, maxNewTokens: TOKENS };
    for await (const chunk of engine.generate({ tokens: PROMPT, sampling })) {
      tokens.push(...chunk.tokens);
      accepted += chunk.finish === null ? 0 : chunk.speculation!.acceptedDrafts;
    }
    tokens.forEach((token, i) => {
      const behind = counts.get(tokens.slice(0, i).join())!;
      behind.set(token, (behind.get(token) ?? 0) + 1);
    });
  };
  for (let first = 0; first < ANSWERS; first += TOGETHER) {
    await Promise.all(Array.from({ length: TOGETHER }, (_, i) => answer(first + i)));
  }
  await engine.close();
  const tests: ChiSquare[] = [...counts].map(([begun, behind]) => {
    const next = [...expected.get(begun)!];
    for (const token of behind.keys()) expect(expected.get(begun)!.has(token)).toBe(true);
    return chiSquare(
      next.map(([token]) => behind.get(token) ?? 0),
      next.map(([, probability]) => probability),
    );
  });
  return { p: pValue(sumOf(tests)), accepted };
}

// On the slow driver it takes minutes, and tells nothing of it.
describe.skipIf(smallestCaseOnly)("tokens that come of trees", async () => {
  const expected = smallestCaseOnly ? new Map() : await distributions();

  test("have the distribution of the target where thresholds are 1", async () => {
    const { p, accepted } = await likelihood(expected, 1);
    expect(accepted).toBeGreaterThan(ANSWERS / 20);
    expect(p).toBeGreaterThan(UNLIKELY);
  });

  test("have another one where thresholds favour drafts", async () => {
    const { p, accepted } = await likelihood(expected, 0.3);
    expect(accepted).toBeGreaterThan(ANSWERS / 20);
    expect(p).toBeLessThan(UNLIKELY);
  });
});
