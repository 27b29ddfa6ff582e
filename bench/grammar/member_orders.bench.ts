/**
 * What each order of members does to the answers of the embedded model: how many end by themselves,
 * how likely the model finds what it writes, how many tokens take no step; and how long the first
 * token of a request waits while a large schema is compiled.
 *
 * "loss" is the mean of -log p over the tokens of an answer, read again as a prompt that nothing
 * constrains: the less, the less the constraint pushes the model away from what it would write.
 *
 * @module
 */
import "../support/driver_threads.ts";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { JsonOrder } from "../../src/constraint.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { workerGrammarService } from "../../src/node/index.ts";
import type { SamplingParams } from "../../src/sampling_params.ts";
import { chat, complete, openEngine } from "../../test/support/engines/engine.ts";
import { table } from "../support/table.ts";

const ORDERS: readonly JsonOrder[] = ["schema", "any"];
const TEMPERATURES = [0.1, 1] as const;
const SEEDS = [1, 2, 3, 4, 5] as const;
const MAX_TOKENS = 160;
/** Properties of the large schema. */
const LARGE = 1_500;

const string = { type: "string" };
const short = { type: "string", maxLength: 40 };
const integer = { type: "integer" };
const boolean = { type: "boolean" };
const list = (items: object) => ({ type: "array", items, maxItems: 4 });
const text = (...values: readonly string[]) => ({ enum: values });

/** Properties of small schemas, all required, in an order that no model need prefer. */
const SCHEMAS: readonly Readonly<Record<string, object>>[] = [
  { name: string, age: integer },
  { age: integer, name: string },
  { answer: string, reason: string },
  { reason: string, answer: boolean },
  { city: short, country: short, population: integer },
  { population: integer, country: short, city: short },
  { title: short, tags: list(short), rating: { type: "integer", minimum: 1, maximum: 5 } },
  { rating: { type: "number", minimum: 0, maximum: 10 }, title: short },
  { mood: text("good", "bad"), text: short },
  { unit: text("C", "F"), temperature: { type: "number" }, city: short },
  { question: short, options: list(short), correct: { type: "integer", minimum: 0, maximum: 3 } },
  { id: integer, active: boolean, email: { type: "string", format: "email" } },
  { start: { type: "string", format: "date" }, end: { type: "string", format: "date" } },
  { color: text("red", "green", "blue"), size: text("s", "m", "l"), price: { type: "number" } },
  { command: text("open", "close"), target: short, force: boolean },
  { summary: short, words: integer, language: text("en", "de") },
  { x: { type: "number" }, y: { type: "number" }, label: short },
  { from: short, to: short, date: { type: "string", format: "date" } },
  { error: { anyOf: [short, { type: "null" }] }, code: integer },
  { first: short, second: short, third: short, fourth: boolean },
];

const schemaOf = (properties: object) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ grammarService: workerGrammarService });
}, 120_000);
afterAll(async () => engine.close());

interface Figures {
  answers: number;
  ended: number;
  fitting: number;
  tokens: number;
  forced: number;
  loss: number;
  losses: number;
}

interface Asked {
  readonly jsonOrder: JsonOrder;
  readonly temperature: number;
  /** Whether the prompt names the keys from the last to the first. */
  readonly turned: boolean;
}

type Messages = ReturnType<typeof chat>;

/** Log-probabilities of a text's tokens where the model goes on with it, at temperature 1. */
async function lossOf(messages: Messages, content: string, start: number): Promise<number[]> {
  const request = {
    messages: [...messages, { role: "assistant", content }],
    continueFinalMessage: true,
    sampling: { maxNewTokens: 1 },
    logprobs: { promptStart: start },
  } as const;
  const found: number[] = [];
  for await (const { promptLogprobs } of engine.generate(request)) {
    for (const { logprob } of promptLogprobs ?? []) if (logprob !== null) found.push(logprob);
  }
  return found;
}

