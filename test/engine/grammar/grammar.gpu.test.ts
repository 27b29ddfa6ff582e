import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Engine, LocalRequest } from "../../../src/engine/engine.ts";
import { ModelRunner } from "../../../src/engine/step/model_runner.ts";
import { InvalidRequestError } from "../../../src/errors.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import type { SamplingParams } from "../../../src/sampling_params.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { chat, complete, openEngine } from "../../support/engines/engine.ts";

const TRIES = smallestCaseOnly ? 2 : 8;
const messages = chat("Who are you?");

describe("answers within a grammar", () => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await openEngine();
  });
  afterAll(() => engine.close());

  const answer = (sampling: SamplingParams, request: Partial<LocalRequest> = {}) =>
    complete(engine, { messages, ...request, sampling: { maxNewTokens: 200, ...sampling } });
  const many = (sampling: SamplingParams) =>
    Promise.all(
      Array.from({ length: TRIES }, (_, seed) => answer({ temperature: 1.5, ...sampling, seed })),
    );

  test.each([
    "[a-z]{3,9}( [a-z]{3,9}){2}\\.",
    "(19|20)\\d\\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])",
    "[一-龥]{2,4}",
    "yes|no|perhaps",
  ])("match the whole regular expression %s, however unlikely", async (regex) => {
    for (const { text, last } of await many({ regex })) {
      expect(text).toMatch(new RegExp(`^(?:${regex})$`, "u"));
      expect(last.finish).toMatchObject({ type: "stop" });
    }
  });

  test("match an EBNF grammar", async () => {
    const ebnf = 'root ::= "sum(" number ("," number){1,3} ")"\nnumber ::= [1-9] [0-9]{0,2}';
    for (const { text } of await many({ ebnf })) {
      expect(text).toMatch(/^sum\([1-9]\d{0,2}(,[1-9]\d{0,2}){1,3}\)$/);
    }
  });

  test("fit a JSON schema, at any temperature", async () => {
    const jsonSchema = {
      type: "object",
      properties: {
        name: { type: "string", maxLength: 12 },
        age: { type: "integer", minimum: 0, maximum: 150 },
        tags: { type: "array", items: { enum: ["a", "b", null] }, maxItems: 3 },
      },
      required: ["name", "age"],
      additionalProperties: false,
    };
    for (const { text, last } of await many({ jsonSchema })) {
      expect(last.finish).toMatchObject({ type: "stop" });
      const { name, age, tags = [], ...rest } = JSON.parse(text);
      expect(rest).toEqual({});
      expect([...name].length).toBeLessThanOrEqual(12);
      expect(Number.isInteger(age) && age >= 0 && age <= 150).toBe(true);
      expect(tags.every((tag: unknown) => ["a", "b", null].includes(tag as string))).toBe(true);
      expect(tags.length).toBeLessThanOrEqual(3);
    }
    const any = await answer({ jsonSchema: "$$ANY$$", maxNewTokens: 20, seed: 1 });
    expect(any.tokens.length).toBeGreaterThan(0);
    await expect(answer({ jsonSchema: "{" })).rejects.toThrow("it is not JSON");
    await expect(answer({ jsonSchema: { $dynamicRef: "#a" } })).rejects.toThrow("$dynamicRef");
  });

  test("leave those beside them as they are, in the same steps", async () => {
    const plain = { temperature: 0.8, seed: 7, maxNewTokens: 30, ignoreEos: true };
    const alone = await answer(plain, { logprobs: { topCount: 1 } });
    const constrained = { regex: "[0-9a-f]{40}", seed: 3 };
    const first = await answer(constrained);
    const submit = vi.spyOn(ModelRunner.prototype, "submit");
    const [beside, again] = await Promise.all([
      answer(plain, { logprobs: { topCount: 1 } }),
      answer(constrained),
    ]);
    const together = submit.mock.calls.filter(([, rows]) => {
      return rows.length === 2 && rows.filter(({ mask }) => mask !== undefined).length === 1;
    });
    vi.restoreAllMocks();
    expect(beside).toEqual({ ...alone, last: { ...beside.last, logprobs: alone.last.logprobs } });
    expect(again.tokens).toEqual(first.tokens);
    expect(together.length).toBeGreaterThan(5);
  });

  test("share steps with others in a grammar that came earlier", async () => {
    const submit = vi.spyOn(ModelRunner.prototype, "submit");
    const early = answer({ regex: "[0-9a-f]{30}", seed: 1 });
    while (submit.mock.calls.length < 6) await new Promise((resolve) => setTimeout(resolve));
    await Promise.all([early, answer({ regex: "[0-9a-f]{30}", seed: 2 })]);
    const sizes = submit.mock.calls.map(([, rows]) => rows.length);
    vi.restoreAllMocks();
    expect(sizes.filter((size) => size === 2).length).toBeGreaterThan(6);
  });

  test("end where the grammar ends, whatever minNewTokens and ignoreEos say", async () => {
    const short = await answer({ regex: "ab", minNewTokens: 50, maxNewTokens: 100 });
    expect([short.text, short.last.finish?.type]).toEqual(["ab", "stop"]);
    const ignoring = await answer({ regex: "[ab]{4}", ignoreEos: true });
    expect(ignoring.text).toMatch(/^[ab]{4}$/);
    expect(ignoring.last.finish).toMatchObject({ type: "stop" });
    const cut = await answer({ regex: "[a-z]{100}", maxNewTokens: 3 });
    expect(cut.last.finish).toEqual({ type: "length", length: 3 });
    const stopped = await answer({ regex: "[xy]{40}", stop: "y", temperature: 2 });
    expect(stopped.text).toMatch(/^x*$/);
  });

  test("count what follows without a step in penalties and limits", async () => {
    const { tokens, last } = await answer({
      regex: "(The quick brown fox jumps! ){3}[a-z]{30}",
      repetitionPenalty: 1.5,
      frequencyPenalty: 1,
      maxNewTokens: 25,
    });
    expect(tokens).toHaveLength(25);
    expect(last.finish).toEqual({ type: "length", length: 25 });
  });

  test("are refused before anything is generated, and the engine goes on", async () => {
    await expect(answer({ regex: "a(?=b)" })).rejects.toThrow(GrammarError);
    await expect(answer({ ebnf: "root ::= x" })).rejects.toThrow("x");
    await expect(answer({ regex: "a", ebnf: 'root ::= "a"' })).rejects.toThrow(
      "Cannot use regex and ebnf together: a request has one of regex, jsonSchema, ebnf, structuralTag and choice",
    );
    await expect(answer({ regex: 3 as unknown as string })).rejects.toThrow(InvalidRequestError);
    expect((await answer({ regex: "", maxNewTokens: 2 })).tokens).toHaveLength(2);
    expect(engine.status()).toMatchObject({ runningRequests: 0, queuedRequests: 0, usedTokens: 0 });
  });

  test("may be given up at any time", async () => {
    for (const ticks of [0, 1, 2, 5, 20]) {
      const controller = new AbortController();
      const running = answer({ regex: "[a-z ]{400}" }, { signal: controller.signal });
      for (let i = 0; i < ticks; i++) await new Promise((resolve) => setTimeout(resolve));
      controller.abort();
      await expect(running).rejects.toThrow("aborted");
      expect(engine.status()).toMatchObject({ runningRequests: 0, usedTokens: 0 });
    }
  });
});

test("a backend supports the kinds that its name promises", async () => {
  const messages = chat("Hello!");
  const kinds = {
    regex: "a",
    ebnf: 'root ::= "a"',
    jsonSchema: '{"const": "a"}',
    choice: ["a"],
  } as const;
  for (const [grammarBackend, supported] of [
    ["outlines", ["regex", "jsonSchema", "choice"]],
    ["xgrammar", ["ebnf", "jsonSchema", "choice"]],
    ["none", []],
  ] as const) {
    const engine = await openEngine({ grammarBackend });
    for (const [kind, source] of Object.entries(kinds)) {
      const running = complete(engine, { messages, sampling: { [kind]: source } });
      if ((supported as readonly string[]).includes(kind)) {
        expect((await running).text).toMatch(/^"?a"?$/);
      } else {
        const name = kind === "jsonSchema" ? "json_schema" : kind;
        const problem = `Cannot use ${name}: the grammar backend ${grammarBackend} does not support it`;
        await expect(running).rejects.toThrow(problem);
      }
    }
    await engine.close();
  }
  await expect(openEngine({ grammarBackend: "all" as "auto" })).rejects.toThrow("grammarBackend");
});
