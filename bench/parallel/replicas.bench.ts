/**
 * Tokens a second of one engine and of two replicas behind one, of the embedded model, by requests at the
 * same time: in turns, the best run of each. Replicas of one machine share its cores or its adapter, so
 * this says what they cost, not what two adapters would bring.
 *
 * `WISP_BENCH_ROUNDS` says how often each is run (3).
 */
import "../support/driver_threads.ts";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { GenerationEngine } from "../../src/generation.ts";
import { openDevice } from "../../src/node/device/device.ts";
import { ReplicatedEngine } from "../../src/parallel/replicas/replicated_engine.ts";
import { complete, openEngine } from "../../test/support/engines/engine.ts";
import { machine } from "../support/machine.ts";
import { table } from "../support/table.ts";

const ROUNDS = Number(process.env.WISP_BENCH_ROUNDS ?? 3);
const REQUESTS = [1, 2, 8, 32] as const;
const SIZES = [1, 2] as const;
/** Of an answer; prompts are short. */
const TOKENS = 64;
const PROMPT = 12;

const engines = new Map<number, GenerationEngine>();
beforeAll(async () => {
  for (const size of SIZES) {
    const replicas: GenerationEngine[] = [];
    for (let i = 0; i < size; i++) {
      const { device } = await openDevice();
      replicas.push(await openEngine({ device, maxRunningRequests: 32, prefixCache: false }));
    }
    const [one] = replicas;
    engines.set(size, size === 1 ? one! : new ReplicatedEngine(replicas));
  }
}, 240_000);
afterAll(async () => {
  for (const engine of engines.values()) await engine.close();
});

/** What all requests were answered, and tokens a second. */
async function run(engine: GenerationEngine, requests: number) {
  const started = performance.now();
  const answers = await Promise.all(
    Array.from({ length: requests }, async (_, request) => {
      const tokens = Array.from(
        { length: PROMPT },
        (_, i) => 3 + ((request * 977 + 31 * i) % 2000),
      );
      const sampling = { temperature: 0, maxNewTokens: TOKENS, ignoreEos: true };
      return (await complete(engine, { tokens, sampling })).tokens;
    }),
  );
  const seconds = (performance.now() - started) / 1000;
  return { answers, rate: (requests * TOKENS) / seconds };
}

test("tokens a second of one and of two replicas", { timeout: 600_000 }, async () => {
  const rows: string[][] = [];
  for (const requests of REQUESTS) {
    const best = new Map<number, number>(SIZES.map((size) => [size, 0]));
    let expected: unknown;
    for (let round = 0; round < ROUNDS; round++) {
      for (const size of SIZES) {
        const { answers, rate } = await run(engines.get(size)!, requests);
        expected ??= answers;
        expect(answers).toEqual(expected);
        best.set(size, Math.max(best.get(size)!, rate));
      }
    }
    const [one, two] = SIZES.map((size) => best.get(size)!);
    rows.push([`${requests}`, one!.toFixed(0), two!.toFixed(0), (two! / one!).toFixed(2)]);
  }
  const header = ["requests", "one, tokens/s", "two, tokens/s", "two / one"];
  console.log(`${machine()}\n${table(header, rows)}`);
});
