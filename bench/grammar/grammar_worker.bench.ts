/**
 * What grammars cost the thread that the engine runs in: followed in it, and in a worker.
 *
 * "stall" is the longest time that the thread had no turn for anything else while a grammar was
 * compiled and its masks were made for the first time. "round trip" is a mask that was made before,
 * asked for by one sequence, and by many at once.
 *
 * @module
 */
import { cpus } from "node:os";
import { performance } from "node:perf_hooks";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type {
  GrammarModel,
  GrammarService,
  NextTokens,
} from "../../src/engine/grammar/grammar_service.ts";
import { localGrammarService } from "../../src/engine/grammar/local_grammar_service.ts";
import { RemoteGrammarService } from "../../src/engine/grammar/remote_grammar_service.ts";
import type { Constraint } from "../../src/grammar/grammar.ts";
import { grammarThread } from "../../src/node/worker_grammar_service.ts";
import { createTokenizer, type Tokenizer } from "../../src/text/tokenizer.ts";
import { type BuiltWorker, buildGrammarWorker } from "../../test/support/engines/grammar_worker.ts";
import { hasSharedData, sharedJson, skipNote } from "../../test/text/shared_data.ts";

const SEQUENCES = 32;
const ROUNDS = 200;
/** Of so many stalls the shortest counts: others of the machine's programs lengthen them. */
const REPEATS = 3;

const fields = Array.from({ length: 40 }, (_, i) => `field ${i}`);
/** Takes long to compile. */
const wide: Constraint = {
  kind: "json_schema",
  source: JSON.stringify({
    type: "object",
    properties: Object.fromEntries(fields.map((name) => [name, { type: "string" }])),
  }),
};
const wideText = JSON.stringify({ "field 3": "The quick brown fox", "field 7": "東京都" });
/** Takes long at its first masks. */
const words: Constraint = { kind: "regex", source: "(\\p{L}{1,40} ?){60}" };
const wordsText = "The quick brown fox jumps over the lazy dog";

let worker: BuiltWorker;
beforeAll(async () => {
  worker = await buildGrammarWorker();
  console.log(`${cpus()[0]!.model}, Node ${process.versions.node}`);
});
afterAll(() => worker.remove());

/** Does some work and measures the longest time between two turns of this thread, in milliseconds. */
async function stall(work: () => Promise<unknown>) {
  let isDone = false;
  let longest = 0;
  const started = performance.now();
  // It sleeps in between, as the engine does: a thread that spins is made to wait by the system.
  const watching = (async () => {
    for (let last = started; !isDone; ) {
      await new Promise((resolve) => setTimeout(resolve, 1));
      const now = performance.now();
      longest = Math.max(longest, now - last - 1);
      last = now;
    }
  })();
  await new Promise((resolve) => setTimeout(resolve, 5));
  await work();
  isDone = true;
  await watching;
  return { longest, total: performance.now() - started };
}

async function walk(service: GrammarService, constraint: Constraint, ids: readonly number[]) {
  const session = await service.open(constraint);
  let next: NextTokens = await session.advance([]);
  for (const id of ids) {
    expect((next.mask[id >>> 5]! >>> (id & 31)) & 1).toBe(1);
    next = await session.advance([id]);
  }
  session.close();
}

const middle = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!;

/** Microseconds from asking to the last answer. */
async function roundTrip(service: GrammarService, count: number): Promise<number> {
  const open = () => service.open({ kind: "regex", source: "[a-z]*" });
  const sessions = await Promise.all(Array.from({ length: count }, open));
  const times: number[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    const started = performance.now();
    await Promise.all(sessions.map((session) => session.advance([])));
    times.push(1000 * (performance.now() - started));
  }
  for (const session of sessions) session.close();
  return middle(times);
}

describe.skipIf(!hasSharedData)(`in this thread and in a worker${skipNote}`, () => {
  test("deepseek-llm", async () => {
    const tokenizer: Tokenizer = createTokenizer(
      sharedJson("tokenizers/deepseek-llm/tokenizer.json"),
    );
    const tokens = tokenizer.vocabulary;
    const model: GrammarModel = { tokens, endTokens: [100_001], vocabularySize: 102_400 };
    const services: Record<string, () => GrammarService> = {
      "in this thread": () => localGrammarService(model),
      "in a worker": () => new RemoteGrammarService(model, grammarThread(worker.url)),
    };
    const lines: string[] = [];
    const note = (...columns: readonly string[]) =>
      lines.push(columns.map((column) => column.padEnd(24)).join(" "));
    for (const [name, create] of Object.entries(services)) {
      const stalls = new Map<string, { longest: number; total: number }>();
      let trips: readonly number[] = [];
      for (let i = 0; i < REPEATS; i++) {
        const service = create();
        const works: Record<string, () => Promise<unknown>> = {
          "first constraint": () => service.open({ kind: "regex", source: "a" }),
          "wide schema, compiled": () => service.open(wide),
          "wide schema, cold masks": () => walk(service, wide, tokenizer.encode(wideText)),
          "words, compiled": () => service.open(words),
          "words, cold masks": () => walk(service, words, tokenizer.encode(wordsText)),
        };
        for (const [what, work] of Object.entries(works)) {
          const found = await stall(work);
          const best = stalls.get(what);
          if (best === undefined || found.longest < best.longest) stalls.set(what, found);
        }
        trips = [await roundTrip(service, 1), await roundTrip(service, SEQUENCES)];
        service.close();
      }
      for (const [what, { longest, total }] of stalls) {
        note(name, what, `stall ${longest.toFixed(1)} ms`, `of ${total.toFixed(0)} ms`);
      }
      const [one, many] = trips.map((us) => us.toFixed(0));
      note(name, "warm mask", `round trip ${one} us`, `of ${SEQUENCES} at once ${many} us`);
    }
    console.log(lines.join("\n"));
  }, 120_000);
});
