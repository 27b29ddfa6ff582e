import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { InvalidRequestError } from "../../../src/errors.ts";
import type { GenerationRequest } from "../../../src/generation.ts";
import type { SamplingParams } from "../../../src/sampling_params.ts";
import { FAMILY_COUNT, hostileConstraint } from "../../grammar/samples/hostile_constraints.ts";
import { fullTest, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { chat, complete, openEngine } from "../../support/engines/engine.ts";

const TRIES = fullTest ? 500 : 6;
/** Requests at the same time. */
const WIDTH = 16;
const HOSTILE = 50;

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ maxTotalTokens: 16_384 });
});
afterAll(() => engine.close());

/** Every string, list and number comes to an end, so every answer has room to finish. */
const schema = {
  $defs: {
    person: {
      type: "object",
      properties: {
        name: { type: "string", minLength: 1, maxLength: 20 },
        age: { type: "integer", minimum: 0, maximum: 150 },
        born: { type: "string", format: "date" },
        friend: { anyOf: [{ type: "null" }, { enum: ["Ada", "Grace", "Zoë"] }] },
      },
      required: ["name", "age"],
      additionalProperties: false,
    },
  },
  type: "object",
  properties: {
    id: { type: "string", format: "uuid" },
    people: { type: "array", items: { $ref: "#/$defs/person" }, minItems: 1, maxItems: 3 },
    size: {
      oneOf: [
        { enum: ["small", "large"] },
        { type: "integer", multipleOf: 5, maximum: 95, minimum: 5 },
      ],
    },
    ok: { type: "boolean" },
  },
  required: ["id", "people", "ok"],
  additionalProperties: false,
};

// The slow driver tries a smaller schema beside other grammars.
test.skipIf(smallestCaseOnly)(
  `${TRIES} answers at temperature 1.5 all fit their JSON schema`,
  async () => {
    const ajv = new Ajv2020({ strict: false });
    (addFormats as unknown as (ajv: Ajv2020) => void)(ajv);
    const fits = ajv.compile(schema);
    const messages = chat("Who is here? Answer in JSON.");
    const wrong: unknown[] = [];
    const texts = new Set<string>();
    for (let first = 0; first < TRIES; first += WIDTH) {
      const seeds = Array.from({ length: Math.min(WIDTH, TRIES - first) }, (_, i) => first + i);
      const sampling = { jsonSchema: schema, temperature: 1.5, maxNewTokens: 900 };
      const answers = await Promise.all(
        seeds.map((seed) => complete(engine, { messages, sampling: { ...sampling, seed } })),
      );
      answers.forEach(({ text, last }, i) => {
        texts.add(text);
        const isDone = last.finish?.type === "stop";
        if (!isDone || !fits(JSON.parse(text))) wrong.push({ seed: seeds[i], text, last });
      });
    }
    expect(wrong).toEqual([]);
    expect(texts.size).toBe(TRIES);
  },
);

test("white space is what models write, up to a bound where the engine has one", async () => {
  const request = {
    messages: chat("What is the weather in Paris?"),
    sampling: {
      jsonSchema: {
        properties: { city: { enum: ["Paris"] }, unit: { enum: ["celsius"] } },
        required: ["city", "unit"],
        additionalProperties: false,
        type: "object",
      },
      temperature: 0,
    },
  };
  const usual = await complete(engine, request);
  expect(usual.text).toBe('{"city": "Paris", "unit": "celsius"}');
  const compact = await openEngine({ jsonWhitespace: 0 });
  try {
    expect((await complete(compact, request)).text).toBe('{"city":"Paris","unit":"celsius"}');
  } finally {
    await compact.close();
  }
});

const FIELDS = {
  json_schema: "jsonSchema",
  regex: "regex",
  ebnf: "ebnf",
  structural_tag: "structuralTag",
  choice: "choice",
} as const;

function hostileRequest(seed: number): GenerationRequest {
  const { kind, source } = hostileConstraint(seed, { huge: fullTest });
  const messages = chat("Hello!");
  const sampling = { temperature: 1.5, maxNewTokens: 4, seed };
  if (kind === "tools") return { messages, sampling, constraint: { kind, source } };
  const value = kind === "choice" ? asValue(source) : source;
  return { messages, sampling: { ...sampling, [FIELDS[kind]]: value } };
}

/** Where JSON is another value than its text. */
function asValue(source: string): unknown {
  try {
    return JSON.parse(source);
  } catch {
    return source;
  }
}

test("an unknown keyword of a schema is told with its grammar, or refused", async () => {
  const request = { messages: chat("Yes?"), sampling: { jsonSchema: { enum: ["b"], links: [] } } };
  const told: unknown[] = [];
  for await (const { compilation } of engine.generate(request)) {
    if (compilation !== undefined) told.push(compilation.warnings);
  }
  expect(told).toEqual([['Ignored "links": it is no keyword of JSON Schema (at /links)']]);
  const strict = { ...request, sampling: { ...request.sampling, jsonUnknown: "refuse" as const } };
  await expect(complete(engine, strict)).rejects.toThrow("links");
  const odd = { ...request, sampling: { ...request.sampling, jsonUnknown: "maybe" as "refuse" } };
  await expect(complete(engine, odd)).rejects.toThrow("jsonUnknown maybe");
  const order = { ...request, sampling: { ...request.sampling, jsonOrder: "up" as "any" } };
  await expect(complete(engine, order)).rejects.toThrow("jsonOrder up");
});

test("answers stay as they are beside hostile constraints, and the engine goes on", async () => {
  const messages = chat("Who are you?");
  const common = { temperature: 0.8, seed: 7, maxNewTokens: 20, ignoreEos: true };
  const normal: readonly SamplingParams[] = [
    common,
    { ...common, regex: "[a-z]{3,9}( [a-z]{3,9}){2}\\." },
    { ...common, jsonSchema: { type: "array", items: { type: "integer" }, maxItems: 4 } },
  ];
  const answers = () =>
    Promise.all(normal.map((sampling) => complete(engine, { messages, sampling })));
  const tokens = async () => (await answers()).map((answer) => answer.tokens);
  const alone = await tokens();
  const hostile = Array.from({ length: HOSTILE }, (_, i) => {
    return complete(engine, hostileRequest(i + FAMILY_COUNT));
  });
  const outcomes = Promise.allSettled(hostile);
  expect(await tokens()).toEqual(alone);
  const settled = await outcomes;
  const refused = settled.filter((outcome) => outcome.status === "rejected");
  for (const { reason } of refused) expect(reason).toBeInstanceOf(InvalidRequestError);
  expect(refused.length).toBeGreaterThan(0);
  expect(refused.length).toBeLessThan(HOSTILE);
  expect(await tokens()).toEqual(alone);
  expect(engine.status()).toMatchObject({
    healthy: true,
    runningRequests: 0,
    queuedRequests: 0,
    usedTokens: 0,
  });
});
