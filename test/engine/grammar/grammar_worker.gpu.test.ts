import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { RemoteGrammarService } from "../../../src/engine/grammar/remote_grammar_service.ts";
import { ModelRunner } from "../../../src/engine/step/model_runner.ts";
import { WorkerError } from "../../../src/errors.ts";
import type { GenerationChunk } from "../../../src/generation.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import type { SamplingParams } from "../../../src/sampling_params.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { chat, complete, openEngine } from "../../support/engines/engine.ts";
import {
  type BuiltWorker,
  buildGrammarWorker,
  watchedThreads,
} from "../../support/engines/grammar_worker.ts";

const messages = chat("Who are you?");
const sampling = { maxNewTokens: smallestCaseOnly ? 12 : 60, temperature: 1.2 };
const constraints: readonly SamplingParams[] = [
  { ...sampling, regex: "[a-z]{3,9}( [a-z]{3,9}){2}\\.", seed: 1 },
  { ...sampling, ebnf: 'root ::= "sum(" [0-9]+ ("," [0-9]+)* ")"', seed: 2 },
  { ...sampling, jsonSchema: { type: "array", items: { type: "integer" }, maxItems: 4 }, seed: 3 },
  { ...sampling, seed: 4 },
];

let worker: BuiltWorker;
let watched: ReturnType<typeof watchedThreads>;
let engine: Engine;

beforeAll(async () => {
  worker = await buildGrammarWorker();
  watched = watchedThreads(worker.url);
  engine = await openEngine({
    grammarService: (model) => new RemoteGrammarService(model, watched.start),
  });
});
afterAll(async () => {
  await engine.close();
  worker.remove();
});

test("an engine with grammars in a worker gives the same answers", async () => {
  const inOneThread = await openEngine();
  const answers = (engine: Engine) =>
    Promise.all(constraints.map((sampling) => complete(engine, { messages, sampling })));
  const expected = await answers(inOneThread);
  await inOneThread.close();
  expect(watched.threads).toHaveLength(0);
  const found = await answers(engine);
  expect(found.map(({ tokens }) => tokens)).toEqual(expected.map(({ tokens }) => tokens));
  await expect(complete(engine, { messages, sampling: { regex: "a(?=b)" } })).rejects.toThrow(
    GrammarError,
  );
  expect(watched.threads).toHaveLength(1);
});

test("requests tell once how their grammar was compiled there, and how long they waited", async () => {
  const request = { messages, sampling: { ...sampling, regex: "[b-y]{4,9}" } };
  const told = async () => {
    const chunks: GenerationChunk[] = [];
    for await (const chunk of engine.generate(request)) chunks.push(chunk);
    return {
      waits: chunks.flatMap(({ queueSeconds }) => queueSeconds ?? []),
      compilations: chunks.flatMap(({ compilation }) => compilation ?? []),
    };
  };
  for (const isCached of [false, true]) {
    const { waits, compilations } = await told();
    expect(compilations).toEqual([{ isCached, seconds: expect.any(Number) }]);
    expect(compilations[0]!.seconds).toBeGreaterThan(0);
    expect(waits).toHaveLength(1);
    expect(waits[0]).toBeGreaterThan(0);
  }
});

test("sequences that begin together share steps", async () => {
  const submit = vi.spyOn(ModelRunner.prototype, "submit");
  const begin = (seed: number) =>
    complete(engine, { messages, sampling: { ...sampling, regex: "[0-9a-f]{40}", seed } });
  await Promise.all([1, 2, 3, 4].map(begin));
  const masked = submit.mock.calls.map(
    ([, rows]) => rows.filter(({ mask }) => mask !== undefined).length,
  );
  vi.restoreAllMocks();
  expect(Math.max(...masked)).toBeGreaterThan(1);
});

test("a worker that ends fails the requests that have a grammar in it, and no other", async () => {
  const limits = { temperature: 0, maxNewTokens: 20, ignoreEos: true };
  const plain = { messages, sampling: limits };
  const alone = await complete(engine, plain);
  const constrained = { messages, sampling: { regex: "[a-z ]{4000}", maxNewTokens: 2000 } };
  const stream = engine.generate(constrained);
  await stream.next();
  const beside = complete(engine, plain);
  watched.threads[0]!.terminate();
  const rest = (async () => {
    for await (const _ of stream);
  })();
  await expect(rest).rejects.toThrow(WorkerError);
  expect((await beside).tokens).toEqual(alone.tokens);
  const later = { messages, sampling: { ...sampling, regex: "[a-f]{9}", temperature: 0 } };
  expect((await complete(engine, later)).text).toMatch(/^[a-f]{9}$/);
  expect((await complete(engine, plain)).tokens).toEqual(alone.tokens);
  expect(engine.status()).toMatchObject({ healthy: true, runningRequests: 0, usedTokens: 0 });
});
