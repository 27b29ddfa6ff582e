import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type {
  GrammarModel,
  GrammarService,
  NextTokens,
} from "../../src/engine/grammar/grammar_service.ts";
import { localGrammarService } from "../../src/engine/grammar/local_grammar_service.ts";
import { RemoteGrammarService } from "../../src/engine/grammar/remote_grammar_service.ts";
import { WorkerError } from "../../src/errors.ts";
import type { Constraint } from "../../src/grammar/grammar.ts";
import { GrammarError } from "../../src/grammar/grammar_error.ts";
import { grammarThread, workerGrammarService } from "../../src/node/worker_grammar_service.ts";
import { tokensOf } from "../grammar/samples/small_vocabulary.ts";
import {
  type BuiltWorker,
  buildGrammarWorker,
  watchedThreads,
} from "../support/engines/grammar_worker.ts";
import {
  byteToken,
  byteTokens,
  END,
  heavyPattern,
  heavyTokens,
} from "../support/engines/heavy_grammar.ts";
import { until } from "../support/until.ts";

const tokens = heavyTokens();
const model: GrammarModel = { tokens, endTokens: [END], vocabularySize: tokens.size + 50 };

const regex = (source: string): Constraint => ({ kind: "regex", source });
const heavy = regex(heavyPattern("0"));

let worker: BuiltWorker;
beforeAll(async () => {
  worker = await buildGrammarWorker();
});
afterAll(() => worker.remove());

function remote(): GrammarService {
  const service = new RemoteGrammarService(model, grammarThread(worker.url));
  onTestFinished(() => service.close());
  return service;
}

/** What each call answers on the way through a text, byte by byte. */
async function walk(service: GrammarService, constraint: Constraint, text: string) {
  const session = await service.open(constraint);
  const answers = [await session.advance([])];
  for (const token of byteTokens(text)) answers.push(await session.advance([token]));
  session.close();
  return answers;
}

describe("grammars in a worker thread", () => {
  test("are followed as in the own thread", async () => {
    const [here, there] = [localGrammarService(model), remote()];
    const cases: readonly (readonly [Constraint, string])[] = [
      [regex("[a-zß]{3,9}(yes|yeah)\\."), "straßeyea"],
      [{ kind: "ebnf", source: 'root ::= "a" root "b" | ""' }, "aab"],
      [
        { kind: "json_schema", source: '{"type": "array", "items": {"type": "integer"}}' },
        "[1, -2",
      ],
    ];
    const walks = cases.map(async ([constraint, text]) => {
      const expected = await walk(here, constraint, text);
      expect(await walk(there, constraint, text)).toEqual(expected);
      return expected;
    });
    const [first] = await Promise.all(walks);
    expect(tokensOf(first!.at(0)!.mask)).toContain(byteToken("a".charCodeAt(0)));
    expect(first!.at(-1)!.forcedText).toBe("");
  });

  test("refuse with the same errors, places included", async () => {
    const [here, there] = [localGrammarService(model), remote()];
    const refusal = (service: GrammarService, constraint: Constraint) =>
      service.open(constraint).then(
        () => undefined,
        (error: GrammarError) => error,
      );
    const malformed: readonly Constraint[] = [
      regex("ab(c"),
      { kind: "ebnf", source: "root ::= missing" },
      { kind: "json_schema", source: '{"properties": {"a": {"minimum": "x"}}}' },
    ];
    for (const constraint of malformed) {
      const expected = await refusal(here, constraint);
      const found = await refusal(there, constraint);
      expect(expected).toBeInstanceOf(GrammarError);
      expect(found).toBeInstanceOf(GrammarError);
      const parts = ({ name, message, code, position, path }: GrammarError) => [
        ...[name, message, code, position, path],
      ];
      expect(parts(found!)).toEqual(parts(expected!));
    }
    expect((await refusal(there, malformed[0]!))!.position).toBe(2);
    expect((await refusal(there, malformed[2]!))!.path).toContain("/properties/a");
    const session = await there.open(regex("ab"));
    await session.advance(byteTokens("a"));
    await expect(session.advance(byteTokens("a"))).rejects.toThrow(GrammarError);
    expect((await walk(there, regex("ab"), "ab")).at(-1)!.mustEnd).toBe(true);
  });

  test("let this thread go on while one is compiled, and other masks come before a slow one", async () => {
    const service = remote();
    const events: string[] = [];
    const note = (name: string) => () => void events.push(name);
    const quick = await service.open(regex("a*"));
    await quick.advance([]);
    await quick.advance(byteTokens("a"));

    const opening = service.open(heavy).finally(note("compiled"));
    await new Promise((resolve) => setImmediate(resolve));
    note("turn")();
    const slow = await opening;
    const masks = [slow.advance([]), quick.advance(byteTokens("a"))] as Promise<NextTokens>[];
    await Promise.all([masks[0]!.then(note("slow mask")), masks[1]!.then(note("mask"))]);
    expect(events).toEqual(["turn", "compiled", "mask", "slow mask"]);
  });

  test("answer together what is asked together", async () => {
    const turns: number[] = [];
    const service = new RemoteGrammarService(model, ({ onAnswers, onEnd }) =>
      grammarThread(worker.url)({
        onAnswers: (answers) => {
          turns.push(answers.length);
          onAnswers(answers);
        },
        onEnd,
      }),
    );
    onTestFinished(() => service.close());
    const sessions = await Promise.all(
      Array.from({ length: 20 }, () => service.open(regex("[ab]{5}c"))),
    );
    await Promise.all(sessions.map((session) => session.advance([])));
    turns.length = 0;
    const answers = await Promise.all(sessions.map((session) => session.advance([])));
    expect(turns).toEqual([20]);
    expect(new Set(answers.map(({ mask }) => mask.buffer)).size).toBe(20);
  });

  test("give up a mask when its sequence leaves", async () => {
    const service = remote();
    const slow = await service.open(heavy);
    const mask = slow.advance([]);
    slow.close();
    await expect(mask).rejects.toThrow("the sequence has left");
    expect(await walk(service, regex("ab"), "a")).toHaveLength(2);
  });
});

