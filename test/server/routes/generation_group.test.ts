import { expect, test } from "vitest";
import { GenerationGroup } from "../../../src/server/generation_group.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";

const forever = new AbortController().signal;

async function textOf(group: GenerationGroup, count: number): Promise<string[]> {
  const texts = new Array<string>(count).fill("");
  for await (const { index, chunk } of group) texts[index] += chunk.text;
  return texts;
}

test("GenerationGroup hands on every chunk of every generation", async () => {
  const engine = new ScriptedEngine();
  const prompts = ["a", "bc".repeat(30), "d"];
  const requests = prompts.map((prompt) => ({ prompt }));
  const group = await GenerationGroup.start(engine, requests, forever);
  expect(await textOf(group, 3)).toEqual(prompts);
  expect(engine.running).toEqual([]);
  expect(await group.next()).toEqual({ done: true, value: undefined });
});

test("GenerationGroup goes on with fast generations while one is slow", async () => {
  let release = () => {};
  const slow = new Promise<void>((resolve) => {
    release = resolve;
  });
  const gate = (chunk: number) => (chunk === 1 ? slow : Promise.resolve());
  const engine = new ScriptedEngine({
    script: ({ prompt }) => (prompt === "slow" ? { gate } : {}),
  });
  const requests = [{ prompt: "slow" }, { prompt: "fast" }];
  const group = await GenerationGroup.start(engine, requests, forever);
  const order: number[] = [];
  for await (const { index, chunk } of group) {
    order.push(index);
    if (index === 1 && chunk.finish !== null) release();
  }
  expect(order.filter((index) => index === 0)).toHaveLength(5);
  const secondOfSlow = order.indexOf(0, order.indexOf(0) + 1);
  expect(order.lastIndexOf(1)).toBeLessThan(secondOfSlow);
});

test("GenerationGroup stops everything when its loop is left", async () => {
  const engine = new ScriptedEngine();
  const requests = [{ prompt: "abc" }, { prompt: "def" }];
  const group = await GenerationGroup.start(engine, requests, forever);
  for await (const _ of group) break;
  expect(engine.running).toEqual([]);
  expect(engine.cutShort).toEqual(["scripted-1", "scripted-2"]);
});

test("GenerationGroup rejects with an AbortError when the signal fires", async () => {
  const client = new AbortController();
  const engine = new ScriptedEngine();
  const group = await GenerationGroup.start(engine, [{ prompt: "abc" }], client.signal);
  await group.next();
  client.abort();
  await expect(group.next()).rejects.toMatchObject({ name: "AbortError" });
  expect(engine.cutShort).toEqual(["scripted-1"]);
});

test("GenerationGroup ends a pending next() when it is returned", async () => {
  const gate = (chunk: number) => (chunk === 1 ? new Promise<void>(() => {}) : Promise.resolve());
  const engine = new ScriptedEngine({ script: () => ({ gate }) });
  const group = await GenerationGroup.start(engine, [{ prompt: "abc" }], forever);
  await group.next();
  const pending = group.next();
  await group.return();
  expect(await pending).toEqual({ done: true, value: undefined });
});

test("GenerationGroup stops an engine that only knows return()", async () => {
  const engine = new ScriptedEngine();
  let returned = false;
  engine.generate = () => {
    const chunks = new ScriptedEngine().generate({ prompt: "abc" });
    const iterator: AsyncGenerator = Object.create(chunks);
    iterator.next = () => chunks.next();
    iterator.return = () => {
      returned = true;
      return chunks.return();
    };
    iterator[Symbol.asyncIterator] = () => iterator;
    return iterator as typeof chunks;
  };
  const group = await GenerationGroup.start(engine, [{ prompt: "abc" }], forever);
  await group.return();
  expect(returned).toBe(true);
});

test("GenerationGroup tells of the first failure only", async () => {
  const first = new Error("first");
  const engine = new ScriptedEngine({
    script: ({ prompt }) => (prompt === "bad" ? { failure: { at: 1, error: first } } : {}),
  });
  const requests = [{ prompt: "abcdef" }, { prompt: "bad" }];
  const group = await GenerationGroup.start(engine, requests, forever);
  await expect(textOf(group, 2)).rejects.toBe(first);
  expect(engine.running).toEqual([]);
});

test("GenerationGroup leaves no listener on the client's signal", async () => {
  const { signal } = new AbortController();
  const listeners = new Set<unknown>();
  const add = signal.addEventListener.bind(signal);
  signal.addEventListener = (type: string, listener: EventListener) => {
    listeners.add(listener);
    add(type, listener);
  };
  signal.removeEventListener = (_: string, listener: unknown) => void listeners.delete(listener);
  const group = await GenerationGroup.start(new ScriptedEngine(), [{ prompt: "abc" }], signal);
  expect(listeners.size).toBe(1);
  await textOf(group, 1);
  expect(listeners.size).toBe(0);
});

test("GenerationGroup puts no more than one listener on a signal, however many prompts", async () => {
  const engine = new ScriptedEngine();
  const signals = new Set<AbortSignal | undefined>();
  const generate = engine.generate.bind(engine);
  engine.generate = (request) => {
    signals.add(request.signal);
    return generate(request);
  };
  const requests = Array.from({ length: 20 }, () => ({ prompt: "a" }));
  const group = await GenerationGroup.start(engine, requests, forever);
  await textOf(group, 20);
  expect(signals.size).toBe(20);
});
