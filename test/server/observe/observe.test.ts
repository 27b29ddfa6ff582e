import { describe, expect, test } from "vitest";
import type {
  GenerationChunk,
  GenerationEngine,
  GenerationRequest,
} from "../../../src/generation.ts";
import { type Outcome, observe } from "../../../src/server/observe/observe.ts";
import {
  ScriptedEngine,
  type ScriptedEngineOptions,
} from "../../support/engines/scripted_engine.ts";

/** An engine whose requests are watched, and what was seen. */
function watched(options: ScriptedEngineOptions = {}) {
  const engine = new ScriptedEngine(options);
  const seen = { begun: [] as GenerationRequest[], texts: [] as string[], ends: [] as Outcome[] };
  const observed = observe(engine, [
    (request) => {
      seen.begun.push(request);
      return {
        chunk: ({ text }) => seen.texts.push(text),
        end: (outcome) => seen.ends.push(outcome),
      };
    },
  ]);
  return { engine, observed, seen };
}

async function read(engine: GenerationEngine, prompt: string): Promise<GenerationChunk[]> {
  const chunks: GenerationChunk[] = [];
  for await (const chunk of engine.generate({ prompt })) chunks.push(chunk);
  return chunks;
}

describe("observe()", () => {
  test("without observers changes nothing", () => {
    const engine = new ScriptedEngine();
    expect(observe(engine, [])).toBe(engine);
  });

  test("hands on the chunks and tells of them, and of the end once", async () => {
    const { observed, seen } = watched();
    const chunks = await read(observed, "ab");
    expect(chunks.map(({ text }) => text)).toEqual(["a", "b", ""]);
    expect(seen.begun).toEqual([{ prompt: "ab" }]);
    expect(seen.texts).toEqual(["a", "b", ""]);
    expect(seen.ends).toEqual([{ type: "finished", finish: { type: "stop", matched: 1 } }]);
  });

  test("tells nothing of a request whose answer no client reads", () => {
    const { observed, seen } = watched();
    observed.generate({ prompt: "ab" });
    expect(seen.begun).toEqual([]);
  });

  test("a consumer that leaves is an abort, and the engine hears of it", async () => {
    const { observed, seen, engine } = watched();
    for await (const _ of observed.generate({ prompt: "abc" })) break;
    expect(seen.ends).toEqual([{ type: "aborted", message: "the client left" }]);
    expect(engine.cutShort).toHaveLength(1);
    expect(engine.running).toEqual([]);
  });

  test("an aborted signal is an abort", async () => {
    const { observed, seen } = watched();
    const request = { prompt: "a", signal: AbortSignal.abort() };
    const reading = (async () => {
      for await (const _ of observed.generate(request));
    })();
    await expect(reading).rejects.toThrow();
    expect(seen.ends).toEqual([{ type: "aborted", message: "the client left" }]);
  });

  test("an abort by the engine is told with its message", async () => {
    const finish = { type: "abort", message: "the engine is closed" } as const;
    const { observed, seen } = watched({ script: () => ({ pieces: ["a"], finish }) });
    await read(observed, "x");
    expect(seen.ends).toEqual([{ type: "aborted", message: "the engine is closed" }]);
  });

  test("an error is told and thrown", async () => {
    const error = new Error("broken");
    const { observed, seen } = watched({
      script: () => ({ pieces: ["a", "b"], failure: { at: 1, error } }),
    });
    await expect(read(observed, "x")).rejects.toThrow("broken");
    expect(seen.ends).toEqual([{ type: "failed", error }]);
  });

  test("leaves everything else as it is", async () => {
    const { observed, engine } = watched();
    expect(observed.model).toBe(engine.model);
    expect(observed.status()).toEqual(engine.status());
    expect(await observed.flushCache()).toBe(true);
  });
});