/** All answers under an order, and what the model thinks of them where nothing constrains it. */
async function figuresOf({ jsonOrder, temperature, turned }: Asked): Promise<Figures> {
  const sums = { answers: 0, ended: 0, fitting: 0, tokens: 0, forced: 0, loss: 0, losses: 0 };
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  const asked = SEEDS.flatMap((seed) => SCHEMAS.map((properties) => ({ seed, properties })));
  await Promise.all(
    asked.map(async ({ seed, properties }) => {
      const jsonSchema = schemaOf(properties);
      const names = Object.keys(properties);
      const keys = (turned ? names.reverse() : names).join(", ");
      const messages = chat(`Answer as a JSON object with the keys ${keys}.`);
      const sampling: SamplingParams = {
        ...{ jsonSchema, jsonOrder, temperature, seed },
        maxNewTokens: MAX_TOKENS,
      };
      const answer = await complete(engine, { messages, sampling });
      const ended = answer.last.finish?.type === "stop";
      sums.answers += 1;
      sums.ended += ended ? 1 : 0;
      if (ended && ajv.compile(jsonSchema)(JSON.parse(answer.text))) sums.fitting += 1;
      sums.tokens += answer.tokens.length;
      sums.forced += answer.last.forcedTokens ?? 0;
      const { promptTokens } = answer.last;
      for (const logprob of await lossOf(messages, answer.text, promptTokens)) {
        sums.loss -= logprob;
        sums.losses += 1;
      }
    }),
  );
  return sums;
}

test("answers in each order", async () => {
  const rows: string[][] = [];
  for (const turned of [false, true]) {
    for (const temperature of TEMPERATURES) {
      for (const jsonOrder of ORDERS) {
        const sums = await figuresOf({ jsonOrder, temperature, turned });
        const { answers, ended, fitting, tokens, forced, loss, losses } = sums;
        expect(fitting).toBe(ended);
        rows.push([
          ...[jsonOrder, turned ? "the other way round" : "the schema's", String(temperature)],
          ...[`${ended} of ${answers}`, (tokens / answers).toFixed(1)],
          ...[`${((100 * forced) / tokens).toFixed(1)} %`, (loss / losses).toFixed(3)],
        ]);
      }
    }
  }
  const figures = ["ended", "tokens of one", "without a step", "loss a token"];
  console.log(table(["order", "keys of the prompt", "temperature", ...figures], rows));
}, 300_000);

/** Milliseconds until the first token is there. */
async function firstToken(sampling: SamplingParams): Promise<number> {
  const began = performance.now();
  const messages = chat("Who are you?");
  const controller = new AbortController();
  const { signal } = controller;
  for await (const { tokens } of engine.generate({ messages, sampling, signal })) {
    if (tokens.length > 0) break;
  }
  return performance.now() - began;
}

test("first tokens beside a large schema", async () => {
  const properties = (mark: string) =>
    Object.fromEntries(
      Array.from({ length: LARGE }, (_, i) => [
        `${mark}_${i}`,
        i % 2 === 0 ? short : list({ anyOf: [integer, text(`v${i}`, mark)] }),
      ]),
    );
  const free = { maxNewTokens: 4 };
  await firstToken(free);
  const alone: number[] = [];
  const own: number[] = [];
  const beside: number[] = [];
  for (const mark of ["a", "b", "c", "d", "e"]) {
    alone.push(await firstToken(free));
    const jsonSchema = { ...schemaOf(properties(mark)), required: [] };
    const large = firstToken({ ...free, jsonSchema });
    beside.push(await firstToken(free));
    own.push(await large);
  }
  const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!.toFixed(0);
  const rows = [[String(LARGE), median(alone), median(beside), median(own)]];
  console.log(
    table(["properties", "ms without schema", "the same beside it", "ms with the schema"], rows),
  );
  expect(own.length).toBe(beside.length);
}, 120_000);