test("a grammar that takes all memory of the thread ends the thread and not the process", async () => {
  const hungry = pathToFileURL(join(fileURLToPath(new URL(".", worker.url)), "hungry.mjs"));
  const body = "const kept = []; for (;;) kept.push(Array.from({ length: 1e5 }, () => ({})));";
  writeFileSync(
    hungry,
    `import { parentPort } from "node:worker_threads"; parentPort.on("message", () => { ${body} });`,
  );
  const service = new RemoteGrammarService(model, grammarThread(hungry, { maxHeapMb: 32 }));
  onTestFinished(() => service.close());
  await expect(service.open(regex("a"))).rejects.toThrow(/its thread failed: .*memory/);
});

describe("a worker thread that is gone", () => {
  test("fails its sessions, and the next one has another thread", async () => {
    const { start, threads } = watchedThreads(worker.url);
    const service = new RemoteGrammarService(model, start);
    const quick = await service.open(regex("a*"));
    const pending = [quick.advance([]), service.open(heavy), service.open(regex("(b|c)*"))];
    const failed = Promise.allSettled(pending);
    threads[0]!.terminate();
    for (const outcome of await failed) {
      expect(outcome).toMatchObject({ status: "rejected", reason: expect.any(WorkerError) });
    }
    await expect(quick.advance([])).rejects.toThrow("its thread has ended");
    expect(await walk(service, regex("ab"), "ab")).toHaveLength(3);
    await expect(quick.advance([])).rejects.toThrow(WorkerError);
    quick.close();
    expect(threads).toHaveLength(2);
    threads[1]!.terminate();
    await until(() => walk(service, regex("ab"), "ab"));
    expect(threads).toHaveLength(3);
    service.close();
    await expect(service.open(regex("a"))).rejects.toThrow("the grammar service is closed");
    expect(threads).toHaveLength(3);
  });

  test("says why it could not start", async () => {
    const nowhere = new RemoteGrammarService(
      model,
      grammarThread(new URL("nowhere.mjs", worker.url)),
    );
    await expect(nowhere.open(regex("a"))).rejects.toThrow(/its thread failed: .*nowhere\.mjs/);
    const refused = new RemoteGrammarService(model, () => {
      throw new Error("no thread today");
    });
    await expect(refused.open(regex("a"))).rejects.toThrow(
      "Cannot follow a grammar: no thread today",
    );
  });

  test("was closed", async () => {
    const service = remote();
    const opening = service.open(heavy);
    await new Promise((resolve) => setImmediate(resolve));
    service.close();
    await expect(opening).rejects.toThrow("the grammar service is closed");
    await expect(service.open(regex("a"))).rejects.toThrow("the grammar service is closed");
  });
});

test("without a build, as here, grammars are followed in the own thread", async () => {
  const service = workerGrammarService(model);
  expect(service).toBeInstanceOf(localGrammarService(model).constructor);
  expect(await walk(service, regex("ab"), "ab")).toHaveLength(3);
});
