/** Tokens that take no step: the same as those of steps, or those of the tokenizer. */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { ModelRunner } from "../../../src/engine/step/model_runner.ts";
import type { GenerationRequest } from "../../../src/generation.ts";
import type { SamplingParams } from "../../../src/sampling_params.ts";
import { chat, complete, openEngine } from "../../support/engines/engine.ts";

const messages = chat("Who are you?");
const jsonSchema = {
  type: "object",
  properties: { zyklus: { enum: ["qzx", "wvu"] }, xylo_qq: { type: "integer", maximum: 99 } },
  required: ["zyklus", "xylo_qq"],
  additionalProperties: false,
};
/** Text of rare letters has few spellings; the embedded model has 2,048 tokens. */
const REQUESTS: readonly SamplingParams[] = [
  { regex: "(ZQXJ|ZQWK) [a-z]{4} YQZ[.!]" },
  { jsonSchema },
  { jsonSchema, jsonOrder: "schema" },
  { ebnf: 'root ::= "<<" [a-z]+ ">>" "##XYZ##"' },
  { regex: "[a-c]{3}§§§§[a-c]{3}", stop: ["§§§"] },
  { regex: "[a-c]{2}§§§§§§[a-c]{3}", maxNewTokens: 6 },
  { regex: "(QZX){2}[a-z]{8}", frequencyPenalty: 1, repetitionPenalty: 1.3 },
  { regex: "ZQ|ZX", minNewTokens: 9 },
  { regex: "[a-c]{2}§§", ignoreEos: true },
];

describe("answers whose text a grammar forces", () => {
  const engines: Engine[] = [];
  const open = async (options: Partial<LoadOptions>) => {
    const engine = await openEngine(options);
    engines.push(engine);
    return engine;
  };
  let plain: Engine;
  let forced: Engine;
  beforeAll(async () => {
    plain = await open({ jsonJump: "off" });
    forced = await open({});
  });
  afterAll(async () => {
    await Promise.all(engines.map((engine) => engine.close()));
  });

  /** All answers, one after another, and how many steps they took. */
  async function answers(engine: Engine, more: Partial<GenerationRequest> = {}) {
    const submit = vi.spyOn(ModelRunner.prototype, "submit");
    const all: { readonly text: string; readonly tokens: readonly number[] }[] = [];
    let saved = 0;
    for (const sampling of REQUESTS) {
      for (const seed of [1, 2]) {
        const settings = { temperature: 1.2, maxNewTokens: 60, ...sampling, seed };
        const { text, tokens, last } = await complete(engine, {
          messages,
          ...more,
          sampling: settings,
        });
        all.push({ text, tokens, ...{ finish: last.finish, count: last.completionTokens } });
        saved += last.forcedTokens!;
      }
    }
    const steps = submit.mock.calls.length;
    vi.restoreAllMocks();
    return { all, steps, saved };
  }

  test("have the same tokens as answers of steps, and take fewer of them", async () => {
    const [of, without] = [await answers(forced), await answers(plain)];
    expect(of.all).toEqual(without.all);
    expect([without.saved, of.saved > 20]).toEqual([0, true]);
    expect(of.steps).toBeLessThan(without.steps);
  });

  test("have them with drafts, and beside each other", async () => {
    const drafting = await open({ speculation: { algorithm: "NGRAM", adaptive: "off" } });
    expect((await answers(drafting)).all).toEqual((await answers(plain)).all);
    const request = (seed: number): GenerationRequest => ({
      messages,
      sampling: { ...REQUESTS[0], temperature: 1.2, seed },
    });
    const alone = [await complete(plain, request(1)), await complete(plain, request(2))];
    const beside = await Promise.all([complete(forced, request(1)), complete(forced, request(2))]);
    expect(beside.map(({ tokens }) => tokens)).toEqual(alone.map(({ tokens }) => tokens));
  });

  test("have every log-probability of a step where they have any, to the bit", async () => {
    const logprobs = { topCount: 1 };
    const [of, without] = [await answers(forced, { logprobs }), await answers(plain, { logprobs })];
    expect(of).toEqual(without);
    expect(of.saved).toBe(0);
    const request = { messages, logprobs, sampling: { ...REQUESTS[1], seed: 4 } };
    const told = async (engine: Engine) => {
      const all: unknown[] = [];
      for await (const chunk of engine.generate(request)) all.push(...(chunk.logprobs ?? []));
      return all;
    };
    expect(await told(forced)).toEqual(await told(plain));
  });

  test("end within forced text when they are aborted, and stream it as it comes", async () => {
    const controller = new AbortController();
    const request = {
      messages,
      signal: controller.signal,
      sampling: { regex: "(QZX){200}", maxNewTokens: 400 },
    };
    const finishes: unknown[] = [];
    for await (const { tokens, finish } of forced.generate(request)) {
      if (tokens.length > 0) controller.abort();
      finishes.push(finish?.type ?? null);
    }
    expect(finishes.at(-1)).toMatch(/abort|stop|length/);
    const chunks: number[] = [];
    for await (const { tokens } of forced.generate({ messages, sampling: REQUESTS[0]! })) {
      if (tokens.length > 0) chunks.push(tokens.length);
    }
    expect(chunks.length).toBeGreaterThan(1);
  });

  test("are spelled by the tokenizer where that is asked for, in fewer steps still", async () => {
    const respelling = await open({ jsonJump: "retokenize" });
    const sentence = "The quick brown fox jumps over the lazy dog, or so they say";
    const sampling = { regex: `${sentence}[.!]`, maxNewTokens: 100 };
    const saved: number[] = [];
    for (const engine of [plain, forced, respelling]) {
      const { text, last } = await complete(engine, { messages, sampling });
      expect(text.slice(0, -1)).toBe(sentence);
      saved.push(last.forcedTokens!);
    }
    expect(saved).toEqual(saved.toSorted((a, b) => a - b));
    expect(saved[2]).toBeGreaterThan(10);
    const { all } = await answers(respelling);
    expect(Object.keys(JSON.parse(all[4]!.text))).toEqual(["zyklus", "xylo_qq"]);
  });
});
