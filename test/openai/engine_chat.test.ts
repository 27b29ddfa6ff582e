/** `engine.chat` of an engine in another thread, as users of WebLLM and of OpenAI's client write. */
import type OpenAI from "openai";
import { expect, test } from "vitest";
import { messagePort, RemoteEngine, serveEngine } from "../../src/index.ts";
import { ScriptedEngine } from "../support/engines/scripted_engine.ts";

async function connected(pieces: readonly string[]) {
  const engine = new ScriptedEngine({ model: { family: "qwen3" }, script: () => ({ pieces }) });
  const { port1, port2 } = new MessageChannel();
  const stop = serveEngine(engine, messagePort(port1));
  const remote = await RemoteEngine.connect(messagePort(port2));
  const close = async () => {
    await remote.close();
    stop();
    port1.close();
  };
  return { engine, remote, close };
}

test("engine.chat answers whole and streamed, in OpenAI's types", async () => {
  const { engine, remote, close } = await connected(["<think>", "Hm", "</think>", "42"]);
  expect(remote).toBeInstanceOf(RemoteEngine);
  const body: OpenAI.ChatCompletionCreateParamsNonStreaming = {
    model: "",
    messages: [{ role: "user", content: "6 * 7?" }],
    temperature: 0.5,
  };
  const whole: OpenAI.ChatCompletion = await remote.chat.completions.create(body);
  expect(whole.choices[0]!.message.content).toBe("42");
  expect(engine.requests[0]!.sampling!.temperature).toBe(0.5);
  let content = "";
  const stream: AsyncIterable<OpenAI.ChatCompletionChunk> = await remote.chat.completions.create({
    ...body,
    stream: true,
  });
  for await (const { choices } of stream) content += choices[0]?.delta.content ?? "";
  expect(content).toBe("42");
  await close();
});

test("engine.chat ends with its signal, and refuses what the endpoint refuses", async () => {
  const { remote, close } = await connected(["a", "b"]);
  const { completions } = remote.chat;
  const body = { messages: [{ role: "user", content: "Hi" }] };
  const signal = AbortSignal.abort();
  await expect(completions.create(body, { signal })).rejects.toMatchObject({ name: "AbortError" });
  const refused = completions.create({ ...body, top_p: 7 });
  await expect(refused).rejects.toMatchObject({ status: 400, param: "top_p" });
  await close();
});
